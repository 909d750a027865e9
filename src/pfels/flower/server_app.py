"""The ServerApp: reads the run config, plays the rounds, and logs a line per round."""

from logging import ERROR, INFO
from statistics import fmean

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore import log

from pfels.documents.run import RoundRecord
from pfels.errors import GuardError, InputError, RunError
from pfels.experiment.result import Result
from pfels.flower import settings
from pfels.flower.strategy import OverTheAir

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run to the end; started again with the same `out`, continue from the last round."""
    try:
        wanted = settings.read(context.run_config)
        strategy = OverTheAir(wanted, progress=log_round)
        strategy.start(grid)
    except (InputError, RunError, GuardError) as error:
        log(ERROR, "error: %s", error)  # Flower adds a traceback
        raise
    assert strategy.finished is not None
    for line in summary_lines(strategy.finished):
        log(INFO, "%s", line)
    log(INFO, "run directory: %s", wanted.out.absolute())


def summary_lines(result: Result) -> list[str]:
    """A finished run in a few lines: accuracy, privacy with what it refers to, and the upload per device."""
    summary = result.summary
    d, server = summary["dimension"], summary["privacy"]["server"]
    on_air = summary["energy"] is not None
    adversary = "a server that sees only the noisy sums" if on_air else "the server"
    uploads = [r["replies"]["bytes_per_device"] for r in result.records]
    sent = [mean for mean in uploads if mean is not None]
    lines = [
        f"accuracy {summary['accuracy']:.4f} after {summary['rounds']} rounds",
        f"ε = {server['display']} over the whole training at δ = {server['delta']:g} against {adversary}, for the "
        "worst device; neighbours: one device's data emptied",
    ]
    if sent:
        k = result.records[0]["subcarriers"] if on_air else d
        lines.append(
            f"a device uploads {fmean(sent):,.0f} bytes per round (4k = {4 * k:,}); FedAvg would upload {4 * d:,}"
        )
    return lines


def log_round(record: RoundRecord) -> None:
    """One line per round: how many devices were heard, and what could not be used."""
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
