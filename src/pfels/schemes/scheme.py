"""What a scheme is: a frozen dataclass with these four steps, which `round.play` puts together."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeGuard, runtime_checkable

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from torch import Tensor

    from pfels.documents.studies import EchoPlan
    from pfels.privacy.calibration import RequiredNoise
    from pfels.schemes.draws import Draws
    from pfels.schemes.memory import Memory
    from pfels.schemes.plan import RoundPlan
    from pfels.schemes.setting import Setting
    from pfels.training.updates import LocalUpdates


class Scheme(Protocol):
    """The four steps of a round. mypy holds every scheme in the registry to this protocol."""

    @property
    def setting(self) -> "Setting":
        """The constants of the problem."""

    def prepare(self, draws: "Draws", t: int) -> "RoundPlan":
        """Who takes part in round t, over which channel and at what level; settled before anyone trains."""

    def indices(self, draws: "Draws", theta: "Tensor", t: int) -> "Tensor | None":
        """The coordinates sent in round t, which devices and server know without a message; None: all of them."""

    def send(self, plan: "RoundPlan", part: "LocalUpdates", A: "Tensor | None") -> "Tensor":
        """On the devices: what each sends of its update, one row per device."""

    def receive(self, plan: "RoundPlan", y: "Tensor", A: "Tensor | None") -> "Tensor":
        """On the server: the estimate of the cohort's mean update, from what has been received."""


@runtime_checkable
class AddsNoise(Protocol):
    """A scheme whose devices add Gaussian noise to what they send; `transmissions` adds it after `send`."""

    def noise_std(self, plan: "RoundPlan", device: int) -> float:
        """The standard deviation of the noise that a device adds to each coordinate, as it sends it."""


@runtime_checkable
class Remembers(Protocol):
    """A scheme whose devices keep something from round to round: error feedback, or what they will repeat."""

    def send_and_keep(
        self, plan: "RoundPlan", part: "LocalUpdates", A: "Tensor | None", memory: "Memory"
    ) -> "tuple[Tensor, Tensor]":
        """On the senders: what each sends, given what it kept before, and what it keeps now; one row per device."""


@runtime_checkable
class KeepsUnsent(Remembers, Protocol):
    """A scheme whose devices also keep something when they were drawn and do not send."""

    def keep(self, plan: "RoundPlan", part: "LocalUpdates", memory: "Memory") -> "Tensor":
        """On devices that were drawn and do not send: what each keeps now."""


@runtime_checkable
class Decodes(Protocol):
    """A scheme whose devices repeat what they sent in earlier rounds, and whose server takes that out of the sum.

    Its plans say who repeats, with which weight, and until when; `play` sends it from what the devices kept."""

    def decode(self, plan: "RoundPlan", y: "Tensor", decoded: "Mapping[int, Tensor]") -> "Tensor":
        """On the server: what would have arrived without repetitions, from what was received and what was decoded in
        earlier rounds, by round. `receive` then makes the estimate of it."""

    def echo_plan(self) -> "EchoPlan":
        """How devices repeat, what that does to the noise, and what a simulation must keep."""


@runtime_checkable
class CalibratesItself(Protocol):
    """A scheme that sets its noise from a budget for the whole training (`privacy.total_epsilon`)."""

    def required_noise(self) -> "RequiredNoise":
        """The noise that the budget requires, and the privacy loss of a training with it."""


def adds_noise(scheme: Scheme) -> TypeGuard[AddsNoise]:
    """Whether the scheme's devices add noise."""
    return _implements(type(scheme), AddsNoise)


def keeps_unsent(scheme: Scheme) -> TypeGuard[KeepsUnsent]:
    """Whether the scheme's devices remember something when they do not send."""
    return _implements(type(scheme), KeepsUnsent)


def decodes(scheme: Scheme) -> TypeGuard[Decodes]:
    """Whether the scheme's server decodes."""
    return _implements(type(scheme), Decodes)


def remembers(scheme: Scheme) -> TypeGuard[Remembers]:
    """Whether the scheme's devices remember something."""
    return _implements(type(scheme), Remembers)


@cache
def _implements(kind: type, protocol: type) -> bool:  # kept: Python looks a protocol's methods up anew at each question
    return issubclass(kind, protocol)


class OwnSettings(BaseModel):
    """The base of a scheme's own settings: a table of the config that has the scheme's name.

    Every field has a default, and is a number, a text, a truth value or a choice between texts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)
