"""How a cohort's training is carried out. Every engine gives the same updates, but for the rounding of its sums.

`batched` trains many devices as one tensor program, `threaded` one device after another in each thread. Both cut the
cohort along lines that depend on the cohort and the model alone, so the number of workers changes no bit.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from pfels.data.examples import Examples
from pfels.data.partition import Federation
from pfels.runtime.memory import Scratch
from pfels.runtime.threads import Crew
from pfels.training import gram, sgd
from pfels.training.batches import Orders, batches
from pfels.training.networks import Network

# A chunk of devices trained together holds about so many parameters: enough to keep Python's share of the time
# small, few enough to stay near a core's cache and to leave work for every core.
CHUNK_PARAMETERS = 2**20


def resolve(engine: str, network: Network) -> str:
    """The engine that a name stands for: `auto` is a fixed rule, found by the measurements in docs/performance.md.

    Products of many small matrices gain from being stacked; convolutions are large enough one device at a time.
    """
    if engine != "auto":
        return engine
    return "batched" if network.head is not None else "threaded"


def chunks(engine: str, *, cohort: int, dimension: int) -> list[slice]:
    """The cohort cut into parts that are trained together: device by device, or the fewest even chunks that fit."""
    count = cohort if engine == "threaded" else min(cohort, -(-cohort * dimension // CHUNK_PARAMETERS))
    edges = [cohort * i // count for i in range(count + 1)] if cohort else []
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


# Test examples are passed through the network so many at a time: a constant, since it may change the last bits.
EVALUATION_BATCH = 250


@dataclass(frozen=True)
class LocalUpdates:
    """What some members of a cohort learned: their places in the cohort, Δ a row (c, d), and the mean loss of each.

    It holds until the next one is asked for: the rows' memory is then used again.
    """

    places: slice
    updates: Tensor
    losses: NDArray[np.float64]

    def behind(self, others: int) -> "LocalUpdates":
        """The same updates, whose devices come after so many others in the cohort."""
        places = slice(self.places.start + others, self.places.stop + others)
        return replace(self, places=places)

    def one(self, row: int, *, at: int) -> "LocalUpdates":
        """One device's update by itself, whose place in the cohort is `at`."""
        return LocalUpdates(slice(at, at + 1), self.updates[row : row + 1], self.losses[row : row + 1])


@dataclass(frozen=True)
class LocalTraining:
    """How a device trains: τ epochs of momentum SGD over its own examples, in batches drawn without replacement."""

    network: Network
    federation: Federation
    learning_rate: float
    epochs: int
    batch_size: int
    momentum: float
    engine: str
    crew: Crew

    def cohort(self, theta: Tensor, devices: Sequence[int], orders: Orders) -> Iterator[LocalUpdates]:
        """The updates of all `devices` from the model θ, in chunks in cohort order.

        `orders(device)` is the generator of a device's batch order; it is asked only of devices with more
        examples than fit a batch. Memory grows with the number of workers, not with that of the devices.
        """

        def work(places: slice, scratch: Scratch) -> LocalUpdates:
            return self._train(theta, places, devices[places], orders, scratch)

        parts = chunks(self.engine, cohort=len(devices), dimension=self.network.dimension)
        yield from self.crew.in_order(work, parts)

    def _train(
        self, theta: Tensor, places: slice, members: Sequence[int], orders: Orders, scratch: Scratch
    ) -> LocalUpdates:
        shard = self.federation.examples(members)
        x, y = shard.x.to(theta.device), shard.y.to(theta.device)
        steps = batches(shard.counts, members, orders, epochs=self.epochs, size=self.batch_size, device=theta.device)
        stacked = self.engine == "batched" and gram.pays(self.network, examples=y.shape[1], epochs=self.epochs)
        rule, mark = sgd.Rule(self.learning_rate, self.momentum), scratch.mark
        with torch.no_grad():
            train = gram.train if stacked else sgd.train
            updates, losses = train(self.network, theta, x=x, y=y, batches=steps, rule=rule, scratch=scratch)
        scratch.give_back(mark)
        return LocalUpdates(places, updates, losses.double().cpu().numpy())


def evaluate(network: Network, theta: Tensor, examples: Examples, *, crew: Crew) -> tuple[float, float]:
    """The share of examples classified rightly, and their mean cross-entropy."""

    def work(start: int, scratch: Scratch) -> tuple[int, float]:
        with torch.no_grad():
            x, y = examples.take(torch.arange(start, min(start + EVALUATION_BATCH, len(examples))))
            labels = y.to(theta.device)
            logits = network.logits(theta, x.to(theta.device), scratch)
            loss = F.cross_entropy(logits, labels, reduction="sum")
            return int((logits.argmax(1) == labels).sum()), float(loss)

    found = list(crew.in_order(work, range(0, len(examples), EVALUATION_BATCH)))
    return sum(right for right, _ in found) / len(examples), sum(loss for _, loss in found) / len(examples)
