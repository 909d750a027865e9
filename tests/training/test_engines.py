import copy
import itertools
import threading

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pfels.data.examples import Examples
from pfels.data.partition import DeviceBatch
from pfels.runtime.memory import Scratch
from pfels.runtime.threads import OrderedPool, one_thread_each
from pfels.seeding import Purpose, generator
from pfels.training import gram
from pfels.training.local import LocalTraining, chunks, evaluate, resolve
from pfels.training.networks import build

SHAPES = {"linear": (1, 6, 6), "mlp": (1, 6, 6), "cnn": (1, 12, 12), "vgg11": (3, 32, 32), "resnet18": (1, 28, 28)}


class RandomFederation:
    """A federation of random examples, drawn per device on request."""

    def __init__(self, shape: tuple[int, ...], counts: list[int]) -> None:
        self.shape, self.counts = shape, counts

    def one(self, device: int) -> tuple[Tensor, Tensor]:
        draw = np.random.Generator(np.random.Philox(key=device))
        n = self.counts[device % len(self.counts)]
        x = draw.standard_normal((n, *self.shape), dtype=np.float32)
        return torch.from_numpy(x), torch.from_numpy(draw.integers(0, 5, n))

    def examples(self, devices) -> DeviceBatch:
        parts = [self.one(i) for i in devices]
        counts = np.array([len(y) for _, y in parts])
        rows = [torch.from_numpy(np.resize(np.arange(n), counts.max())) for n in counts]
        x = torch.stack([x[i] for (x, _), i in zip(parts, rows, strict=True)])
        return DeviceBatch(x, torch.stack([y[i] for (_, y), i in zip(parts, rows, strict=True)]), counts)


def training(
    name: str, engine: str, *, workers: int = 1, counts=(10,), batch: int = 10, momentum: float = 0.9
) -> LocalTraining:
    network = build(name, shape=SHAPES[name], classes=5, hidden=8)
    federation = RandomFederation(SHAPES[name], list(counts))
    return LocalTraining(network, federation, 0.05, 2, batch, momentum, engine, OrderedPool(workers), None)  # type: ignore[arg-type]


def orders(device: int) -> np.random.Generator:
    return generator(3, Purpose.BATCHES, round=1, device=device)


def train_cohort(work: LocalTraining, devices: list[int]) -> tuple[Tensor, np.ndarray]:
    """All updates and losses of a cohort."""
    theta = work.network.initial(generator(0, Purpose.MODEL))
    with one_thread_each():
        parts = [(p.updates.clone(), p.losses) for p in work.cohort(theta, devices, orders)]
    return torch.cat([u for u, _ in parts]), np.concatenate([losses for _, losses in parts])


CASES = {
    "full batch": {"counts": (10,), "batch": 10},
    "uneven devices": {"counts": (3, 10, 7, 1), "batch": 10},
    "several batches": {"counts": (10,), "batch": 4},
    "uneven devices and several batches": {"counts": (3, 10, 7, 1), "batch": 4},
    "no momentum": {"counts": (3, 10, 7, 1), "batch": 4, "momentum": 0.0},
}


