"""What a checkpoint of a run can hold: a file whose hash is right may still have been made by an attacker."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.experiment.checkpoint_file import Largest, StoredCheckpoint
from pfels.experiment.link import model_dimension
from pfels.privacy.checks import LARGEST_NOISE_MULTIPLIER, SMALLEST_NOISE_MULTIPLIER
from pfels.runtime.lazy_torch import Tensor

ROWS = ("theta", "velocity", "average", "memory", "decoded")  # models and what is kept of them; the rest is small
PARAMETERS = 2**27  # of a model whose data set is the user's own: 500 MB
DEVICES = 10**7  # in the ledger of a run that is only looked at: 560 MB
SPENT = (1e-300, 1e200)  # μ² of a device that has sent; whoever has sent has lost something
FILE = 2**33  # bytes of a tensor that is only looked at: half a minute


def largest(config: Config, *, dimension: int | None, looking: bool) -> Largest:
    """How many elements each tensor can have. `dimension` is d, if it is known; `looking` says that the run is not
    continued, so that its config may be an attacker's as well."""
    devices, rounds, d = config.data.devices, config.rounds, dimension or _dimension(config)
    rows = {"theta": d, "velocity": d, "average": d, "memory": devices * d, "decoded": rounds * d}
    counts = {"server": devices, "memory": devices}

    def most(name: str) -> int:
        if name in rows:
            return min(rows[name], FILE // 4) if looking else rows[name]
        count = counts.get(name.partition(".")[0], rounds)
        return min(count, DEVICES) if looking else count

    return most


def _dimension(config: Config) -> int:
    return PARAMETERS if config.data.name == "file" else model_dimension(config)


def require_possible(stored: StoredCheckpoint, config: Config, path: Path) -> None:
    """An InputError unless a run of this config can have left this state."""
    done, tensors = stored.notes["round"], stored.tensors

    def require(holds: object, name: str, what: str) -> None:
        if not holds:
            raise InputError(f"{path}: {name}: must be {what}; altered")

    require(done <= config.rounds, "round", f"at most {config.rounds}, not {done}")
    require(stored.notes["totals"]["privacy_limited_rounds"] <= done, "privacy_limited_rounds", f"at most {done}")
    _require_ledger(tensors, require, devices=config.data.devices, rounds=done)
    for name, used in (("velocity", config.server.momentum), ("average", config.server.average)):
        require((name in stored.entries) == (used > 0 and done > 0), name, "there where it is used")
    for name in ROWS:
        require(stored.finite.get(name, True) or not stored.finite["theta"], name, "finite, as theta is")
    if "memory.ids" in tensors:
        _require_devices(tensors["memory.ids"], "memory.ids", require, devices=config.data.devices)
    if "memory.norms" in tensors:
        ends = tensors["memory.used_until"].numpy()
        require(_within(tensors["memory.norms"], 0.0, np.finfo(np.float64).max), "memory.norms", "finite, from 0 on")
        require(bool(((ends == -1) | (ends >= done)).all()), "memory.used_until", f"-1, or a round from {done} on")
    if "decoded.rounds" in tensors:
        rounds = tensors["decoded.rounds"]
        right = _within(rounds, 0, done - 1) and _rising(rounds)
        require(right, "decoded.rounds", f"rounds from 0 to {done - 1}, in order, each once")


Require = Callable[[object, str, str], None]


def _require_ledger(tensors: Mapping[str, Tensor], require: Require, *, devices: int, rounds: int) -> None:
    _require_devices(tensors["server.ids"], "server.ids", require, devices=devices)
    require(_within(tensors["server.participations"], 1, rounds), "server.participations", f"from 1 to {rounds}")
    spent = tensors["server.mu_squared"]
    finite = _within(spent[~spent.isinf()], SPENT[0], SPENT[1]) and _within(spent, 0.0, np.inf)
    require(finite, "server.mu_squared", "numbers above 0, or infinity where there is no noise")
    levels, counts = tensors["noise_multipliers"], tensors["noise_multiplier_rounds"]
    noisy = _within(levels[levels != 0], SMALLEST_NOISE_MULTIPLIER, LARGEST_NOISE_MULTIPLIER)
    low, high = f"{SMALLEST_NOISE_MULTIPLIER:g}", f"{LARGEST_NOISE_MULTIPLIER:g}"
    require(noisy, "noise_multipliers", f"0, or numbers from {low} to {high}")
    require(_rising(levels), "noise_multipliers", "in rising order, each once")
    require(_within(counts, 1, rounds), "noise_multiplier_rounds", f"from 1 to {rounds}")
    require(int(counts.sum()) <= rounds, "noise_multiplier_rounds", f"at most {rounds} in all")


def _require_devices(ids: Tensor, name: str, require: Require, *, devices: int) -> None:
    right = _within(ids, 0, devices - 1) and _rising(ids)
    require(right, name, f"devices from 0 to {devices - 1}, in order, each once")


def _within(values: Tensor, low: float, high: float) -> bool:
    """Whether all values are there and between these; NaN is not."""
    return bool(((values >= low) & (values <= high)).all())


def _rising(values: Tensor) -> bool:
    return bool((values[1:] > values[:-1]).all())
