"""A run's rounds as TensorBoard scalars, for those who watch many runs there."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pfels.errors import InputError

SCALARS = ("train_loss", "test_accuracy", "test_loss", "beta", "noise_multiplier", "energy")


@contextmanager
def scalars(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A progress callback for `run` that writes each round's figures to `path`; a step is a number of rounds done.

    Nothing is written before the first round. A resumed run goes back to its checkpoint, so its first round tells
    TensorBoard to forget the steps that an earlier process wrote from there on.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard: TensorBoard is not installed; pip install pfels[tensorboard]") from None
    writer: Any = None

    def write(record: Mapping[str, Any]) -> None:
        nonlocal writer
        step = record["round"] + 1
        if writer is None:
            writer = SummaryWriter(str(path), purge_step=step)
        figures = {name: record[name] for name in SCALARS} | {"server_epsilon": record["privacy"]["server"]["epsilon"]}
        for name, value in figures.items():
            if value is not None:
                writer.add_scalar(name, value, step)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
