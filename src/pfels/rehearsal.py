"""A run without its training: every round's cohort, channel and level, which no update can change."""

from pfels.assembly import Experiment
from pfels.foresight import foresee
from pfels.ledger import Ledger


def rehearse(experiment: Experiment) -> Ledger:
    """The ledger that a run will end with, but for the energy actually spent."""
    config = experiment.config
    systems = {config.scheme: experiment.system}
    return foresee(systems, rounds=config.rounds, subcarriers=config.channel.subcarriers)[config.scheme].ledger()
