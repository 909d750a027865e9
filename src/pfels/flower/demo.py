"""`make demo-flower`: the demo on a real SuperLink and real SuperNodes, compared with the simulator.

python -P -m pfels.flower.demo [OUT]
"""

import shutil
import sys
import tempfile
from pathlib import Path

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.documents.run import Summary
from pfels.documents.studies import Comparison
from pfels.errors import InputError
from pfels.experiment import loop
from pfels.experiment.directory import check, point_name
from pfels.flower.loopback import Loopback
from pfels.flower.server_app import summary_lines
from pfels.report import comparison
from pfels.report.page import write_report
from pfels.report.terminal import print_table, say
from pfels.runtime.signals import interrupt_once
from pfels.schemes.registry import AIR, scheme_entry, usable_schemes
from pfels.studies.compare import compared

NODES = 4
ROUNDS = 10
# Every scheme over the air whose noise a budget sets.
SCHEMES = [name for name in usable_schemes() if scheme_entry(name).budget and scheme_entry(name).uses >= AIR]
TOLERANCE = 1e-6  # relative, over the whole model
AGAINST = (
    "Against whom: the figures describe a server that sees only the noisy sums, as a radio receiver does. They do not "
    "hold against the operator of this digital server, who receives each signal separately. Here they do not hold "
    'against anyone who knows the seed either: the noise was drawn from it (noise = "seed"), to compare the models '
    "with the simulator's."
)


def main(out: Path) -> int:
    """Run, compare with the simulator, and write the report; 1 if a run fails or the two do not agree."""
    configs = {s: load_config("demo", {"scheme": s, "rounds": ROUNDS, "run.checkpoint_every": 1}) for s in SCHEMES}
    places = {scheme: out.absolute() / point_name({"scheme": scheme, "seed": 0}) for scheme in SCHEMES}
    for scheme in SCHEMES:
        if check(places[scheme], configs[scheme]):
            shutil.rmtree(places[scheme])  # from an earlier demo
    runs: dict[str, list[Summary]] = {}
    lines: list[str] = []
    largest = 0.0
    with tempfile.TemporaryDirectory() as home, Loopback.up(Path(home), nodes=NODES) as deployment:
        for scheme, config in configs.items():
            here = places[scheme]
            say(f"{scheme}: {ROUNDS} rounds on {NODES} SuperNodes")
            output = deployment.run({"scheme": scheme, "rounds": ROUNDS, "out": str(here), "noise": "seed"})
            if not (here / "summary.json").exists():
                say(output)
                return 1
            summary, line, difference = _beside_simulator(config, here)
            runs[scheme] = [summary]
            lines.append(f"{scheme}: {line}")
            largest = max(largest, difference)
    table = compared(runs)
    title = f"demo on Flower: {ROUNDS} rounds, {NODES} SuperNodes"
    notes = [*table_notes(table), "", *lines]
    print_table(comparison.COLUMNS, comparison.rows(table), title=title, notes=notes)
    print(f"report: {write_report([out])['report']}")
    return 0 if largest <= TOLERANCE else 1


def table_notes(table: Comparison) -> list[str]:
    """What the table's columns mean, and against whom its figures hold."""
    return [AGAINST, *comparison.notes(table)]


def _beside_simulator(config: Config, here: Path) -> tuple[Summary, str, float]:
    """The summary of a finished run, a line about it, and how far its model is from the simulator's (relative)."""
    result, simulated = loop.run(config, here), loop.run(config)
    difference = float((result.parameters - simulated.parameters).norm() / simulated.parameters.norm())
    line = f"{summary_lines(result)[-1]}; the model is the simulator's up to {difference:.1e}"
    return result.summary, line, difference


if __name__ == "__main__":
    interrupt_once()  # so that no process of the deployment is left running
    try:
        sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo-flower")))
    except InputError as error:
        say(f"error: {error}")
        sys.exit(2)
