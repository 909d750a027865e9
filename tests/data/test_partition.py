"""Partitions: no example is used twice, every size is met, labels follow the stated distribution."""

import numpy as np
import pytest
import torch

from pfels.data.datasets import load
from pfels.data.examples import Dataset, Examples
from pfels.data.partition import split
from pfels.errors import InputError
from pfels.seeding import Purpose, generator


def data(n: int = 600, classes: int = 10, writers: np.ndarray | None = None) -> Dataset:
    y = torch.arange(n) % classes
    test = Examples(torch.rand(10, 3), torch.arange(10) % classes)
    return Dataset(Examples(torch.rand(n, 3), y), test, classes, writers)


def parts(dataset: Dataset, **settings) -> list[np.ndarray]:
    settings = {"kind": "iid", "devices": 12, "per_device": None, "alpha": 0.5} | settings
    return list(split(dataset, generator(0, Purpose.PARTITION), **settings).parts)


@pytest.mark.parametrize("kind", ["iid", "dirichlet"])
@pytest.mark.parametrize(("devices", "per_device", "sizes"), [(12, None, {50}), (7, None, {85, 86}), (12, 40, {40})])
def test_every_size_is_met_and_no_example_is_used_twice(kind, devices, per_device, sizes):
    got = parts(data(), kind=kind, devices=devices, per_device=per_device)
    assert len(got) == devices
    assert {len(part) for part in got} == sizes
    together = np.concatenate(got)
    assert len(np.unique(together)) == len(together)


def test_a_small_alpha_skews_labels_and_a_large_one_does_not():
    def skew(alpha: float) -> float:
        dataset = data(6000)
        counts = [
            np.bincount(dataset.train.y.numpy()[p], minlength=10)
            for p in parts(dataset, kind="dirichlet", alpha=alpha, devices=60)
        ]
        return float(np.mean([c.max() / c.sum() for c in counts]))

    assert skew(0.05) > 0.6
    assert skew(1000.0) < 0.2


def test_by_writer_each_device_is_one_writer_and_small_writers_are_excluded():
    writers = np.repeat(np.arange(20), 30)
    writers[:25] = 19
    got = parts(data(writers=writers), kind="writer", devices=15, per_device=20)
    assert all(len(set(writers[part])) == 1 for part in got)
    assert len({writers[part][0] for part in got}) == 15
    assert min(map(len, got)) >= 20
    assert len(parts(data(writers=writers), kind="writer", devices=19, per_device=30)) == 19
    with pytest.raises(InputError, match="only 19 of 20 writers have 20 examples"):
        parts(data(writers=writers), kind="writer", devices=20, per_device=20)
    with pytest.raises(InputError, match="have no writers"):
        parts(data(), kind="writer")


def test_padding_repeats_a_devices_own_examples():
    federation = split(data(), generator(0, Purpose.PARTITION), kind="iid", devices=7, per_device=None, alpha=1.0)
    batch = federation.examples([0, 6])
    assert batch.counts.tolist() == [86, 85]
    assert batch.x.shape == (2, 86, 3)
    own = federation.dataset.train.x[torch.from_numpy(federation.parts[6])]
    assert torch.equal(batch.x[1, :85], own)
    assert torch.equal(batch.x[1, 85], own[0])


def test_the_digits_are_scaled_and_split_identically_for_all_seeds():
    digits = load("digits")
    assert (len(digits.train), len(digits.test), digits.shape, digits.classes) == (1437, 360, (1, 8, 8), 10)
    assert (float(digits.train.x.min()), float(digits.train.x.max())) == (0.0, 1.0)
    assert torch.equal(digits.test.x, load("digits").test.x)
