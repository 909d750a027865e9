"""The ServerApp: reads the run config, plays the rounds, and says how each went."""

from collections.abc import Mapping
from logging import ERROR, INFO
from statistics import fmean
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore import log

from pfels.errors import GuardError, InputError, RunError
from pfels.experiment.loop import Result
from pfels.flower import settings
from pfels.flower.strategy import OverTheAir

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run to the end; started again with the same `out`, go on from the last round."""
    try:
        wanted = settings.read(context.run_config)
        strategy = OverTheAir(wanted, progress=_tell)
        strategy.start(grid)
    except (InputError, RunError, GuardError) as error:
        log(ERROR, "error: %s", error)  # Flower adds where in the code that was
        raise
    assert strategy.finished is not None
    for line in told(strategy.finished):
        log(INFO, "%s", line)
    log(INFO, "run directory: %s", wanted.out.absolute())


def told(result: Result) -> list[str]:
    """A finished run in a few lines: accuracy, privacy with all that belongs to it, and what a device uploaded."""
    summary = result.summary
    d, server = summary["dimension"], summary["privacy"]["server"]
    on_air = summary["energy"] is not None
    seen = "a server that sees only the noisy sums" if on_air else "the server"
    sent = [r["replies"]["bytes_per_device"] for r in result.records if r["replies"]["bytes_per_device"] is not None]
    lines = [
        f"accuracy {summary['accuracy']:.4f} after {summary['rounds']} rounds",
        f"ε = {server['display']} over the whole training at δ = {server['delta']:g} against {seen}, for the worst "
        "device; neighbours: one device's data emptied",
    ]
    if sent:
        k = result.records[0]["subcarriers"] if on_air else d
        lines.append(
            f"a device uploads {fmean(sent):,.0f} bytes a round (4k = {4 * k:,}); FedAvg would upload {4 * d:,}"
        )
    return lines


def _tell(record: Mapping[str, Any]) -> None:
    """One line a round: who answered, and what could not be used."""
    replies = record["replies"]
    dropped = ", ".join(f"{count} {reason}" for reason, count in replies["dropped"].items())
    log(
        INFO,
        "round %d: %d of %d devices heard%s%s",
        record["round"] + 1,
        replies["used"],
        replies["expected"],
        ", short" if replies["short"] else "",
        f"; dropped: {dropped}" if dropped else "",
    )
