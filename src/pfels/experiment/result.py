"""A finished run, as Python sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pfels.documents.run import RoundRecord, Summary
from pfels.runtime.frames import frame_of
from pfels.runtime.lazy_torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run: its summary, the final model as one flat vector, and one record per round.

    >>> import pfels
    >>> pfels.run(pfels.load_config("demo", {"rounds": 2}))
    Result(pfels, seed 0, 2 rounds, accuracy 0.1...)
    """

    summary: Summary
    parameters: Tensor
    read: Callable[[], list[RoundRecord]]

    @cached_property
    def records(self) -> list[RoundRecord]:
        """One record per round, read when first asked for."""
        return self.read()

    def __repr__(self) -> str:
        if not self.summary:  # a rank that does not lead
            return "Result(the leading process has it)"
        about = self.summary
        accuracy = f"accuracy {about['accuracy']:.4f}"
        of = f" of {about['stopped']['planned_rounds']}" if "stopped" in about else ""
        return f"Result({about['scheme']}, seed {about['seed']}, {about['rounds']}{of} rounds, {accuracy})"

    def to_frame(self) -> Any:
        """The records as a pandas DataFrame, one row per round; nested fields become `privacy.server.epsilon`."""
        return frame_of(self.records, index="round")

    def plot(self) -> "Figure":
        """Test accuracy and training loss against rounds, as a Matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 3), layout="constrained")
        panels = figure.subplots(1, 2)
        for axes, label, points in zip(
            panels,
            ("test accuracy", "training loss"),
            (
                [(r["round"] + 1, r["test_accuracy"]) for r in self.records if r["test_accuracy"] is not None],
                [(r["round"] + 1, r["train_loss"]) for r in self.records if r["train_loss"] is not None],
            ),
            strict=True,
        ):
            axes.plot([t for t, _ in points], [value for _, value in points], marker="o", markersize=3)
            axes.set(xlabel="rounds", ylabel=label)
            axes.grid(alpha=0.35)
        figure.suptitle(f"{self.summary['scheme']}, seed {self.summary['seed']}")
        return figure
