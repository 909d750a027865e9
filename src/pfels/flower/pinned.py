"""What a node of `pfels.flower.node` starts for every message, in place of Flower's `flwr-clientapp`: the same program,
which neither unpacks the app of the run nor loads anything from it."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from flwr.clientapp import ClientApp
from flwr.supernode.cli import flwr_clientapp

from pfels.errors import RunError
from pfels.flower.installed_app import require_installed

REPLACED = ("install_from_fab", "get_load_client_app_fn", "install_app_dependencies")


def checked(fab: bytes, *_: Any, **__: Any) -> None:
    """In place of unpacking the app: compare it with the installed one."""
    require_installed(fab)


def installed(*_: Any, **__: Any) -> Callable[..., ClientApp]:
    """In place of loading the app from the run: the installed one."""
    from pfels.flower.client_app import app

    return lambda *_: app


def nothing(*_: Any, **__: Any) -> None:
    """In place of installing what the app depends on."""


def main() -> None:
    """Answer one message."""
    flower = import_module("flwr.supernode.runtime.run_clientapp")
    for name, own in zip(REPLACED, (checked, installed, nothing), strict=True):
        if not callable(getattr(flower, name, None)):
            raise RunError(f"flwr has no {name}: this version of Flower cannot be pinned")
        setattr(flower, name, own)
    del sys.argv[1]  # the name under which Flower started it
    flwr_clientapp()


if __name__ == "__main__":
    main()
