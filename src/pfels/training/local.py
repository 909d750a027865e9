"""Local training of a cohort, and evaluation. All engines give the same updates up to floating-point rounding.

`batched` trains many devices as one tensor program, `threaded` one device at a time per thread. Both split the cohort
at points that depend only on the cohort and the model, so results are bit-identical for any number of workers.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


def resolve(engine: str, network: Network) -> str:
    """The engine for a name: `auto` follows a fixed rule, based on the measurements in docs/performance.md.

    Stacking speeds up products of many small matrices; convolutions are large enough one device at a time.
    """
    if engine != "auto":
        return engine
    return "batched" if network.head is not None else "threaded"


def chunks(engine: str, *, cohort: int, dimension: int) -> list[slice]:
    """The parts of the cohort that are trained together: single devices, or the minimum number of even chunks."""
    count = cohort if engine == "threaded" else min(cohort, -(-cohort * dimension // CHUNK_PARAMETERS))
    edges = [cohort * i // count for i in range(count + 1)] if cohort else []
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


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

    def cohort(self, theta: Tensor, devices: Sequence[int], orders: Orders) -> Iterator[LocalUpdates]:
        """The updates of all `devices` from the model θ, in chunks in cohort order.

        `orders(device)` is the generator of a device's batch order; it is called only for devices with more
        examples than one batch. Memory grows with the number of workers, not of devices.
        """

        def work(places: slice, scratch: Scratch) -> LocalUpdates:
            return self._train(theta, places, devices[places], orders, scratch)

        parts = chunks(self.engine, cohort=len(devices), dimension=self.network.dimension)
        yield from self.pool.map(work, parts)

    def _train(
        self, theta: Tensor, places: slice, members: Sequence[int], orders: Orders, scratch: Scratch
    ) -> LocalUpdates:
        data = self.federation.examples(members)
        x, y = data.x.to(theta.device), data.y.to(theta.device)
        steps = batches(data.counts, members, orders, epochs=self.epochs, size=self.batch_size, device=theta.device)
        stacked = self.engine == "batched" and gram.pays(self.network, examples=y.shape[1], epochs=self.epochs)
        rule, mark = sgd.Rule(self.learning_rate, self.momentum, self.factors), scratch.mark
        with torch.no_grad():
            train = gram.train if stacked else sgd.train
            updates, losses = train(self.network, theta, x=x, y=y, batches=steps, rule=rule, scratch=scratch)
        scratch.give_back(mark)
        return LocalUpdates(places, updates, losses.double().cpu().numpy())


def evaluate(network: Network, theta: Tensor, examples: Examples, *, pool: OrderedPool) -> tuple[float, float]:
    """The accuracy and the mean cross-entropy on the examples."""

    def work(start: int, scratch: Scratch) -> tuple[int, float]:
        with torch.no_grad():
            x, y = examples.take(torch.arange(start, min(start + EVALUATION_BATCH, len(examples))))
            labels = y.to(theta.device)
            logits = network.logits(theta, x.to(theta.device), scratch)
            loss = F.cross_entropy(logits, labels, reduction="sum")
            return int((logits.argmax(1) == labels).sum()), float(loss)

    results = list(pool.map(work, range(0, len(examples), EVALUATION_BATCH)))
    return sum(correct for correct, _ in results) / len(examples), sum(loss for _, loss in results) / len(examples)
