"""With secret noise the server's sum is one of integers, and its noise is in it before any signal."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from pfels.config.load import load_config
from pfels.experiment.setup import Experiment, build
from pfels.flower.received import ExactNoise, ExactSum, FloatSum, received_noise
from pfels.flower.round import ServerRound
from pfels.privacy.lattice import Lattice


def experiment(scheme: str) -> Experiment:
    return build(load_config("demo", {"scheme": scheme, "rounds": 5}))


def begun(e: Experiment, *, secret: bool = True) -> ServerRound:
    plan, theta = e.scheme.prepare(e.draws, 0), torch.zeros(e.setting.dimension)
    return ServerRound.begin(e.scheme, e.draws, plan, theta, decoded={}, heard={}, secret=secret)


@pytest.mark.parametrize("scheme", ["pfels", "pfels-plus", "pfels-echo", "artificial-noise", "wfl-p"])
def test_over_the_air_the_sum_starts_with_the_receivers_noise_in_whole_steps(scheme: str):
    e = experiment(scheme)
    sums = [begun(e).y for _ in range(2)]
    assert all(isinstance(y, ExactSum) and not y.noisy for y in sums)
    assert sums[0].lattice.step == e.setting.noise_std / 2**20
    assert not np.array_equal(sums[0].steps, sums[1].steps), "no two rounds share their noise"
    sample = np.concatenate([y.steps for y in sums]) / 2**20
    assert stats.kstest(sample, "norm").pvalue > 1e-7
    total = sums[0].total()
    assert total.dtype == torch.float32
    assert np.abs(total.numpy() / sums[0].lattice.step - sums[0].steps).max() <= 1


def test_a_signal_moves_the_sum_by_whole_steps_and_by_no_more_than_its_length():
    e = experiment("pfels-plus")
    y = begun(e).y
    assert isinstance(y, ExactSum)
    before, signal = y.steps.copy(), torch.randn(y.width, dtype=torch.float64)
    y.add(signal)
    moved = (y.steps - before) * y.lattice.step
    assert (np.abs(moved) <= np.abs(signal.numpy())).all()
    assert np.abs(moved - signal.numpy()).max() < y.lattice.step


def test_dp_fedavg_devices_send_whole_steps_which_the_server_finds_again():
    e = experiment("dp-fedavg")
    here = begun(e)
    std = e.scheme.noise_std(here.plan, int(here.plan.sending[0]))
    assert isinstance(here.y, ExactSum)
    assert here.y.noisy
    assert here.y.lattice == Lattice.for_noise(std)
    update = torch.full((e.setting.dimension,), e.setting.bound / e.setting.dimension**0.5)
    expected = np.zeros(e.setting.dimension, np.int64)
    add_noise = ExactNoise(2)
    for _ in range(3):
        exact = update.double()
        add_noise(exact, std)
        steps = np.rint(exact.numpy() / here.y.lattice.step).astype(np.int64)
        assert np.abs(exact.numpy() / here.y.lattice.step - steps).max() < 1e-6
        here.y.add(exact.float().double())  # as it travels
        expected += steps
    assert np.array_equal(here.y.steps, expected)
    sample = (expected * here.y.lattice.step - 3 * update.double().numpy()) / (std * 3**0.5)
    assert stats.kstest(sample, "norm").pvalue > 1e-7


def test_noise_that_is_drawn_for_several_rows_is_used_once():
    add_noise = ExactNoise(3)
    rows = torch.zeros(8, 500)
    for row in rows:
        add_noise(row, 1.0)
    assert len(set(map(tuple, rows.tolist()))) == 8
    assert abs(np.corrcoef(rows.numpy()) - np.eye(8)).max() < 6 / 500**0.5


def test_noise_of_devices_that_are_not_heard_is_exact_as_well():
    e = experiment("dp-fedavg")
    here = begun(e)
    assert isinstance(here.y, ExactSum)
    here.used = {0}
    here.result()
    missing = len(here.plan.sending) - 1
    assert stats.kstest(here.y.steps / 2**20 / missing**0.5, "norm").pvalue > 1e-7


def test_without_noise_nothing_is_rounded_and_a_device_without_power_left_adds_none():
    assert isinstance(begun(experiment("fedavg")).y, FloatSum)
    row = torch.randn(10)
    before = row.clone()
    ExactNoise()(row, 0.0)
    assert torch.equal(row, before)


@pytest.mark.parametrize("scheme", ["pfels", "dp-fedavg", "fedavg"])
def test_with_the_noise_of_the_seed_the_sum_is_the_simulators(scheme: str):
    e: Any = experiment(scheme)
    plan = e.scheme.prepare(e.draws, 0)
    A = e.scheme.indices(e.draws, e.draws.start, 0)
    y = received_noise(e.scheme, e.draws, plan, A, secret=False)
    expected = torch.zeros(y.width) if plan.air is None else e.draws.receiver_noise(0, y.width)
    assert torch.equal(y.total(), expected)
