"""A run's rounds as TensorBoard scalars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pfels.documents.run import RoundRecord
from pfels.errors import InputError

SCALARS: Final = ("train_loss", "test_accuracy", "test_loss", "beta", "noise_multiplier", "energy")


@contextmanager
def scalars(path: Path) -> Iterator[Callable[[RoundRecord], None]]:
    """A progress callback for `run` that writes each round's figures to `path`; a step is the number of rounds done.

    Nothing is written before the first round. A resumed run starts from its checkpoint, so its first round makes
    TensorBoard drop the steps that an earlier process wrote after that checkpoint.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard: TensorBoard is not installed; pip install pfels[tensorboard]") from None
    if path.is_symlink():
        raise InputError(f"{path}: a symbolic link; delete it, so that nothing is written elsewhere")
    writer: SummaryWriter | None = None

    def write(record: RoundRecord) -> None:
        nonlocal writer
        step = record["round"] + 1
        if writer is None:
            writer = SummaryWriter(str(path), purge_step=step)
        figures: dict[str, float | None] = {name: record[name] for name in SCALARS}
        figures["server_epsilon"] = record["privacy"]["server"]["epsilon"]
        for name, value in figures.items():
            if value is not None:
                writer.add_scalar(name, value, step)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
