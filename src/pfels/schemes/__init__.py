"""The schemes, by name. A new one is a file in this folder and a line in this table."""

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from torch import Tensor

    from pfels.link import Link, Tally
    from pfels.system import System

SCHEMES = {
    "pfels": "pfels.schemes.pfels",
    "wfl-p": "pfels.schemes.wfl_p",
    "wfl-pdp": "pfels.schemes.wfl_pdp",
    "dp-fedavg": "pfels.schemes.dp_fedavg",
    "fedavg": "pfels.schemes.fedavg",
    "pfels-plus": "pfels.schemes.pfels_plus",
}
POISSON_ONLY = {"pfels-plus"}  # these draw Poisson cohorts whatever the config says


class Scheme(Protocol):
    """What a scheme's file offers."""

    def prepare(self, system: "System", t: int) -> "Link":
        """Settle who takes part in round t, over which channel and at what level, before anyone trains."""

    def play(self, system: "System", link: "Link", theta: "Tensor", t: int, tally: "Tally") -> "Tensor":
        """The server's estimate of the cohort's mean update."""


def load_scheme(name: str) -> Scheme:
    """The scheme of that name, imported when it is first needed."""
    return cast("Scheme", import_module(SCHEMES[name]))
