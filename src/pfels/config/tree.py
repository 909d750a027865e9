"""The one validated, frozen description of an experiment."""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError, model_validator

from pfels.config.messages import explain
from pfels.config.toml import to_toml
from pfels.privacy.events import Sampling
from pfels.schemes.registry import OFF_BY_DEFAULT, scheme_entry, scheme_names, users_of
from pfels.schemes.scheme import OwnSettings

Positive = Annotated[float, Field(ge=1e-20, le=1e20, allow_inf_nan=False)]  # squares and products stay floats
Decibels = Annotated[float, Field(ge=-300, le=300)]
Count = Annotated[int, Field(ge=1, le=10**9)]
NEUTRAL_KEYS = frozenset({"run.workers", "run.checkpoint_every"})  # these cannot change a result
# Keys that were added later, with the defaults that change nothing: runs from before keep their hash.
LATER_KEYS = {
    "data.features": "none",
    "server.average": 0.0,
    "channel.antennas": 1,
    "channel.csi_error_db": 0.0,
    "channel.phase_error_deg": 0.0,
}


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(_Table):
    """Which examples there are and how they are spread over the devices.

    Where it is not said, data that come by device or by writer stay so, and others are spread evenly. `alpha` is
    the Dirichlet law's, or with `beta` that of Synthetic(α, β).
    """

    name: Literal["digits", "fashion", "mnist-writers", "cifar10", "femnist", "synthetic", "file"] = "digits"
    path: str | None = None
    devices: Count = 1000
    per_device: Count | None = None
    partition: Literal["iid", "dirichlet", "writer"] = "iid"
    alpha: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    beta: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    features: Literal["none", "hog", "scattering"] = "none"

    @model_validator(mode="before")
    @classmethod
    def _natural(cls, tree: Any) -> Any:
        if isinstance(tree, Mapping) and tree.get("name") in ("mnist-writers", "femnist", "synthetic"):
            return {"partition": "writer", **tree}
        return tree

    @model_validator(mode="after")
    def _consistent(self) -> "Data":
        if self.name == "file" and self.path is None:
            raise ValueError('data.path: needed where data.name = "file"; give the path of an .npz file')
        if self.name in ("digits", "synthetic") and self.path is not None:
            raise ValueError(f'data.path = {self.path!r}: data.name = "{self.name}" is read from no file; leave it out')
        if self.name == "synthetic" and self.partition == "dirichlet":
            raise ValueError('data.partition = "dirichlet": synthetic data come by device; use writer, or iid')
        if self.partition == "dirichlet" and self.alpha == 0:
            raise ValueError("data.alpha = 0: must be above 0 for the Dirichlet law")
        return self


class Model(_Table):
    """The network every device trains."""

    name: Literal["linear", "mlp", "cnn", "vgg11", "resnet18"] = "mlp"
    hidden: Count = 64


class Training(_Table):
    """Local training on a device; clip is the paper's C₁, so an update is clipped to ητC₁."""

    learning_rate: Positive = 0.05
    local_epochs: Count = 5
    batch_size: Count = 50
    momentum: float = Field(default=0.9, ge=0, lt=1)
    clip: Positive = 1.0

    @property
    def update_bound(self) -> float:
        """The norm ητC₁ to which every update is clipped (Lemma 2)."""
        return self.learning_rate * self.local_epochs * self.clip


class Cohort(_Table):
    """Who takes part in a round: exactly `size` devices, each with probability size/devices, or one of ⌊devices/size⌋
    groups after the other (`turns`)."""

    size: Count = 32
    sampling: Literal["without-replacement", "poisson", "turns"] = "without-replacement"


class Channel(_Table):
    """The uplink: fading law, receiver noise, power budgets as signal-to-noise ratios, and the spectrum.

    With schemes that use it, a device whose gain is below `silent_below` does not send, which saves energy, and limits
    what other antennas can hear of it. The server has `antennas`, all of which it may listen with. Devices know their
    gain to the first one within `csi_error_db` and its phase within `phase_error_deg`.
    """

    gain_mean: Positive = 0.02
    gain_min: Positive = 0.0001
    gain_max: Positive = 0.1
    silent_below: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    noise_std: Positive = 1.0
    snr_min_db: Decibels = 2.0
    snr_max_db: Decibels = 15.0
    snr_scale: Literal["linear", "db"] = "linear"
    subcarriers: Count = 3300
    slot_ms: Positive = 10.0
    antennas: int = Field(default=1, ge=1, le=4096)
    csi_error_db: float = Field(default=0.0, ge=0, le=60)
    phase_error_deg: float = Field(default=0.0, ge=0, le=180)


class Compression(_Table):
    """The share p = k/d of coordinates sent, how they are chosen, and whether a device keeps the rest for later."""

    ratio: float = Field(default=0.3, gt=0, le=1)
    kind: Literal["rand-k", "public-top-k"] = "rand-k"
    error_feedback: bool = False


class Privacy(_Table):
    """The paper's claim per round, and a budget for the whole training; delta defaults to 1/N for both."""

    epsilon: Positive = 1.5
    delta: float | None = Field(default=None, ge=1e-300, lt=1)
    total_epsilon: Positive = 4.0
    adversary: Literal["server", "blind-server", "outsider"] = "server"


class Server(_Table):
    """What the server does with a round's estimate: θ ← θ + learning_rate·v with v ← momentum·v + Δ̂.

    With `average` = a the run delivers the exponential average of its models, of decay min(a, (1 + t)/(10 + t)).
    """

    learning_rate: Positive = 1.0
    momentum: float = Field(default=0.0, ge=0, lt=1)
    average: float = Field(default=0.0, ge=0, lt=1)


