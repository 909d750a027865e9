"""Flower's run config as a `pfels` config: the same keys, the same validation, and five keys of the app's own.

Flower lets a run set only keys that its app lists, so the app lists all of them; an empty string means: as in the
preset. A SuperNode may fix keys in its node config, `noise` included; it then refuses any other value.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfels.config.load import load_config, parse_override
from pfels.config.preset_files import presets
from pfels.config.scheme_settings import uses
from pfels.config.tree import NEUTRAL_KEYS, Config
from pfels.documents.run import Environment
from pfels.documents.validate import validated
from pfels.errors import InputError, shown
from pfels.experiment import secret_seed
from pfels.flower import budget
from pfels.privacy.events import Sampling
from pfels.runtime.files import printable, read_json
from pfels.seeding import Secret

OWN_KEYS = ("preset", "set", "out", "noise", "reply_timeout_s")
NODE_KEYS = ("partition-id", "num-partitions", "local-data", "noise", *budget.KEYS)
LOCAL_KEYS = NEUTRAL_KEYS | {"data.path", "run.device", "run.engine", "run.eval_every"}  # may differ between machines
SECRET = "secret"


@dataclass(frozen=True)
class Settings:
    """A run: its config, its run directory at the server, where noise and seed come from, and the timeout for replies.

    `noise` is `secret` or `seed`. With `secret_seed`, which the software drew, the config's seed is its public label.
    A finished run has only that label left.
    """

    config: Config
    out: Path
    noise: str
    secret_seed: Secret | None
    reply_timeout_s: float

    @property
    def secret_noise(self) -> bool:
        """Whether nobody can derive the noise."""
        return self.noise == SECRET


def read(run_config: Mapping[str, Any]) -> Settings:
    """The settings in a run config, at the server. A secret seed is drawn here, or read from the run that it began."""
    noise, timeout = noise_of(run_config), run_config.get("reply_timeout_s", 60)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise InputError(f"reply_timeout_s = {timeout!r}: must be a number of seconds above 0")
    out = run_config.get("out", "")
    if not isinstance(out, str) or not out:
        raise InputError("out: must name the run directory at the server")
    hidden = run_config.get("seed") == SECRET
    secret, label = _secret_seed(Path(out)) if hidden else (None, None)
    config = config_of(run_config, label=label)
    if noise == SECRET and not hidden:
        _require_secret_seed(config)
    return Settings(config, Path(out), noise, secret, float(timeout))


def noise_of(run_config: Mapping[str, Any], node_config: Mapping[str, Any] | None = None) -> str:
    """Where the noise of a run comes from, as a node would have it where its owner has fixed that."""
    noise = (node_config or {}).get("noise", run_config.get("noise", SECRET))
    if noise not in (SECRET, "seed"):
        raise InputError(f"noise = {noise!r}: must be secret (nobody can derive it) or seed (as pfels run draws it)")
    return str(noise)


def _secret_seed(out: Path) -> tuple[Secret | None, int]:
    """The secret seed of the run in `out` and its label, or a new one; a finished run has its label alone."""
    secret = secret_seed.kept(out)
    if not (out / "config.toml").exists():
        secret = Secret.drawn() if secret is None else secret
        return secret, secret.label
    path = out / "environment.json"
    if validated(Environment, read_json(path) or {}, printable(path)).get("seed") != SECRET:
        raise InputError(f'seed = "secret": {printable(out)} holds a run with another seed; choose another out')
    label = load_config(out / "config.toml").seed
    if secret is None and not (out / "summary.json").exists():
        raise InputError(
            f"{printable(out / secret_seed.NAME)}: missing, so the run cannot continue; choose another out"
        )
    if secret is not None and secret.label != label:
        raise InputError(f"{printable(out / secret_seed.NAME)}: is the seed of another run; choose another out")
    return secret, label


def _require_secret_seed(config: Config) -> None:
    """With a budget against an outsider, the seed must be secret: who is drawn follows from it. Turns hide nobody, and
    the budget does not count on it."""
    for_outsider = uses(config.scheme, "privacy.adversary") and config.privacy.adversary == "outsider"
    if config.sampling is not Sampling.TURNS and for_outsider:
        raise InputError(
            f"seed = {config.seed}: it decides who is drawn, and an outsider could guess it; give seed = "
            '"secret", and the server draws one'
        )


def config_of(
    run_config: Mapping[str, Any], node_config: Mapping[str, Any] | None = None, *, label: int | None = None
) -> Config:
    """The config of a run, with the keys that a node fixes. `label` stands for the run's seed where that is secret."""
    asked = {key: value for key, value in run_config.items() if key not in OWN_KEYS and value != ""}
    if asked.get("seed") == SECRET:
        asked["seed"] = label
    more = dict(map(parse_override, str(run_config.get("set", "")).split()))  # such as the scheme's own settings
    fixed = {key: value for key, value in (node_config or {}).items() if key not in NODE_KEYS}
    if fixed.get("seed") == SECRET:
        if run_config.get("seed") != SECRET:
            raise InputError('seed: this node takes part only in runs with seed = "secret"')
        del fixed["seed"]
    preset = str(run_config.get("preset", "demo"))
    if preset not in presets():
        raise InputError(f"preset = {shown(preset)!r}: must be one of {', '.join(presets())}")
    config = load_config(preset, asked | more | fixed)
    _require_digital(config)
    _require_own_file(config, node_config or {})
    return config


def names_file(run_config: Mapping[str, Any], node_config: Mapping[str, Any]) -> bool:
    """Whether a data file is named: what is wrong with the config may then be what is in that file."""
    named = {**run_config, **node_config}.get("data.path", "") != ""
    return named or "data.path" in str(run_config.get("set", ""))


def _require_own_file(config: Config, node_config: Mapping[str, Any]) -> None:
    """An InputError if a node that counts what its devices spend would read a file that the server chose."""
    counts = node_config.get("ledger", budget.WITHOUT) != budget.WITHOUT and "local-data" not in node_config
    if counts and config.data.path is not None and "data.path" not in node_config:
        raise InputError(
            "data.path: a node with a ledger reads no file that the server names; set data.path or local-data in the "
            "node's config"
        )


def _require_digital(config: Config) -> None:
    """An InputError for what only a radio has: signals arrive as messages here, and the server sees who sent them."""
    flat = config.flat()
    for key in config.active_effects():
        if key != "channel.silent_below":
            raise InputError(f"{key} = {flat[key]}: nothing goes over the air in a deployment; leave it out")
    if uses(config.scheme, "privacy.adversary") and config.privacy.adversary == "blind-server":
        raise InputError(
            'privacy.adversary = "blind-server": in a deployment the server sees who sends; use server or outsider'
        )


def shared(config: Config, noise: str) -> dict[str, Any]:
    """What must be the same at the server and on all nodes."""
    return {key: value for key, value in config.flat().items() if key not in LOCAL_KEYS} | {"noise": noise}


def digest(config: Config, noise: str) -> str:
    """A hash of what must be the same everywhere."""
    return hashlib.sha256(f"{config.digest(leaving_out=LOCAL_KEYS)} noise={noise}".encode()).hexdigest()


def difference(server: Mapping[str, Any], config: Config, noise: str) -> str:
    """The first key in which what the server shares differs from a node's, as one line; empty if none does."""
    here = shared(config, noise)
    for key in sorted({**here, **server}):
        if here.get(key) != server.get(key):
            return f"{key} = {here.get(key)!r} on the node, {server.get(key)!r} at the server: they must be the same"
    return ""
