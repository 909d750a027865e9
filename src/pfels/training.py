"""Local SGD of a whole cohort as one tensor program, and evaluation."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from pfels.datasets import Examples
from pfels.models import Network
from pfels.partition import Federation, Shard

# A chunk of devices trained together holds about so many parameters: enough to fill a core, few enough to stay
# near its cache. It is a constant, because a chunk's size may change the last bits of a result.
CHUNK_PARAMETERS = 2**20


@dataclass(frozen=True)
class LocalUpdates:
    """What some members of a cohort learned: their places in the cohort, Δ a row (c, d), and the mean loss of each."""

    places: slice
    updates: Tensor
    losses: NDArray[np.float64]


@dataclass(frozen=True)
class LocalTraining:
    """How a device trains: τ epochs of momentum SGD over its own examples, in batches drawn without replacement."""

    network: Network
    federation: Federation
    learning_rate: float
    epochs: int
    batch_size: int
    momentum: float

    def cohort(
        self, theta: Tensor, devices: Sequence[int], orders: Callable[[int], np.random.Generator], *, workers: int
    ) -> Iterator[LocalUpdates]:
        """The updates of all `devices` from the model θ, in chunks in cohort order, trained by `workers` threads.

        `orders(device)` is the generator of a device's batch order; it is asked only of devices with more
        examples than fit a batch. The chunks depend on the cohort and the model alone, so the number of
        workers changes no bit.
        """
        places = _chunks(len(devices), self.network.dimension)

        def work(part: slice) -> LocalUpdates:
            members = devices[part]
            return LocalUpdates(part, *self._train(theta, self.federation.examples(members), members, orders))

        if workers <= 1 or len(places) <= 1:
            yield from map(work, places)
        else:
            with ThreadPoolExecutor(workers) as pool:
                yield from pool.map(work, places)

    def _train(
        self, theta: Tensor, shard: Shard, members: Sequence[int], orders: Callable[[int], np.random.Generator]
    ) -> tuple[Tensor, NDArray[np.float64]]:
        rows = theta.repeat(len(members), 1)
        parameters = [p.requires_grad_() for p in self.network.unflatten(rows)]
        velocity = torch.zeros_like(rows)
        velocities = self.network.unflatten(velocity)
        loss_sum, steps = torch.zeros(len(members)), torch.zeros(len(members))
        for batch in self._batches(shard, members, orders):
            logits = self.network.forward(parameters, batch.x)
            each = F.cross_entropy(logits.flatten(0, 1), batch.y.flatten(), reduction="none").view_as(batch.y)
            loss = each.mean(1) if batch.weights is None else (each * batch.weights).sum(1)
            # Devices do not interact, so the gradient of the sum holds every device's own gradient.
            gradients = torch.autograd.grad(loss.sum(), parameters)
            with torch.no_grad():
                self._descend(parameters, velocities, gradients, batch.active)
            active = torch.ones(len(members)) if batch.active is None else batch.active
            loss_sum += loss.detach() * active
            steps += active
        return rows.detach() - theta, (loss_sum / steps).double().numpy()

    def _descend(
        self, parameters: list[Tensor], velocities: list[Tensor], gradients: Sequence[Tensor], active: Tensor | None
    ) -> None:
        """v ← mv + g and θ ← θ − ηv; a device with no examples in this batch keeps both as they are."""
        for theta, v, g in zip(parameters, velocities, gradients, strict=True):
            if active is None:
                theta.sub_(v.mul_(self.momentum).add_(g), alpha=self.learning_rate)
            else:
                on = active.view(-1, *[1] * (v.dim() - 1))
                v.add_(on * (v * (self.momentum - 1) + g))
                theta.sub_(on * v, alpha=self.learning_rate)

    def _batches(
        self, shard: Shard, members: Sequence[int], orders: Callable[[int], np.random.Generator]
    ) -> Iterator["_Batch"]:
        longest, size = shard.y.shape[1], self.batch_size
        if longest <= size:  # every device trains on all it has in one batch; the order cannot matter
            weights = _weights(shard.counts, 0, longest)
            yield from (_Batch(shard.x, shard.y, weights, None) for _ in range(self.epochs))
            return
        generators = [orders(m) if n > size else None for m, n in zip(members, shard.counts, strict=True)]
        rows = torch.arange(len(members)).unsqueeze(1)
        for _ in range(self.epochs):
            order = torch.zeros(shard.y.shape, dtype=torch.int64)
            for i, (n, g) in enumerate(zip(shard.counts, generators, strict=True)):
                order[i, :n] = torch.arange(int(n)) if g is None else torch.from_numpy(g.permutation(int(n)))
            for start in range(0, longest, size):
                stop = min(start + size, longest)
                chosen = order[:, start:stop]
                weights = _weights(shard.counts, start, stop)
                active = None if shard.counts.min() > start else torch.from_numpy(shard.counts > start).float()
                yield _Batch(shard.x[rows, chosen], shard.y[rows, chosen], weights, active)


@dataclass(frozen=True)
class _Batch:
    """A batch of every device: weights (r, n) that average over the real examples, or None where all are real;
    `active` (r,) is 0 for a device whose epoch is over, or None where all go on."""

    x: Tensor
    y: Tensor
    weights: Tensor | None
    active: Tensor | None


def _weights(counts: NDArray[np.int64], start: int, stop: int) -> Tensor | None:
    """Per-example weights of the batch [start, stop): 1/size of the device's own batch, zero on padding."""
    sizes = np.clip(counts - start, 0, stop - start)
    if sizes.min() == stop - start:
        return None
    real = np.arange(stop - start)[None, :] < sizes[:, None]
    return torch.from_numpy((real / np.maximum(sizes, 1)[:, None]).astype(np.float32))


def _chunks(cohort: int, dimension: int) -> list[slice]:
    """The cohort cut into the fewest even chunks of about CHUNK_PARAMETERS parameters each."""
    count = min(cohort, -(-cohort * dimension // CHUNK_PARAMETERS))
    edges = [cohort * i // count for i in range(count + 1)] if cohort else []
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def evaluate(network: Network, theta: Tensor, examples: Examples, *, batch: int = 2000) -> tuple[float, float]:
    """The share of examples classified rightly, and their mean cross-entropy."""
    parameters, right, loss = network.unflatten(theta.unsqueeze(0)), 0, 0.0
    with torch.no_grad():
        for x, y in examples.batches(batch):
            logits = network.forward(parameters, x.unsqueeze(0))[0]
            right += int((logits.argmax(1) == y).sum())
            loss += float(F.cross_entropy(logits, y, reduction="sum"))
    return right / len(examples), loss / len(examples)
