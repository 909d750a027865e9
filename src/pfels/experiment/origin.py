"""Where the model of a result comes from: a run that ended here, or one that is read from its directory."""

from copy import deepcopy
from functools import partial
from pathlib import Path

from torch import Tensor

from pfels.config.tree import Config
from pfels.data.checksums import checksums, same
from pfels.documents.run import Environment, Summary
from pfels.errors import InputError
from pfels.experiment.assumptions import with_assumptions
from pfels.experiment.card import Facts, scored
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.delivery import Origin, fingerprint
from pfels.experiment.deployment import checked_privacy
from pfels.experiment.directory import RunDirectory
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import Example, example, link_of
from pfels.experiment.setup import Experiment
from pfels.experiment.state import delivered


def made_here(
    experiment: Experiment, about: Environment, summary: Summary, model: Tensor, directory: Path | None = None
) -> Origin:
    """Of a run that has just ended with this model."""
    config, federation = experiment.config, experiment.federation
    seen = Example(federation.shape, federation.classes)
    privacy = deepcopy(summary["privacy"])  # the summary is the caller's, who may change it
    facts = Facts(config, about, privacy, scored(summary), summary["dimension"], directory)
    return Origin(config, fingerprint(model), lambda: seen, lambda: facts)


def stored(directory: RunDirectory, summary: Summary, last: Checkpoint) -> Origin:
    """Of a finished run that is read."""
    config = directory.config
    weights = fingerprint(delivered(last.tensors))
    return Origin(config, weights, partial(_example, config, directory), partial(_facts, directory, summary, last))


def _facts(directory: RunDirectory, summary: Summary, last: Checkpoint) -> Facts:
    """The privacy figures are computed anew from the last checkpoint, and accuracy and loss are those of the log, which
    the checkpoint vouches for: what they can tell is not taken from the summary."""
    config, about, dimension = directory.config, directory.environment, len(last.tensors["theta"])
    link = link_of(config, dimension=dimension)
    ledger = Ledger.restore(last.tensors, last.totals, devices=config.data.devices)
    deployed = "carrier" in about
    privacy = with_assumptions(
        ledger.privacy(link.setting), ledger.server, link, rounds=last.round, over_air=not deployed
    )
    if deployed:
        privacy = checked_privacy(privacy, about)
    if not summary["privacy"].get("audited", True):
        privacy["audited"] = False  # code from outside played the rounds
    score, final = scored(summary), directory.records(last.mark)[-1]
    if final["test_accuracy"] is not None:
        score["accuracy"], score["loss"] = final["test_accuracy"], final["test_loss"]
    return Facts(config, about, privacy, score, dimension, directory.path)


def _example(config: Config, directory: RunDirectory) -> Example:
    """What an example looks like. The user's own data are read to find out, and must be those of the run."""
    data, recorded = config.data, directory.environment.get("data")
    if data.path is not None and not Path(data.path).exists():
        raise InputError(
            f"{data.path}: no such file; the network's shape follows from it, so data.path must lead to it"
        )
    if data.name == "file" and recorded and not same(recorded, checksums(data.name, data.path)):
        raise InputError(f"{data.path}: not the data of the run (environment.json has their checksums)")
    return example(config)
