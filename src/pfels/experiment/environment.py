"""What a run was made with."""

import os
import platform
from importlib.metadata import version

from pfels.documents.run import Environment


def environment() -> Environment:
    """The versions and the machine that a run was made with."""
    packages = ("pfels", "torch", "numpy", "scipy", "dp-accounting")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": {name: version(name) for name in packages},
    }
