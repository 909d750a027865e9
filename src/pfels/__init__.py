"""Private federated learning over the air.

>>> import pfels
>>> result = pfels.run(pfels.load_config("demo", {"rounds": 10}))
>>> sorted(result.summary)[:3]
['accuracy', 'airtime_s', 'dimension']
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfels.comparison import compare
    from pfels.config import Config, load_config
    from pfels.errors import InputError
    from pfels.experiment import Result, run
    from pfels.footing import Footing
    from pfels.planning import plan

__version__ = version("pfels")
__all__ = ["Config", "Footing", "InputError", "Result", "compare", "load_config", "plan", "run"]

_HOME = {
    "Config": "pfels.config",
    "Footing": "pfels.footing",
    "InputError": "pfels.errors",
    "load_config": "pfels.config",
    "Result": "pfels.experiment",
    "run": "pfels.experiment",
    "compare": "pfels.comparison",
    "plan": "pfels.planning",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that `pfels --help` need not wait for PyTorch."""
    if name not in _HOME:
        raise AttributeError(f"module 'pfels' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
