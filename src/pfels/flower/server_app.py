"""The ServerApp: reads the run config, plays the rounds, and says how each went."""

from collections.abc import Mapping
from logging import INFO
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore import log

from pfels.flower import settings
from pfels.flower.strategy import OverTheAir

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run to the end; started again with the same `out`, go on from the last round."""
    wanted = settings.read(context.run_config)
    strategy = OverTheAir(wanted, progress=_tell)
    strategy.start(grid)
    assert strategy.finished is not None
    summary = strategy.finished.summary
    server = summary["privacy"]["server"]
    log(INFO, "accuracy %.4f after %d rounds; run directory: %s", summary["accuracy"], summary["rounds"], wanted.out)
    log(INFO, "privacy: %s", server)


def _tell(record: Mapping[str, Any]) -> None:
    """One line a round: who answered, and what a device sent beside what FedAvg would have it send."""
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
