"""Flower's run config as a `pfels` config: the same keys, the same validation, and five keys of the app's own.

Flower lets a run set only keys that its app lists, so the app lists all of them; an empty string means: as in the
preset. A SuperNode may fix keys in its node config; it then refuses any other value.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfels.config.load import load_config, parse_override
from pfels.config.scheme_settings import uses
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.errors import InputError
from pfels.privacy.events import Sampling

OWN_KEYS = ("preset", "set", "out", "noise", "reply_timeout_s")
MIN_SECRET_SEED = 2**48
NODE_KEYS = ("partition-id", "num-partitions", "local-data")
LOCAL_KEYS = NEUTRAL_KEYS | {"data.path", "run.device", "run.engine", "run.eval_every"}  # may differ between machines


@dataclass(frozen=True)
class Settings:
    """A run: its config, its run directory at the server, whether the noise is secret, and the timeout for replies."""

    config: Config
    out: Path
    secret_noise: bool
    reply_timeout_s: float


def read(run_config: Mapping[str, Any]) -> Settings:
    """The settings in a run config."""
    noise, timeout = run_config.get("noise", "secret"), run_config.get("reply_timeout_s", 60)
    if noise not in ("secret", "seed"):
        raise InputError(f"noise = {noise!r}: must be secret (nobody can derive it) or seed (as pfels run draws it)")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise InputError(f"reply_timeout_s = {timeout!r}: must be a number of seconds above 0")
    out = run_config.get("out", "")
    if not isinstance(out, str) or not out:
        raise InputError("out: must name the run directory at the server")
    config = config_of(run_config)
    if noise == "secret":
        _check_seed(config)
    return Settings(config, Path(out), noise == "secret", float(timeout))


def _check_seed(config: Config) -> None:
    """With a budget against an outsider, the seed must be secret: who is drawn follows from it. Turns hide nobody, and
    the budget does not count on it."""
    for_outsider = uses(config.scheme, "privacy.adversary") and config.privacy.adversary == "outsider"
    if config.sampling is not Sampling.TURNS and for_outsider and config.seed < MIN_SECRET_SEED:
        random = MIN_SECRET_SEED + secrets.randbelow(2**63 - MIN_SECRET_SEED)
        raise InputError(
            f"seed = {config.seed}: it decides who is drawn, and an outsider could guess it; choose a random one, such "
            f"as {random}, and share it with the participants only"
        )


def config_of(run_config: Mapping[str, Any], node_config: Mapping[str, Any] | None = None) -> Config:
    """The config of a run, with the keys that a node fixes."""
    asked = {key: value for key, value in run_config.items() if key not in OWN_KEYS and value != ""}
    more = dict(map(parse_override, str(run_config.get("set", "")).split()))  # such as the scheme's own settings
    fixed = {key: value for key, value in (node_config or {}).items() if key not in NODE_KEYS}
    return load_config(str(run_config.get("preset", "demo")), asked | more | fixed)


def shared(config: Config) -> dict[str, Any]:
    """The part of a config that must be the same at the server and on all nodes."""
    return {key: value for key, value in config.flat().items() if key not in LOCAL_KEYS}


def digest(config: Config) -> str:
    """A hash of the part that must be the same everywhere."""
    return config.digest(leaving_out=LOCAL_KEYS)


def difference(server: Mapping[str, Any], config: Config) -> str:
    """The first key in which a server's shared config differs from a node's, as one line; empty if none does."""
    here = shared(config)
    for key in sorted({**here, **server}):
        if here.get(key) != server.get(key):
            return f"{key} = {here.get(key)!r} on the node, {server.get(key)!r} at the server: they must be the same"
    return ""
