"""What devices learn in a round, before anything is done with it."""

from dataclasses import dataclass, replace

from pfels.arrays import Reals
from pfels.runtime.lazy_torch import Tensor


@dataclass(frozen=True)
class LocalUpdates:
    """Updates of some members of a cohort: their places in it, Δ with one row per device (c, d), and mean losses.

    It is valid until the next one is asked for: the rows' memory is then used again.
    """

    places: slice
    updates: Tensor
    losses: Reals

    def behind(self, others: int) -> "LocalUpdates":
        """The same updates, with `others` more devices before them in the cohort."""
        places = slice(self.places.start + others, self.places.stop + others)
        return replace(self, places=places)

    def one(self, row: int, *, at: int) -> "LocalUpdates":
        """One device's update alone, whose place in the cohort is `at`."""
        return LocalUpdates(slice(at, at + 1), self.updates[row : row + 1], self.losses[row : row + 1])
