"""Private federated learning over the air.

>>> import pfels
>>> result = pfels.run(pfels.load_config("demo", {"rounds": 10}))
>>> sorted(result.summary)[:3]
['accuracy', 'airtime_s', 'dimension']
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfels.config.load import load_config
    from pfels.config.tree import Config
    from pfels.errors import InputError
    from pfels.experiment.loop import Result, run
    from pfels.privacy.calibration import Footing
    from pfels.studies.compare import compare
    from pfels.studies.plan import plan

__version__ = version("pfels")
__all__ = ["Config", "Footing", "InputError", "Result", "compare", "load_config", "plan", "run"]

_HOME = {
    "Config": "pfels.config.tree",
    "Footing": "pfels.privacy.calibration",
    "InputError": "pfels.errors",
    "load_config": "pfels.config.load",
    "Result": "pfels.experiment.loop",
    "run": "pfels.experiment.loop",
    "compare": "pfels.studies.compare",
    "plan": "pfels.studies.plan",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that `pfels --help` need not wait for PyTorch."""
    if name not in _HOME:
        raise AttributeError(f"module 'pfels' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