class Run(_Table):
    """How the work is carried out; none of these changes what is learned, except that an engine may round otherwise."""

    eval_every: Count = 10
    checkpoint_every: Count = 25
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    engine: Literal["auto", "batched", "threaded"] = "auto"
    workers: int = Field(default=0, ge=0, le=4096)


class Config(_Table):
    """One experiment. The same config gives the same result to the bit.

    `own` holds the settings of the scheme's own table, which has the scheme's name.
    """

    scheme: str = "pfels"
    seed: int = Field(default=0, ge=0, lt=2**63)
    rounds: Count = 300
    data: Data = Data()
    model: Model = Model()
    training: Training = Training()
    cohort: Cohort = Cohort()
    channel: Channel = Channel()
    compression: Compression = Compression()
    privacy: Privacy = Privacy()
    server: Server = Server()
    run: Run = Run()
    own: SerializeAsAny[OwnSettings] | None = Field(default=None, exclude=True)

    @property
    def sampling(self) -> Sampling:
        """How cohorts are drawn: as the scheme always does, or as `cohort.sampling` says."""
        return scheme_entry(self.scheme).sampling or Sampling(self.cohort.sampling)

    @property
    def delta(self) -> float:
        """The δ of every privacy figure: the one that is set, or 1/N."""
        return 1 / self.data.devices if self.privacy.delta is None else self.privacy.delta

    @model_validator(mode="before")
    @classmethod
    def _own_table(cls, tree: Any) -> Any:
        """Read the tables of schemes, and keep the one of this config's scheme as `own`."""
        if not isinstance(tree, Mapping):
            return tree
        scheme, names = tree.get("scheme", cls.model_fields["scheme"].default), scheme_names()
        tables = {name: tree[name] for name in tree if name in names and name not in cls.model_fields}
        known = isinstance(scheme, str) and bool(scheme_entry(scheme))  # an unknown scheme is the first thing to say
        if known and scheme not in tables and scheme_entry(scheme).settings is not None:
            tables[scheme] = {}
        own = {name: _own(name, table) for name, table in tables.items()}
        rest = {key: value for key, value in tree.items() if key not in tables}
        if known and scheme in cls.model_fields:
            raise ValueError(f"scheme = {scheme!r}: has the name of a table of the config; it must have another")
        if "own" in rest:
            raise ValueError("own: unknown key; a scheme's own settings are a table that has its name")
        return rest | ({"own": own[scheme]} if known and scheme in own else {})

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        channel, devices = self.channel, self.data.devices
        uses = scheme_entry(self.scheme).uses
        if self.cohort.size > devices:
            raise ValueError(f"cohort.size = {self.cohort.size}: must be at most data.devices = {devices}")
        if self.sampling is Sampling.TURNS and self.cohort.size > devices // 2:
            raise ValueError(
                f"cohort.size = {self.cohort.size}: with {self.scheme} devices send in turns here, so it must be at "
                f"most half of data.devices = {devices}"
            )
        if not channel.gain_min <= channel.gain_max:
            raise ValueError(f"channel.gain_min = {channel.gain_min}: must be at most gain_max = {channel.gain_max}")
        if not channel.snr_min_db <= channel.snr_max_db:
            raise ValueError(f"channel.snr_min_db = {channel.snr_min_db}: must be at most {channel.snr_max_db}")
        if channel.silent_below > channel.gain_max:
            raise ValueError(f"channel.silent_below = {channel.silent_below}: must be at most {channel.gain_max}")
        if self.privacy.adversary == "blind-server" and "privacy.adversary" in uses and channel.antennas > 1:
            raise ValueError(
                f'channel.antennas = {channel.antennas}: must be 1 for privacy.adversary = "blind-server"; several '
                "tell senders apart"
            )
        flat, defaults = self.flat(), Config.model_construct().flat()
        for key in sorted(OFF_BY_DEFAULT - uses):
            if flat[key] != defaults[key]:
                raise ValueError(f"{key}: {self.scheme} does not use it, only {', '.join(users_of(key))}; leave it out")
        return self

    def tree(self) -> dict[str, Any]:
        """The whole config as nested tables, the scheme's own one included."""
        own = {} if self.own is None else {self.scheme: self.own.model_dump(exclude_none=True)}
        return self.model_dump(exclude_none=True) | own

    def flat(self) -> dict[str, Any]:
        """Every set key with its value, as `table.key`, in the order of the tree."""
        tree = self.tree()
        tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
        inner = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
        return {key: value for key, value in tree.items() if key not in tables} | inner

    def digest(self, *, leaving_out: Collection[str] = NEUTRAL_KEYS) -> str:
        """A hash of all that can change a result."""
        kept = {key: value for key, value in self.flat().items() if key not in leaving_out}
        kept = {key: value for key, value in kept.items() if LATER_KEYS.get(key) != value}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    def to_toml(self) -> str:
        """The whole config as TOML that `load_config` reads back."""
        return to_toml(self.tree())


def _own(name: str, table: Any) -> OwnSettings:
    settings = scheme_entry(name).settings
    if settings is None:
        raise ValueError(f"{name}: {name} has no settings of its own; leave the table out")
    try:
        return settings.model_validate(table)
    except ValidationError as error:
        raise ValueError(explain(error.errors()[0], settings, table=name)) from None
