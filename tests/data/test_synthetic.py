"""Synthetic(α, β): every device derives from the seed and its id, and costs nothing until requested."""

import re
import tracemalloc

import numpy as np
import pytest
import torch

from pfels.data.synthetic import CLASSES, FEATURES, SyntheticFederation
from pfels.errors import InputError
from pfels.experiment.loop import run
from pfels.experiment.setup import federate
from tests.conftest import small


def federation(**changes) -> SyntheticFederation:
    return SyntheticFederation(**({"seed": 0, "devices": 100, "per_device": 20, "alpha": 1.0, "beta": 1.0} | changes))


def test_a_device_is_independent_of_the_other_devices():
    alone = federation().examples([7])
    batch = federation(devices=1_000_000).examples([3, 7, 99])
    assert torch.equal(batch.x[1], alone.x[0])
    assert torch.equal(batch.y[1], alone.y[0])
    assert not torch.equal(batch.x[0], batch.x[1])
    assert not torch.equal(federation(seed=1).examples([7]).x, alone.x)


def test_a_million_devices_cost_no_memory_until_requested():
    tracemalloc.start()
    million = federation(devices=1_000_000)
    million.examples([0, 999_999])
    million.test.take(torch.arange(10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_sizes_follow_the_benchmarks_distribution_within_limits():
    batch = federation(devices=500, per_device=None).examples(range(500))
    assert batch.counts.min() >= 50
    assert batch.counts.max() <= 2000
    # The median of ⌊lognormal(4, 2)⌋ + 50 is e⁴ + 50 = 104; that of 500 draws has a deviation of 7.
    assert 80 < np.median(batch.counts) < 135
    assert batch.x.shape == (500, batch.counts.max(), FEATURES)
    few = int(batch.counts.argmin())
    assert torch.equal(batch.x[few, batch.counts[few]], batch.x[few, 0])  # padding is the device's own


def test_alpha_and_beta_are_the_spreads_of_rules_and_inputs():
    for alpha, beta in ((0.0, 0.0), (2.0, 0.5), (0.5, 2.0)):
        made = federation(devices=2000, alpha=alpha, beta=beta)
        laws = [made._law(k)[0] for k in range(2000)]
        rules = np.array([law.weights.mean() for law in laws])  # N(0, α² + 1/600)
        centres = np.array([law.centre.mean() for law in laws])  # N(0, β² + 1/60)
        # A variance from 2000 draws has a relative deviation of √(2/2000) = 0.032.
        assert rules.var() == pytest.approx(alpha**2 + 1 / 600, rel=0.13)
        assert centres.var() == pytest.approx(beta**2 + 1 / 60, rel=0.13)


def test_inputs_have_the_benchmarks_covariance_and_labels_its_rule():
    made = federation(per_device=20_000)
    batch, law = made.examples([5]), made._law(5)[0]
    x = batch.x[0].double().numpy()
    assert np.allclose(x.mean(0), law.centre, atol=4 / np.sqrt(20_000))
    assert np.allclose(x.var(0), np.arange(1, 61) ** -1.2, rtol=0.05)
    assert np.mean(np.argmax(x @ law.weights + law.bias, axis=1) == batch.y[0].numpy()) > 0.999


def test_iid_devices_share_one_rule_and_one_centre():
    made = federation(iid=True)
    first, second = made._law(0)[0], made._law(1)[0]
    assert np.array_equal(first.weights, second.weights)
    assert np.array_equal(first.centre, second.centre)
    assert not torch.equal(made.examples([0]).x, made.examples([1]).x)


def test_test_examples_are_new_draws_from_the_devices_distributions():
    made = federation(devices=30, per_device=50)
    assert len(made.test) == 30 * 50
    batch = made.examples(range(30))
    trained = {row.tobytes() for row in batch.x.flatten(0, 1).numpy()}
    assert not trained & {row.tobytes() for row in made.test.x.numpy()}
    assert len(federation(devices=1_000_000).test) == 200 * 50


def test_synthetic_data_can_be_learned_by_device_and_iid():
    settings = {
        "scheme": "fedavg",
        "data__name": "synthetic",
        "data__per_device": 50,
        "rounds": 60,
        "model__hidden": 32,
    }
    by_device = small(**settings)
    assert by_device.data.partition == "writer"
    iid = small(**settings, data__partition="iid")
    assert run(by_device).summary["accuracy"] > 3 / CLASSES
    assert run(iid).summary["accuracy"] > 0.6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__name": "synthetic", "data__partition": "dirichlet"}, "synthetic data come by device"),
        ({"data__name": "synthetic", "data__path": "x"}, "is read from no file"),
        (
            {"data__name": "synthetic", "data__alpha": 1e308},
            "data.alpha = 1e+308: must be a finite number in [0, 1e+20]",
        ),
        ({"data__name": "synthetic", "data__beta": -1.0}, "data.beta = -1.0: must be a finite number in [0, 1e+20]"),
        ({"data__partition": "dirichlet", "data__alpha": 0.0}, "must be above 0 for the Dirichlet law"),
    ],
)
def test_wrong_settings_are_named(changes, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        small(**changes)


def test_the_largest_spreads_give_numbers_without_a_warning():
    for alpha, beta in ((1e20, 0.5), (0.5, 1e20), (1e20, 1e20), (0.0, 0.0)):
        config = small(data__name="synthetic", data__alpha=alpha, data__beta=beta, data__devices=30)
        drawn = federate(config).examples(range(30))
        assert np.isfinite(drawn.x.numpy()).all()
