"""The picture of docs/performance.md: CPU seconds per round of all sides, from the JSON of bench.py and peers.py.

python benchmarks/picture.py docs/results/bench.json docs/results/bench-peers.json docs/images/performance.png
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

OURS, OTHERS = "#c0392b", "#8a8f98"


def bars(bench: Path, peers: Path) -> dict[str, dict[str, float]]:
    """CPU seconds per round by work and side; a side of several contests counts once, with its minimum."""
    found: dict[str, dict[str, float]] = {}
    if peers.exists():
        for contest in json.loads(peers.read_text())["contests"]:
            sides = found.setdefault(contest["work"], {})
            for side, row in contest["sides"].items():
                name = side.replace("pfels", "pfels fedavg")
                sides[name] = min(row["cpu_seconds"], sides.get(name, float("inf")))
    for work, figures in json.loads(bench.read_text()).items():
        if isinstance(figures, dict) and "work" in figures and work not in found:
            found[work] = {side: row["cpu_seconds"] for side, row in figures["sides"].items()}
    return found


def main() -> None:
    """Draw one panel per work."""
    bench, peers, out = (Path(argument) for argument in sys.argv[1:4])
    works = {name: sides for name, sides in bars(bench, peers).items() if name != "demo"}
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    heights = [len(sides) for sides in works.values()]
    figure, panels = plt.subplots(
        len(works), 1, figsize=(7.5, 0.9 + 0.32 * sum(heights) + 0.6 * len(works)), layout="constrained",
        gridspec_kw={"height_ratios": heights}, squeeze=False,
    )  # fmt: skip
    for panel, (name, sides) in zip(panels[:, 0], works.items(), strict=True):
        ordered = sorted(sides.items(), key=lambda side: -side[1])
        colours = [OURS if "pfels" in side or "fedavg" in side else OTHERS for side, _ in ordered]
        drawn = panel.barh([side for side, _ in ordered], [seconds for _, seconds in ordered], color=colours)
        panel.bar_label(drawn, fmt="%.3g", padding=3)
        panel.set(title=name, xlim=(0, 1.12 * ordered[0][1]))
        panel.title.set_position((0, 1))
    panels[-1, 0].set_xlabel("CPU seconds per round")
    figure.savefig(out, dpi=160)


if __name__ == "__main__":
    main()
