"""The schemes, by name. A new one is a file in this folder and a line in this table."""

from importlib import import_module
from typing import cast

from pfels.schemes.scheme import Scheme

SCHEMES = {
    "pfels": "pfels.schemes.pfels",
    "wfl-p": "pfels.schemes.wfl_p",
    "wfl-pdp": "pfels.schemes.wfl_pdp",
    "dp-fedavg": "pfels.schemes.dp_fedavg",
    "fedavg": "pfels.schemes.fedavg",
    "pfels-plus": "pfels.schemes.pfels_plus",
}

POISSON_ONLY = {"pfels-plus"}  # these draw Poisson cohorts whatever the config says
CLAIMING = {"pfels", "wfl-pdp", "dp-fedavg"}  # these know the paper's ε for a round


def load_scheme(name: str) -> Scheme:
    """The scheme of that name, imported when it is first needed."""
    return cast("Scheme", import_module(SCHEMES[name]))
