"""A run without its training: every round's cohort, channel and level, which no update can change."""

from pfels.assembly import Experiment
from pfels.channel import slots
from pfels.ledger import Ledger
from pfels.link import Tally


def rehearse(experiment: Experiment) -> Ledger:
    """The ledger that a run will end with, but for the energy actually spent."""
    config = experiment.config
    ledger = Ledger.empty(devices=config.data.devices)
    for t in range(config.rounds):
        link = experiment.scheme.prepare(experiment.system, t)
        ledger = ledger.after(link, Tally(), slots=slots(link.subcarriers, subcarriers=config.channel.subcarriers))
    return ledger
