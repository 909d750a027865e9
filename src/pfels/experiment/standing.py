"""How far a run is, for whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from pfels.documents.run import RoundRecord, Summary


class Standing(NamedTuple):
    """Rounds done, the accuracy at the last evaluation, and ε spent so far against the server by the worst device.

    None is what is not known yet, and an ε that there is none of.
    """

    rounds: int
    accuracy: float | None = None
    epsilon: float | None = None

    @classmethod
    def after(cls, record: RoundRecord) -> Self:
        """After the round of a record, which counts rounds from 0."""
        return cls(record["round"] + 1, record["test_accuracy"], record["privacy"]["server"]["epsilon"])

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """At the end of a run."""
        return cls(summary["rounds"], summary["accuracy"], summary["privacy"]["server"]["epsilon"])

    def since(self, before: Standing | None) -> Standing:
        """The same with the accuracy of an earlier evaluation, where there was none since."""
        return self if before is None or self.accuracy is not None else self._replace(accuracy=before.accuracy)
