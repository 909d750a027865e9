"""Local training of a cohort, and evaluation. All engines give the same updates up to floating-point rounding.

`batched` trains many devices as one tensor program, `threaded` one device at a time per thread. Both split the cohort
at points that depend only on the cohort and the model, so results are bit-identical for any number of workers.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from pfels.data.examples import Examples
from pfels.data.partition import Federation
from pfels.runtime.memory import Scratch
from pfels.runtime.threads import OrderedPool
from pfels.training import gram, sgd
from pfels.training.batches import Orders, batches
from pfels.training.networks import Network
from pfels.training.updates import LocalUpdates

# Approximate number of parameters of a chunk of devices trained together: enough to keep the Python overhead small,
# few enough to fit a core's cache and to give every core some work.
CHUNK_PARAMETERS = 2**20
PIECE_PARAMETERS = 2**17  # half a chunk of fewer is sooner computed than handed to another core

Made = TypeVar("Made")


def resolve(engine: str, network: Network) -> str:
    """The engine for a name: `auto` follows a fixed rule, based on the measurements in docs/performance.md.

    Stacking speeds up products of many small matrices; convolutions are large enough one device at a time.
    """
    if engine != "auto":
        return engine
    return "batched" if network.dense else "threaded"


def chunks(engine: str, *, cohort: int, dimension: int) -> list[slice]:
    """The parts of the cohort whose signals are added up together: single devices, or the minimum number of even
    chunks."""
    return _even(cohort, cohort if engine == "threaded" else min(cohort, -(-cohort * dimension // CHUNK_PARAMETERS)))


def pieces(chunks: list[slice], *, dimension: int) -> list[slice]:
    """The parts of the cohort that are trained together: the chunks, or the halves of a single one that is large."""
    if len(chunks) == 1 and chunks[0].stop * dimension >= 2 * PIECE_PARAMETERS:
        return _even(chunks[0].stop, min(chunks[0].stop, 2))
    return chunks


def _even(cohort: int, count: int) -> list[slice]:
    return [slice(cohort * i // count, cohort * (i + 1) // count) for i in range(count)]


# Test examples per forward pass: a constant, since it may change the last bits.
EVALUATION_BATCH = 250


@dataclass(frozen=True)
class LocalTraining:
    """Local training: τ epochs of momentum SGD on a device's own examples, in batches without replacement.

    The factors of large products are rounded to the type `factors`, if there is one.
    """

    network: Network
    federation: Federation
    learning_rate: float
    epochs: int
    batch_size: int
    momentum: float
    engine: str
    pool: OrderedPool
    factors: torch.dtype | None

    def chunks(self, cohort: int) -> list[slice]:
        """The parts of a cohort of this size whose signals are added up together."""
        return chunks(self.engine, cohort=cohort, dimension=self.network.dimension)

    def cohort(self, theta: Tensor, devices: Sequence[int], orders: Orders) -> Iterator[LocalUpdates]:
        """The updates of all `devices` from the model θ, in pieces in cohort order; each is valid until the next."""
        yield from self.map(theta, devices, orders, lambda part: part)

    def map(
        self, theta: Tensor, devices: Sequence[int], orders: Orders, work: Callable[[LocalUpdates], Made]
    ) -> Iterator[Made]:
        """What `work` makes of the updates of all `devices` from the model θ, in pieces in cohort order. It is done
        where the piece was trained, on several cores at once.

        `orders(device)` is the generator of a device's batch order; it is called only for devices with more
        examples than one batch. Memory grows with the number of workers, not of devices.
        """

        def train_and_work(places: slice, scratch: Scratch) -> Made:
            with torch.inference_mode():  # a tenth faster than no_grad where tensors are small
                part = self._train(theta, places, devices[places], orders, scratch)
            with torch.no_grad():
                return work(part)

        yield from self.pool.map(train_and_work, pieces(self.chunks(len(devices)), dimension=self.network.dimension))

    def each(self, theta: Tensor, devices: Sequence[int], orders: Orders) -> Iterator[LocalUpdates | Exception]:
        """The update of each device by itself, to the bit whatever the others learn, or the error that its training
        ended with; valid until the next one is asked for."""

        def train(device: int, scratch: Scratch) -> LocalUpdates | Exception:
            mark = scratch.mark
            try:
                with torch.inference_mode():
                    return self._train(theta, slice(0, 1), [device], orders, scratch)
            except Exception as error:
                scratch.give_back(mark)
                return error

        yield from self.pool.map(train, devices)

    def _train(
        self, theta: Tensor, places: slice, members: Sequence[int], orders: Orders, scratch: Scratch
    ) -> LocalUpdates:
        data = self.federation.examples(members)
        x, y = data.x.to(theta.device), data.y.to(theta.device)
        steps = batches(data.counts, members, orders, epochs=self.epochs, size=self.batch_size, device=theta.device)
        stacked = self.engine == "batched" and gram.pays(self.network, examples=y.shape[1], epochs=self.epochs)
        rule, mark = sgd.Rule(self.learning_rate, self.momentum, self.factors), scratch.mark
        train = gram.train if stacked else sgd.train
        updates, losses = train(self.network, theta, x=x, y=y, batches=steps, rule=rule, scratch=scratch)
        scratch.give_back(mark)
        return LocalUpdates(places, updates, losses.double().cpu().numpy())


def evaluate(network: Network, theta: Tensor, examples: Examples, *, pool: OrderedPool) -> tuple[float, float]:
    """The accuracy and the mean cross-entropy on the examples."""

    def work(start: int, scratch: Scratch) -> tuple[int, float]:
        with torch.inference_mode():
            x, y = examples.between(start, start + EVALUATION_BATCH)
            labels = y.to(theta.device)
            logits = network.logits(theta, x.to(theta.device), scratch)
            loss = F.cross_entropy(logits, labels, reduction="sum")
            return int((logits.argmax(1) == labels).sum()), float(loss)

    results = list(pool.map(work, range(0, len(examples), EVALUATION_BATCH)))
    return sum(correct for correct, _ in results) / len(examples), sum(loss for _, loss in results) / len(examples)
