"""Flower's run config as a `pfels` config: the same keys, the same validation, and a few of the app's own.

Flower lets a run change only keys that its app lists, so the app lists all of them; an empty string leaves a key to the
preset. A SuperNode may set keys in its node config as well: that is what its owner insists on.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.errors import InputError

OWN_KEYS = ("preset", "out", "noise", "reply_timeout_s")
LEAST_SECRET = 2**48
NODE_KEYS = ("partition-id", "num-partitions", "local-data")
LOCAL_KEYS = NEUTRAL_KEYS | {"data.path", "run.device", "run.engine", "run.eval_every"}  # each machine has its own


@dataclass(frozen=True)
class Settings:
    """A run: its config, where its server keeps it, where noise comes from, and how long it waits for an answer."""

    config: Config
    out: Path
    secret_noise: bool
    reply_timeout_s: float


def read(run_config: Mapping[str, Any]) -> Settings:
    """The settings that a run config describes."""
    noise, timeout = run_config.get("noise", "secret"), run_config.get("reply_timeout_s", 60)
    if noise not in ("secret", "seed"):
        raise InputError(f"noise = {noise!r}: must be secret (nobody can tell it) or seed (as pfels run draws it)")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise InputError(f"reply_timeout_s = {timeout!r}: must be a number of seconds above 0")
    out = run_config.get("out", "")
    if not isinstance(out, str) or not out:
        raise InputError("out: must name the directory in which the server keeps the run")
    config = config_of(run_config)
    if noise == "secret" and config.scheme == "pfels-plus" and config.privacy.adversary == "outsider":
        _check_seed(config.seed)
    return Settings(config, Path(out), noise == "secret", float(timeout))


def _check_seed(seed: int) -> None:
    """Who is drawn follows from the seed, and an outsider must not know who is drawn."""
    if seed < LEAST_SECRET:
        raise InputError(
            f"seed = {seed}: it decides who is drawn, and an outsider could guess it; choose a random one, such as "
            f"{LEAST_SECRET + secrets.randbelow(2**63 - LEAST_SECRET)}, and keep it among those who take part"
        )


def config_of(run_config: Mapping[str, Any], node_config: Mapping[str, Any] | None = None) -> Config:
    """The config of a run, with what a node insists on."""
    asked = {key: value for key, value in run_config.items() if key not in OWN_KEYS and value != ""}
    insisted = {key: value for key, value in (node_config or {}).items() if key not in NODE_KEYS}
    return load_config(str(run_config.get("preset", "demo")), asked | insisted)


def shared(config: Config) -> dict[str, Any]:
    """What server and nodes must agree on."""
    return {key: value for key, value in config.flat().items() if key not in LOCAL_KEYS}


def digest(config: Config) -> str:
    """A hash of all that server and nodes must agree on."""
    return config.digest(leaving_out=LOCAL_KEYS)


def disagreement(server: Mapping[str, Any], config: Config) -> str | None:
    """The first key in which a server's shared config differs from a node's, in one line; None where none does."""
    here = shared(config)
    for key in sorted({**here, **server}):
        if here.get(key) != server.get(key):
            return f"{key} = {here.get(key)!r} on the node, {server.get(key)!r} at the server: they must be the same"
    return None
