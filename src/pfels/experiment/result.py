"""A finished run, as Python sees it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfels.documents.run import RoundRecord, Summary
from pfels.errors import InputError
from pfels.experiment import delivery
from pfels.experiment.delivery import Origin
from pfels.experiment.link import Example
from pfels.runtime.frames import frame_of
from pfels.runtime.lazy_torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run: its summary, one record per round, and the model that it delivers, which is the average of the
    released models where `server.average` is set.

    `state_dict()`, `module()` and `save()` give the model as PyTorch has it. `parameters` is the same as one flat
    vector in the layout of the engines, where a dense layer is inputs × outputs and images have their channels last:
    `torch.nn.utils.vector_to_parameters` would put its numbers in the wrong places, without an error.

    >>> import pfels
    >>> pfels.run(pfels.load_config("demo", {"rounds": 2}))
    Result(pfels, seed 0, 2 rounds, accuracy 0.1...)
    """

    summary: Summary
    parameters: Tensor
    read: Callable[[], list[RoundRecord]]
    origin: Origin | None = None

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

    def state_dict(self) -> dict[str, Tensor]:
        """The weights by name, in PyTorch's layout: copies, which fit `module()` and, without `pfels`, the networks of
        docs/how-to/model.md.

        >>> import pfels
        >>> result = pfels.run(pfels.load_config("demo", {"rounds": 2}))
        >>> {name: tuple(weight.shape) for name, weight in result.state_dict().items()}
        {'1.weight': (32, 64), '1.bias': (32,), '3.weight': (10, 32), '3.bias': (10,)}
        """
        from pfels.training import modules

        model, seen = self._origin().config.model, self._example
        return modules.state_dict(
            model.name, self.parameters, shape=seen.shape, classes=seen.classes, hidden=model.hidden
        )

    def module(self) -> "nn.Module":
        """The network with these weights as a `torch.nn.Module` of its own, in evaluation mode. It takes what
        the devices trained on: pixels scaled as docs/data.md says, or their features where `data.features` is set.

        >>> import pfels, torch
        >>> result = pfels.run(pfels.load_config("demo", {"rounds": 2}))
        >>> result.module()(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 10])
        """
        from pfels.training import modules

        model, seen = self._origin().config.model, self._example
        return modules.module(
            model.name, self.state_dict(), shape=seen.shape, classes=seen.classes, hidden=model.hidden
        )

    def save(self, path: str | Path) -> None:
        """Write the weights by name as a safetensors file, and its privacy card beside it: `m.privacy.json` and
        `m.privacy.md` for `m.safetensors`. All three are written, or none.

        >>> import pathlib, pfels, tempfile
        >>> place = pathlib.Path(tempfile.mkdtemp())
        >>> pfels.run(pfels.load_config("demo", {"rounds": 2})).save(place / "m.safetensors")
        >>> sorted(each.name for each in place.iterdir())
        ['m.privacy.json', 'm.privacy.md', 'm.safetensors']
        """
        delivery.require_place(Path(path))
        origin = self._origin()
        if delivery.fingerprint(self.parameters) != origin.weights:
            raise InputError(
                "parameters: changed since the run, so that its privacy card is not theirs; save them before"
            )
        delivery.save(Path(path), self.state_dict(), self._example, origin.facts())

    @cached_property
    def _example(self) -> Example:
        return self._origin().example()

    def _origin(self) -> Origin:
        if self.origin is None:
            raise InputError("this process does not lead the run; its leading process has the model")
        return self.origin

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
