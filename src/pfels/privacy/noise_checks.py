"""Is noise what it is stated to be: independent normal numbers? Ten checks, each with a stated error rate.

What is given to them is noise in units of its stated standard deviation. Every p-value is that of an exact law, or of a
bound, corrected for all comparisons that its check makes, so a check rejects honest noise at most as often as its
`error_rate` says, whatever the others do.
"""

from dataclasses import dataclass, field

from pfels.privacy.noise_batch import Finding, NoiseBatch, NoiseCheck, chosen, finding
from pfels.privacy.noise_copies import Copies, Repeats
from pfels.privacy.noise_pairs import Pairs
from pfels.privacy.noise_values import Coordinates, Law, Level, Zeros
from pfels.privacy.noise_vectors import Neighbours, Seeds, Signals

NUMBERS = 2**24  # of one round that are looked at; of more, so many, at the same places in every round


def noise_checks(expected: int, dimension: int) -> list[NoiseCheck]:
    """All checks, for so many vectors in all, of at most so many numbers each."""
    return [
        Level(), Coordinates(), Law(), Zeros(), Repeats(), Neighbours(), Pairs(expected, dimension), Copies(expected),
        Signals(), Seeds(),
    ]  # fmt: skip


@dataclass
class NoiseRecord:
    """The noise of one source over a training: of the receiver, or of devices. `expected` is how many vectors there
    will be, and `dimension` how many numbers the longest has."""

    expected: int
    dimension: int
    checks: list[NoiseCheck] = field(init=False)
    vectors: int = 0

    def __post_init__(self) -> None:
        self.checks = noise_checks(self.expected, self.dimension)

    def add(self, batch: NoiseBatch) -> None:
        """The noise of one more round."""
        count, width = batch.rows.shape
        if not count or not width:
            return
        self.vectors += count
        if count * width > NUMBERS:
            batch = batch.columns(chosen(width, max(1, NUMBERS // count)))
        for check in self.checks:
            check.add(batch)

    def findings(self) -> list[Finding]:
        """What every check found."""
        return [finding(check) for check in self.checks] if self.vectors else []
