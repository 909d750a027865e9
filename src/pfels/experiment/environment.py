"""What a run was made with."""

import os
import platform
from functools import cache
from importlib.metadata import version

from pfels.data.checksums import checksums
from pfels.documents.run import Environment, ForeignCode
from pfels.experiment.deployment import Deployment
from pfels.experiment.setup import Experiment


def environment(experiment: Experiment, deployment: Deployment | None, code: list[ForeignCode]) -> Environment:
    """What an experiment is made with: versions, machine, engine, code from outside, the user's own
    data, and what carries the rounds."""
    data = experiment.config.data
    about: Environment = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: _version(name) for name in ("pfels", "torch", "numpy", "scipy", "dp-accounting")},
        "engine": experiment.training.engine,
    }
    if code:
        about["code"] = code
    if own := checksums(data.name, data.path):
        about["data"] = own
    if experiment.data_notes:
        about["data_notes"] = list(experiment.data_notes)
    if deployment is not None:
        about |= deployment.environment()
    return about


@cache  # it is read from a package's metadata, which takes longer than a round
def _version(package: str) -> str:
    return version(package)