def plain_loop(work: LocalTraining, device: int) -> tuple[Tensor, float]:
    """One device's update and mean loss, by nn.Sequential and torch.optim.SGD."""
    x, y = work.federation.one(device)  # type: ignore[attr-defined]
    theta = work.network.initial(generator(0, Purpose.MODEL))
    values = [p.value[0] for p in work.network.stacked(theta[None], theta[None], 0.0)]
    first, *others = (nn.Linear(*weight.shape) for weight in values[::2])
    model = nn.Sequential(nn.Flatten(), first, *(layer for other in others for layer in (nn.ReLU(), other)))
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(value.T if value.dim() == 2 else value)
    before = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=work.learning_rate, momentum=work.momentum)
    losses, draw = [], orders(device)
    for _ in range(work.epochs):
        order = torch.from_numpy(draw.permutation(len(y))) if len(y) > work.batch_size else torch.arange(len(y))
        for some in torch.split(order, work.batch_size):
            loss = nn.functional.cross_entropy(model(x[some]), y[some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    moved = [b.detach() - a.detach() for a, b in zip(before.parameters(), model.parameters(), strict=True)]
    return torch.cat([(m.mT if m.dim() == 2 else m).flatten() for m in moved]), float(np.mean(losses))


@pytest.mark.parametrize("engine", ["batched", "threaded"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_a_cohort_gets_the_updates_of_a_plain_loop_over_its_devices(name, engine, case):
    work, devices = training(name, engine, **CASES[case]), [4, 7, 9, 10, 13]
    updates, losses = train_cohort(work, devices)
    for row, loss, device in zip(updates, losses, devices, strict=True):
        wanted, wanted_loss = plain_loop(work, device)
        torch.testing.assert_close(row, wanted, rtol=1e-4, atol=1e-6)
        assert loss == pytest.approx(wanted_loss, rel=1e-5)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["linear", "mlp", "cnn"])
def test_engines_agree(name, case):
    devices = list(range(9))
    one, losses = train_cohort(training(name, "batched", **CASES[case]), devices)
    two, other_losses = train_cohort(training(name, "threaded", **CASES[case]), devices)
    torch.testing.assert_close(one, two, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(losses, other_losses, rtol=1e-5)


@pytest.mark.parametrize("name", ["vgg11", "resnet18"])
def test_engines_agree_on_deep_networks(name, monkeypatch):
    monkeypatch.setattr("pfels.training.local.CHUNK_PARAMETERS", 2 * 12_000_000)  # two devices at a time
    one, losses = train_cohort(training(name, "batched", counts=(2,)), [0, 1])
    two, other_losses = train_cohort(training(name, "threaded", counts=(2,)), [0, 1])
    assert (one - two).norm() <= 1e-3 * two.norm()
    np.testing.assert_allclose(losses, other_losses, rtol=1e-4)


@pytest.mark.parametrize("case", ["full batch", "uneven devices and several batches"])
@pytest.mark.parametrize("engine", ["batched", "threaded"])
@pytest.mark.parametrize("name", ["linear", "mlp", "cnn"])
def test_results_are_bit_identical_for_any_number_of_workers(name, engine, case, monkeypatch):
    monkeypatch.setattr("pfels.training.local.CHUNK_PARAMETERS", 10_000)
    devices = list(range(0, 33, 3))
    alone, losses = train_cohort(training(name, engine, workers=1, **CASES[case]), devices)
    for workers in (2, 3):
        together, other_losses = train_cohort(training(name, engine, workers=workers, **CASES[case]), devices)
        assert torch.equal(alone, together)
        assert np.array_equal(losses, other_losses)


def test_the_gram_matrix_is_used_where_it_takes_fewer_multiplications():
    network = build("mlp", shape=(1, 28, 28), classes=10, hidden=64)
    assert gram.pays(network, examples=50, epochs=5)
    assert not gram.pays(network, examples=50, epochs=1)
    assert not gram.pays(network, examples=5000, epochs=5)
    assert not gram.pays(build("cnn", shape=(1, 28, 28), classes=10, hidden=64), examples=50, epochs=5)
    linear = build("linear", shape=(1, 28, 28), classes=10, hidden=64)
    assert gram.pays(linear, examples=20, epochs=5)
    assert not gram.pays(linear, examples=100, epochs=5)


@pytest.mark.parametrize("pays", [True, False])
@pytest.mark.parametrize("name", ["linear", "mlp"])
def test_the_gram_matrix_changes_no_update(name, pays, monkeypatch):
    monkeypatch.setattr(gram, "pays", lambda network, *, examples, epochs: pays)
    work = training(name, "batched", **CASES["uneven devices and several batches"])
    for row, device in zip(train_cohort(work, [1, 2, 5])[0], [1, 2, 5], strict=True):
        torch.testing.assert_close(row, plain_loop(work, device)[0], rtol=1e-4, atol=1e-6)


def test_auto_is_a_fixed_rule():
    for name, engine in (
        ("linear", "batched"),
        ("mlp", "batched"),
        ("cnn", "threaded"),
        ("vgg11", "threaded"),
        ("resnet18", "threaded"),
    ):
        network = build(name, shape=SHAPES[name], classes=5, hidden=8)
        assert resolve("auto", network) == engine
        assert resolve("batched", network) == "batched"


@pytest.mark.parametrize(("cohort", "dimension"), [(0, 10), (1, 10**9), (32, 50_890), (32, 10**7), (33, 300_000)])
def test_chunks_cover_the_cohort_in_order(cohort, dimension):
    for engine in ("batched", "threaded"):
        parts = chunks(engine, cohort=cohort, dimension=dimension)
        assert list(itertools.chain.from_iterable(range(cohort)[p] for p in parts)) == list(range(cohort))


def test_an_empty_cohort_gives_no_updates():
    work = training("mlp", "batched")
    assert list(work.cohort(torch.zeros(work.network.dimension), [], orders)) == []


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_at_most_one_part_per_worker_and_one_more_are_in_progress(workers):
    in_progress, maximum, lock = 0, 0, threading.Lock()

    def work(part: int, scratch: Scratch) -> int:
        nonlocal in_progress, maximum
        with lock:
            in_progress += 1
            maximum = max(maximum, in_progress)
        return part

    seen = []
    for part in OrderedPool(workers).map(work, range(50)):
        seen.append(part)
        with lock:
            in_progress -= 1
    assert seen == list(range(50))
    assert maximum <= workers + 1


def test_memory_grows_with_the_workers_but_not_with_the_cohort():
    work = training("cnn", "threaded", workers=2)
    train_cohort(work, list(range(6)))

    def held() -> int:
        return sum(slot.numel() for scratch in work.pool._free for slot in scratch._slots)

    before = held()
    train_cohort(work, list(range(60)))
    assert held() == before
    assert before < 3 * 20 * work.network.dimension


def test_an_error_in_a_thread_reaches_the_caller_and_the_pool_stays_usable():
    pool = OrderedPool(2)

    def work(part: int, scratch: Scratch) -> int:
        if part == 3:
            raise ValueError("three")
        return part

    with pytest.raises(ValueError, match="three"):
        list(pool.map(work, range(10)))
    assert list(pool.map(lambda part, scratch: part, range(10))) == list(range(10))
    stopped = pool.map(lambda part, scratch: part, range(10))
    assert next(stopped) == 0
    stopped.close()
    assert list(pool.map(lambda part, scratch: part, range(10))) == list(range(10))


def test_evaluation_is_independent_of_the_workers_and_counts_every_example():
    network = build("cnn", shape=(1, 12, 12), classes=5, hidden=8)
    theta = network.initial(generator(0, Purpose.MODEL))
    x, y = RandomFederation((1, 12, 12), [777]).one(0)
    with one_thread_each():
        alone, together = (evaluate(network, theta, Examples(x, y), pool=OrderedPool(w)) for w in (1, 3))
        logits = network.logits(theta, x, Scratch())
    assert alone == together
    assert alone[0] == pytest.approx(float((logits.argmax(1) == y).float().mean()))
    assert alone[1] == pytest.approx(float(nn.functional.cross_entropy(logits, y)), rel=1e-5)
