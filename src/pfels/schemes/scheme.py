"""schemes.scheme"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from pfels.schemes.plan import Link, Tally
    from pfels.schemes.system import System
    from pfels.training.local import LocalUpdates


class Scheme(Protocol):
    """What a scheme's file offers. `rounds.play` puts its steps together."""

    def prepare(self, system: "System", t: int) -> "Link":
        """Settle who takes part in round t, over which channel and at what level, before anyone trains."""

    def indices(self, system: "System", theta: "Tensor", t: int) -> "Tensor | None":
        """The coordinates sent in round t, which devices and server know without being told; None is all of them."""

    def send(
        self, system: "System", link: "Link", part: "LocalUpdates", A: "Tensor | None", tally: "Tally"
    ) -> "Tensor":
        """On the devices: what each sends of its update, one a row."""

    def hold(self, system: "System", link: "Link", part: "LocalUpdates", tally: "Tally") -> None:
        """On devices that were drawn and do not send: keep the update for later. Only error feedback asks for it."""

    def noise(self, system: "System", link: "Link", device: int) -> "Tensor":
        """On a device: its share of the noise. Only schemes have it whose devices add the noise themselves."""

    def receive(self, system: "System", link: "Link", y: "Tensor", A: "Tensor | None") -> "Tensor":
        """On the server: its estimate of the cohort's mean update, from all that it has received."""
