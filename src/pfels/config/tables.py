"""The tables of a config, each with what can be checked in it alone."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from pfels.uplink.effects.amplifier import Amplifier
from pfels.uplink.effects.antennas import Antennas
from pfels.uplink.effects.fading import Fading
from pfels.uplink.effects.gain import Gain, Positive
from pfels.uplink.effects.knowledge import GainKnowledge, PhaseKnowledge
from pfels.uplink.effects.silence import Silence
from pfels.uplink.effects.timing import Timing

Decibels = Annotated[float, Field(ge=-300, le=300)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class Table(BaseModel):
    """What all tables have in common: no unknown keys, no conversions, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Data(Table):
    """Which examples there are and how they are spread over the devices.

    Where it is not said, data that come by device or by writer stay so, and others are spread evenly. An own file that
    names its writers is read to find out how many devices there are. What follows from the data in this way is not
    among the fields that were set. `alpha` is the Dirichlet law's, or with `beta` that of Synthetic(α, β).
    """

    name: Literal["digits", "fashion", "mnist-writers", "cifar10", "femnist", "synthetic", "file"] = "digits"
    path: str | None = None
    devices: Count = 1000
    per_device: Count | None = None
    partition: Literal["iid", "dirichlet", "writer"] = "iid"
    classes: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    alpha: float = Field(default=0.5, ge=0, le=1e20, allow_inf_nan=False)
    beta: float = Field(default=0.5, ge=0, le=1e20, allow_inf_nan=False)
    features: Literal["none", "hog", "scattering"] = "none"

    @model_validator(mode="wrap")
    @classmethod
    def _natural(cls, tree: Any, handler: ModelWrapValidatorHandler["Data"]) -> "Data":
        if not isinstance(tree, Mapping):
            return handler(tree)
        natural = _natural(tree)
        found = handler({**natural, **tree})
        found.model_fields_set.difference_update(natural.keys() - tree.keys())
        return found

    @model_validator(mode="after")
    def _consistent(self) -> "Data":
        if self.name == "file" and self.path is None:
            raise ValueError('data.path: needed where data.name = "file"; give the path of an .npz file')
        if self.name != "file" and self.classes is not None:
            raise ValueError(f'data.classes = {self.classes}: only for data.name = "file"; leave it out')
        if self.name in ("digits", "synthetic") and self.path is not None:
            raise ValueError(f'data.path = {self.path!r}: data.name = "{self.name}" is read from no file; leave it out')
        if self.name == "synthetic" and self.partition == "dirichlet":
            raise ValueError('data.partition = "dirichlet": synthetic data come by device; use writer, or iid')
        if self.partition == "dirichlet" and self.alpha == 0:
            raise ValueError("data.alpha = 0: must be above 0 for the Dirichlet law")
        return self


