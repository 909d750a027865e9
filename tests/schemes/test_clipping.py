"""Amplifiers that clip peaks: shorter signals, less energy, the same privacy, and repetitions clipped alike."""

import numpy as np
import pytest
import torch

import pfels
from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment.loop import run
from pfels.experiment.setup import build
from pfels.runtime.threads import one_thread_each
from pfels.schemes.exposure import plan_round
from pfels.schemes.memory import Memory
from pfels.schemes.round import local_updates, transmissions


def demo(scheme: str, **settings):
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    return load_config("demo", {"scheme": scheme, "rounds": 20, **dotted})


@pytest.mark.parametrize("scheme", ["pfels", "pfels-plus", "pfels-echo"])
def test_clipping_shortens_signals_and_costs_no_privacy(scheme: str):
    clean, clipped = run(demo(scheme)).summary, run(demo(scheme, channel__clipping_db=0.0)).summary
    assert clipped["energy"] < 0.9 * clean["energy"]
    assert clipped["energy_bound"] == clean["energy_bound"]
    assert clipped["privacy"]["server"] == clean["privacy"]["server"]


def test_what_a_device_repeats_is_what_left_its_amplifier_at_first():
    e = build(demo("pfels-echo", channel__clipping_db=0.0))
    theta = e.network.initial(np.random.default_rng(0))
    plan = plan_round(e.scheme, e.draws, 0)
    with one_thread_each():
        for part, _ in local_updates(e.training, e.draws, theta, 0, plan.training):
            sent = transmissions(e.scheme, e.draws, plan, part, None, memory=Memory())
            again = plan.transmit(torch.stack([kept.row for kept in sent.kept.values()]), part.places)
            # Clipping is homogeneous: to clip and scale is to scale and clip.
            torch.testing.assert_close(again, sent.signals, rtol=1e-4, atol=1e-5 * float(sent.signals.abs().max()))
            norms = [kept.norm for kept in sent.kept.values()]
            assert max(norms) < 0.95 * plan.air.bound


def test_an_audit_does_not_reject_amplifiers_that_clip():
    found = pfels.audit(demo("pfels-plus", rounds=40, channel__clipping_db=0.0), canaries=120)
    assert not found["rejected"]
    assert found["alone"]["epsilon"] < found["alone"]["booked"]


def test_a_scheme_whose_devices_add_noise_may_not_be_clipped():
    with pytest.raises(InputError, match=r"^channel.clipping_db: artificial-noise does not use it"):
        demo("artificial-noise", channel__clipping_db=3.0)
