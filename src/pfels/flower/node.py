"""A SuperNode that runs the installed app and no other: `python -m pfels.flower.node`, with flower-supernode's options.

Flower sends an app with every run, and a SuperNode runs it: who may start a run may run code on its nodes. It starts
that code through commands that it looks up in PATH. Here they are found in a folder of this process: the one for client
apps is `pfels.flower.pinned`, which compares what came with the run with what is installed, loads the installed package
and nothing of the run; the others end at once.
"""

import os
import shlex
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from flwr.supernode.cli import flower_supernode

from pfels.errors import InputError
from pfels.report.terminal import say

KNOWN = "1.41."  # of Flower: another version may start apps in another way, past the commands below
CLIENT_APP = "flwr-clientapp"
OTHERS = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-serverapp", "flwr-simulation")


def main(arguments: list[str]) -> None:
    """Run the SuperNode to its end."""
    require_known(version("flwr"), arguments)
    with tempfile.TemporaryDirectory(prefix="pfels-node-") as folder:  # of mode 0700
        write_commands(Path(folder))
        beside = Path(sys.executable).parent  # where Flower's own commands are
        os.environ["PATH"] = os.pathsep.join([folder, str(beside), os.environ.get("PATH", "")])
        sys.argv = ["flower-supernode", *arguments]
        flower_supernode()


def require_known(flower: str, arguments: list[str]) -> None:
    """An InputError for what would let an app in past the commands below."""
    if not flower.startswith(KNOWN):
        raise InputError(f"Flower {flower}: apps are pinned for {KNOWN}x alone; install flwr=={KNOWN}0")
    for argument, value in zip(arguments, [*arguments[1:], ""], strict=True):
        name, _, given = argument.partition("=")
        if name.startswith("--iso") and (given or value) != "subprocess":
            raise InputError("--isolation: an app in a process of its own is not pinned; leave it out")
        if name.startswith("--allow-runtime"):
            raise InputError(f"{name}: would install what comes with a run; leave it out")


def write_commands(folder: Path) -> None:
    """The commands that a SuperNode starts apps with."""
    run = f'exec {shlex.quote(sys.executable)} -P -m pfels.flower.pinned {CLIENT_APP} "$@"'
    for name in (CLIENT_APP, *OTHERS):
        command = run if name == CLIENT_APP else f'echo "{name}: this node runs the app of pfels alone" >&2\nexit 1'
        path = folder / name
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o700)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        say(f"error: {error}")
        sys.exit(2)
