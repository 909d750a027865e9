"""What do imperfect radios cost? Accuracy on one budget against gain, phase and timing errors, and clipped peaks.

python docs/studies/impairments.py demo --jobs 2
python docs/studies/impairments.py fashion --jobs 2

Each scheme at the preset's tuned settings, a budget against the server for the whole training (ε = 16 on the demo, 8 on
fashion). A timing error counts in fractions of 1/bandwidth, 20 ns here. Finished runs are read, so the same command
continues where it stopped.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from pfels.paper.reproduce import write_files
from pfels.privacy.calibration import Budget
from pfels.report.terminal import spread
from pfels.studies.compare import compare

BUDGETS = {"demo": 16.0, "fashion": 8.0}
LOOKS = {"pfels": ("#c0392b", "s"), "pfels-plus": ("#7d3c98", "P"), "pfels-echo": ("#b8860b", "*")}
IMPAIRMENTS: dict[str, tuple[str, tuple[float, ...]]] = {
    "csi_error_db": ("gain error, dB", (1.0, 3.0, 6.0)),
    "phase_error_deg": ("phase error, degrees", (30.0, 60.0, 90.0)),
    "timing_error_us": ("timing error, µs", (0.005, 0.01, 0.02)),
    "clipping_db": ("clipping above mean power, dB", (6.0, 3.0, 0.0)),
}


def rows_at(preset: str, key: str | None, level: float | None, **how: Any) -> list[dict[str, Any]]:
    """One row per scheme with one impairment at one level; with none where `key` is None."""
    changed: dict[str, Any] = {"run.checkpoint_every": 10**6, "run.eval_every": 10**6}
    name = "none" if key is None else f"{key}-{level:g}"
    if key is not None:
        changed[f"channel.{key}"] = level
    table = compare(
        preset, schemes=list(LOOKS), seeds=how["seeds"], overrides=changed, budget=Budget(BUDGETS[preset], "server"),
        jobs=how["jobs"], out=how["out"] / "runs" / name,
    )["schemes"]  # fmt: skip
    rows = []
    for scheme, row in table.items():
        print(f"{scheme:11} {name:22} {spread(row['accuracy'], '.4f')}", flush=True)
        server = row["privacy"]["server"]
        rows.append(
            {
                "scheme": scheme, "impairment": key or "none", "level": level, "accuracy": row["accuracy"],
                "energy": row["energy"], "server_epsilon": server["epsilon"], "delta": server["delta"],
            }
        )  # fmt: skip
    return rows


def draw(rows: list[dict[str, Any]], path: Path, *, title: str) -> None:
    """One panel per impairment: mean over the seeds with its standard error, starting from none."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, panels = plt.subplots(1, 4, figsize=(11, 3.4), sharey=True, layout="constrained")
    for panel, (key, (label, levels)) in zip(panels, IMPAIRMENTS.items(), strict=True):
        for scheme, (colour, marker) in LOOKS.items():
            mine = [row for row in rows if row["scheme"] == scheme and row["impairment"] in ("none", key)]
            means = [row["accuracy"]["mean"] for row in mine]
            errors = [row["accuracy"]["standard_error"] or 0.0 for row in mine]
            panel.errorbar(range(len(mine)), means, errors, capsize=2, color=colour, marker=marker, label=scheme)
        panel.set_xticks(range(len(levels) + 1), ["none", *(f"{level:g}" for level in levels)])
        panel.set(xlabel=label)
        panel.grid(alpha=0.25)
    panels[0].set(ylabel="test accuracy")
    figure.suptitle(title, fontsize=9)
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=160)


def main() -> None:
    """Run every point, write the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=sorted(BUDGETS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/impairments"))
    asked = parser.parse_args()
    seeds, out = [int(seed) for seed in asked.seeds.split(",")], asked.out / asked.preset
    how = {"seeds": seeds, "jobs": asked.jobs, "out": out}
    rows = rows_at(asked.preset, None, None, **how)
    for key, (_, levels) in IMPAIRMENTS.items():
        for level in levels:
            rows += rows_at(asked.preset, key, level, **how)
    print("\n".join(write_files({"points": rows, "seeds": seeds}, "table", out / f"impairments-{asked.preset}")))
    title = f"{asked.preset}, ε = {BUDGETS[asked.preset]:g} against the server, {len(seeds)} seeds"
    draw(rows, out / f"impairments-{asked.preset}.png", title=title)


if __name__ == "__main__":
    main()