def _natural(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What data say of a table that leaves it open: how they are spread over devices, and over how many."""
    name, path = tree.get("name"), tree.get("path")
    if name in ("mnist-writers", "femnist", "synthetic"):
        return {"partition": "writer"}
    if name != "file" or not isinstance(path, str) or {"partition", "devices"} <= tree.keys():
        return {}
    if not os.path.exists(path):  # for a name that no file can have, too
        if "devices" in tree:
            return {}
        raise ValueError(f"data.path = {path!r}: no such file; data.devices follows from it unless it is set")
    from pfels.data import users  # loads NumPy, which the help does without

    return users.defaults(Path(path), tree)


class Model(Table):
    """The network every device trains."""

    name: Literal["linear", "mlp", "cnn", "vgg11", "resnet18"] = "mlp"
    hidden: Count = 64


class Training(Table):
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


class Cohort(Table):
    """Who takes part in a round: exactly `size` devices, each with probability size/devices, or one of ⌊devices/size⌋
    groups after the other (`turns`)."""

    size: Count = 32
    sampling: Literal["without-replacement", "poisson", "turns"] = "without-replacement"


class Receiver(Table):
    """The receiver noise, the power limits of devices as signal-to-noise ratios, and the spectrum."""

    noise_std: Positive = 1.0
    snr_min_db: Decibels = 2.0
    snr_max_db: Decibels = 15.0
    snr_scale: Literal["linear", "db"] = "linear"
    subcarriers: Count = 3300
    slot_ms: Positive = 10.0


# The last base has the first fields.
class Channel(Fading, Amplifier, Timing, PhaseKnowledge, GainKnowledge, Antennas, Receiver, Silence, Gain):
    """The uplink: the receiver, and the settings of each effect of this package (`pfels.uplink.effects`)."""


class Radio(Table):
    """Physical units: what a coordinate, a slot and σ₀² are in hertz, seconds and joules, and what devices draw.

    In the `paper`'s frames a slot of `channel.slot_ms` carries one coordinate per subcarrier; in `nr` frames a slot has
    14 OFDM symbols, of which `pilot_symbols` carry no data. The band is `channel.subcarriers` wide, or
    `bandwidth_mhz`. A gain of 1 is a loss of `reference_loss_db`; with a `scenario` it follows from `distance_m`, at
    which the mean gain has the scenario's path loss. A device trains for `compute_s` per round, or as long as its
    `compute_gflops` take.
    """

    frame: Literal["paper", "nr"] = "paper"
    carrier_ghz: float = Field(default=3.5, ge=0.5, le=100)
    subcarrier_khz: float = Field(default=15.0, gt=0, le=960)
    bandwidth_mhz: float | None = Field(default=None, gt=0, le=10_000)
    pilot_symbols: int = Field(default=1, ge=0, le=13)
    noise_figure_db: float = Field(default=5.0, ge=0, le=60)
    temperature_k: float = Field(default=290.0, gt=0, le=1e4)
    reference_loss_db: float = Field(default=66.0, ge=0, le=300)
    scenario: Literal["none", "umi-los", "umi-nlos", "uma-los", "uma-nlos"] = "none"
    distance_m: float = Field(default=100.0, ge=10, le=5000)
    amplifier_efficiency: float = Field(default=0.35, gt=0, le=1)
    peak_to_average_db: float = Field(default=11.2, ge=0, le=40)
    circuit_w: float = Field(default=0.1, ge=0, le=1e4)
    compute_w: float = Field(default=2.0, ge=0, le=1e4)
    compute_s: float | None = Field(default=None, ge=0, le=1e9)
    compute_gflops: float = Field(default=5.0, gt=0, le=1e6)
    battery_wh: float = Field(default=15.0, gt=0, le=1e6)
    server_dbm: float = Field(default=43.0, ge=-50, le=80)
    shannon_gap_db: float = Field(default=3.0, ge=0, le=40)
    upload_bits: int = Field(default=8, ge=1, le=64)

    @model_validator(mode="after")
    def _consistent(self) -> "Radio":
        if self.frame == "nr" and self.subcarrier_khz not in (15, 30, 60, 120, 240, 480, 960):
            raise ValueError(
                f"radio.subcarrier_khz = {self.subcarrier_khz:g}: must be 15, 30, 60, 120, 240, 480 or 960 in nr frames"
            )
        if self.bandwidth_mhz is not None and self.bandwidth_mhz * 1000 < self.subcarrier_khz:
            raise ValueError(
                f"radio.bandwidth_mhz = {self.bandwidth_mhz:g}: less than one subcarrier; must be at least "
                f"{self.subcarrier_khz / 1000:g}"
            )
        return self


class Compression(Table):
    """The share p = k/d of coordinates sent, how they are chosen, and whether a device keeps the rest for later."""

    ratio: float = Field(default=0.3, gt=0, le=1)
    kind: Literal["rand-k", "public-top-k"] = "rand-k"
    error_feedback: bool = False


class Privacy(Table):
    """The paper's claim per round, and a budget for the whole training; delta defaults to 1/N for both."""

    epsilon: Positive = 1.5
    delta: float | None = Field(default=None, ge=1e-300, lt=1)
    total_epsilon: Positive = 4.0
    adversary: Literal["server", "blind-server", "outsider"] = "server"


class Server(Table):
    """What the server does with a round's estimate: θ ← θ + learning_rate·v with v ← momentum·v + Δ̂.

    With `average` = a the run delivers the exponential average of its models, of decay min(a, (1 + t)/(10 + t)).
    """

    learning_rate: Positive = 1.0
    momentum: float = Field(default=0.0, ge=0, lt=1)
    average: float = Field(default=0.0, ge=0, lt=1)


class Run(Table):
    """How the work is carried out; none of these changes what is learned, except by rounding: engine and precision."""

    eval_every: Count = 10
    checkpoint_every: Count = 25
    device: str = Field(
        default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="cpu, cuda, or one of several GPUs, such as cuda:0"
    )
    engine: Literal["auto", "batched", "threaded"] = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    workers: int = Field(default=0, ge=0, le=4096)
