"""What a run was made with."""

import os
import platform
from functools import cache
from importlib.metadata import version

from pfels.documents.run import Environment


def environment() -> Environment:
    """The versions and the machine that a run was made with."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: _version(name) for name in ("pfels", "torch", "numpy", "scipy", "dp-accounting")},
    }


@cache  # it is read from a package's metadata, which takes longer than a round
def _version(package: str) -> str:
    return version(package)
