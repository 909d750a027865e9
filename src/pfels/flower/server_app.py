"""The ServerApp: reads the run config, plays the rounds, and logs a line per round."""

from collections.abc import Sequence
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
from pfels.report.terminal import data_sentences
from pfels.schemes.registry import is_foreign

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
    """A finished run in a few lines: accuracy, privacy with what it refers to, and the uploads."""
    summary = result.summary
    server, on_air = summary["privacy"]["server"], summary["energy"] is not None
    adversary = "a server that sees only the noisy sums" if on_air else "the server"
    lines = [f"accuracy {summary['accuracy']:.4f} after {summary['rounds']} rounds"]
    if not server["valid"]:
        lines.append(f"no privacy figure holds: {server['why']}")
    if server["epsilon"] is not None:
        lines.append(
            f"ε = {server['display']} over the whole training at δ = {server['delta']:g} against {adversary}, for the "
            "worst device; neighbours: one device's data emptied"
        )
    lines += data_sentences([summary["privacy"]])
    if is_foreign(summary["scheme"]):
        lines.append(f"not audited: {summary['scheme']} is a scheme from outside pfels")
    answered = [r for r in result.records if r["replies"]["bytes_per_device"] is not None]
    return [*lines, _uploads(answered, summary["dimension"], on_air=on_air)] if answered else lines


def _uploads(records: Sequence[RoundRecord], d: int, *, on_air: bool) -> str:
    """What a device uploads in a round, and what all of them do in these rounds."""
    k = records[0]["subcarriers"] if on_air else d
    means = [record["replies"]["bytes_per_device"] or 0.0 for record in records]
    used = [record["replies"]["used"] for record in records]
    echoes = sum(record.get("echoes", 0) for record in records)
    again = f", {echoes:,} of them of what a device sent before" if echoes else ""
    total = sum(mean * count for mean, count in zip(means, used, strict=True))
    return (
        f"a device uploads {fmean(means):,.0f} bytes per round (4k = {4 * k:,}); FedAvg would upload {4 * d:,}; "
        f"in the whole training {total / 1e6:,.1f} MB in {sum(used):,} uploads{again}"
    )


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
