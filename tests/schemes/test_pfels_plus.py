"""PFELS+: every limit holds for every transmission, every figure stays within the budget."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment import loop
from pfels.experiment.forecast import forecast_run
from pfels.experiment.link import Link, link_of
from pfels.experiment.setup import build
from pfels.privacy.calibration import participation_cap
from pfels.schemes import pfels_plus
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.registry import load_scheme
from pfels.schemes.round import local_updates
from pfels.schemes.round import play as play_round
from pfels.seeding import Purpose, generator
from pfels.uplink.compression import public_top_k
from pfels.uplink.power import best_carried_level
from tests.conftest import small
from tests.experiment.test_directory import contents, stop_after

OUTSIDER = {"privacy__adversary": "outsider", "privacy__total_epsilon": 2.0}


def plus(**changes):
    return small(**({"scheme": "pfels-plus"} | changes))


def play(e, t: int = 0, theta=None, memory=None, scheme=None):
    theta = e.network.initial(generator(0, Purpose.MODEL)) if theta is None else theta
    scheme = scheme or e.scheme
    return play_round(scheme, e.draws, scheme.prepare(e.draws, t), theta, e.training, memory=memory or Memory())


def forecast_privacy(config):
    setting, ledger = forecast_run(config)
    return ledger.privacy(setting)


def link_only(**changes) -> Link:
    """The paper's channel at N = 1000, r = 32, without a model."""
    large = {"scheme": "pfels-plus", "data.devices": 1000, "cohort.size": 32}
    config = load_config("demo", {**large, **changes}, tuned=False)
    law = {"channel.gain_mean": 0.02, "channel.gain_min": 0.0001, "channel.gain_max": 0.1}
    return link_of(load_config(config, law | changes), dimension=50_890)


# power and sampling


@pytest.mark.parametrize("adversary", ["server", "outsider"])
def test_the_power_limit_holds_for_every_single_transmission(adversary: str):
    """‖x‖ ≤ β·s/|h| for whatever is sent, and that stays within P, in 100,000 device-rounds."""
    changes = {"privacy.adversary": adversary, "privacy.total_epsilon": 200.0, "rounds": 4000}
    link = link_only(**changes)
    seen = 0
    for t in range(4000):
        air = link.scheme.prepare(link.draws, t).require_air()
        assert np.all((air.beta * air.bound / np.abs(air.gains)) ** 2 <= air.powers * (1 + 1e-12))
        seen += len(air.gains)
        if seen >= 100_000:
            break
    assert seen >= (100_000 if adversary == "outsider" else 20_000)


def test_realised_transmissions_stay_within_their_power_limit():
    e = build(plus(channel__gain_mean=0.002, privacy__total_epsilon=500.0))
    theta = e.network.initial(generator(0, Purpose.MODEL))
    for t in range(20):
        plan, result = e.scheme.prepare(e.draws, t), play(e, t, theta)
        assert np.all(np.array(result.device_energy) <= plan.require_air().powers)


def test_sampling_after_silence_is_still_poisson_with_the_stated_rate():
    """A device sends with probability q·P(|h| ≥ βs/√P), by its own coin and channel alone."""
    link = link_only(**{"privacy.adversary": "outsider", "privacy.total_epsilon": 50.0, "rounds": 3000})
    level = link.scheme.level
    sent = np.zeros((3000, 1000), dtype=bool)
    for t in range(3000):
        sent[t, link.scheme.prepare(link.draws, t).sending] = True
    limit = level.beta * level.bound / np.sqrt(link.draws.powers(np.arange(1000)))
    rate = 0.032 * np.where(limit <= 0.0001, 1.0, np.where(limit <= 0.1, np.exp(-limit / 0.02), 0.0))
    assert np.all(np.abs(sent.mean(0) - rate) < 5 * np.sqrt(rate * (1 - rate) / 3000) + 1e-9)
    assert rate.mean() == pytest.approx(0.032 * level.carried, rel=0.02)
    pairs = np.corrcoef(sent[:, :60].T.astype(float))[np.triu_indices(60, 1)]
    assert np.all(np.abs(pairs) < 6 / math.sqrt(3000))


def test_the_level_tells_nothing_of_anyone():
    """β depends on the laws and the budget, never on the seed, and so on nobody's channel, power or draw."""
    levels = {link_only(seed=seed).scheme.level for seed in range(3)}
    assert len(levels) == 1


def test_the_level_serves_best_among_those_the_budget_allows():
    for epsilon in (1.0, 1e4):
        link = link_only(**{"privacy.total_epsilon": epsilon})
        level = link.scheme.level
        z, _ = pfels_plus._noise_and_cap(link.setting)
        assert level.noise_multiplier >= z * (1 - 1e-12)
        assert level.limit == ("privacy" if epsilon == 1.0 else "power"), level
    assert best_carried_level(beta=1.0, carried=lambda beta: math.exp(-10 * beta)) == pytest.approx(0.1, rel=0.02)
    assert best_carried_level(beta=1.0, carried=lambda beta: 1.0) == 1.0


# budget


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 16.0])
def test_the_servers_figure_never_exceeds_the_budget(epsilon: float):
    e = build(plus(privacy__total_epsilon=epsilon, rounds=200))
    server = forecast_privacy(e.config)["server"]
    assert 0.9 * epsilon < server["epsilon"] <= epsilon
    assert server["participations"] <= e.scheme.level.cap


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_outsiders_figure_never_exceeds_the_budget(epsilon: float):
    e = build(plus(privacy__total_epsilon=epsilon, privacy__adversary="outsider", rounds=50))
    figure = forecast_privacy(e.config)["outsider"]
    assert 0.99 * epsilon < figure["epsilon"] <= epsilon
    assert (figure["neighbours"], figure["accountant"]) == ("add-remove", "pld")


@pytest.mark.parametrize("changes", [{}, OUTSIDER, {"compression__error_feedback": True}, {"server__momentum": 0.5}])
def test_a_run_stopped_early_or_resumed_stays_within_the_budget_and_keeps_its_bytes(tmp_path: Path, changes):
    config = plus(**changes, rounds=10)
    whole = loop.run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "cut", progress=stop_after(4))
    last = (tmp_path / "cut" / "rounds.jsonl").read_text().splitlines()[-1]
    early = json.loads(last)["privacy"]["server"]["epsilon"]
    loop.run(config, tmp_path / "cut", resume=True)
    assert contents(tmp_path / "whole") == contents(tmp_path / "cut")
    figures = whole.summary["privacy"]
    assert early <= figures["server"]["epsilon"]
    if config.privacy.adversary == "server":
        assert figures["server"]["epsilon"] <= config.privacy.total_epsilon
    else:
        assert figures["outsider"]["epsilon"] <= config.privacy.total_epsilon


def test_an_empty_round_is_a_release_and_is_priced():
    e = build(plus(cohort__size=1, **OUTSIDER, privacy__delta=1e-3, rounds=30))
    _, ledger = forecast_run(e.config)
    assert sum(ledger.noise_multipliers.values()) == 30
    assert any(not len(e.scheme.prepare(e.draws, t).sending) for t in range(30))


def test_a_cap_hears_most_for_the_noise():
    for rounds, rate in ((300, 0.032), (300, 0.2), (50, 0.5)):
        draws = np.random.Generator(np.random.Philox(1)).binomial(rounds, rate, 20_000)
        heard = [np.minimum(draws, n).mean() / math.sqrt(n) for n in range(1, rounds)]
        best = participation_cap(rounds=rounds, rate=rate)
        assert heard[best - 1] >= max(heard) * 0.995


def test_nobody_sends_more_often_than_the_cap():
    link = link_only(rounds=600, **{"privacy.total_epsilon": 50.0})
    level = link.scheme.level
    times = np.zeros(1000, int)
    for t in range(600):
        times[link.scheme.prepare(link.draws, t).sending] += 1
    assert times.max() == level.cap
    backwards = link.scheme.prepare(link.draws, 3).sending
    fresh = link_only(rounds=600, **{"privacy.total_epsilon": 50.0})
    assert np.array_equal(backwards, fresh.scheme.prepare(fresh.draws, 3).sending)


def test_a_device_may_remember_its_draws_and_stays_within_the_budget_against_an_outsider():
    """What a cap or error feedback makes of earlier draws costs nothing: the coins stay fresh."""
    spent = loop.run(plus(compression__error_feedback=True, privacy__adversary="outsider")).summary["privacy"]
    assert 0 < spent["outsider"]["epsilon"] <= 16.0
    capped = loop.run(plus(compression__error_feedback=True)).summary["privacy"]
    assert 0 < capped["outsider"]["epsilon"] < capped["server"]["epsilon"] <= 16.0


# what is sent


def test_error_feedback_keeps_what_was_not_sent_and_never_exceeds_the_bound():
    """transmit() would refuse a longer signal; what is held back is what projection left out."""
    e = build(plus(compression__error_feedback=True, channel__gain_mean=0.01, privacy__total_epsilon=300.0))
    theta = e.network.initial(generator(0, Purpose.MODEL))
    memory = Memory()
    for t in range(15):
        plan, result = e.scheme.prepare(e.draws, t), play(e, t, theta, memory)
        assert set(result.kept) == set(plan.cohort.tolist())
        air = plan.require_air()
        assert np.all(np.array(result.device_energy) <= (air.beta * air.bound / np.abs(air.gains)) ** 2)
        memory = memory.after(plan, result)
    plan, fresh = e.scheme.prepare(e.draws, 0), play(e, 0, theta)
    kept = e.draws.rand_k(0)
    for device in plan.sending.tolist():
        (part,) = e.training.cohort(theta, [device], lambda d: generator(0, Purpose.BATCHES, device=d))
        update = part.updates[0]
        clipped = update * min(1.0, e.setting.bound / float(update.norm()))
        dropped = torch.ones(len(theta), dtype=torch.bool)
        dropped[kept] = False
        assert torch.allclose(fresh.kept[device].row[dropped], clipped[dropped], rtol=1e-4, atol=1e-7)


def test_with_error_feedback_what_projection_left_out_waits_and_nothing_is_sent_twice():
    """Update and memory, clipped, come in two parts: one goes on the air, clipped again, and the other is held back."""
    e = build(plus(compression__error_feedback=True, compression__ratio=0.5, training__clip=0.1))
    theta, setting = e.network.initial(generator(0, Purpose.MODEL)), e.setting
    plan, chosen = e.scheme.prepare(e.draws, 0), e.scheme.indices(e.draws, theta, 0)
    held = 0.01 * torch.randn(len(plan.cohort), setting.dimension)
    held[::2, chosen] = 0  # so that this round sends the smaller part of every other device's total,
    held[1::2] *= torch.zeros(setting.dimension).index_fill(0, chosen, 1)  # and the larger part of the others'
    memory = Memory({device: Kept(row) for device, row in zip(plan.cohort.tolist(), held, strict=True)})
    lengths, air = [], plan.require_air()
    for part, _ in local_updates(e.training, e.draws, theta, 0, plan.sending):
        devices = plan.sending[part.places].tolist()
        whole = part.updates + torch.stack([memory.devices[device].row for device in devices])
        whole *= (setting.bound / whole.norm(dim=1, keepdim=True)).clamp(max=1)
        x, kept = e.scheme.send_and_keep(plan, part, chosen, memory)
        h = torch.from_numpy(np.abs(air.gains[part.places])).float()
        for row in range(len(devices)):
            sent, due = x[row] * h[row] / air.beta, whole[row, chosen]
            lengths.append(float(due.norm()))
            assert torch.allclose(sent, due * min(1.0, air.bound / lengths[-1]), atol=1e-6)
            rest = whole[row].clone()
            rest[chosen] = 0
            assert torch.allclose(kept[row], rest, atol=1e-6)
    assert min(lengths) < air.bound < max(lengths), "some were clipped again, and some were not"


def test_what_devices_hold_back_does_not_pile_up():
    """It stays within the bound of an update; with what the clips cut off it would grow from round to round."""
    e = build(plus(compression__error_feedback=True, cohort__size=30, training__learning_rate=1.0))
    theta = e.network.initial(generator(0, Purpose.MODEL))
    memory = Memory()
    for t in range(8):
        memory = memory.after(e.scheme.prepare(e.draws, t), play(e, t, theta, memory))
        assert max(float(kept.row.norm()) for kept in memory.devices.values()) <= e.setting.bound


def test_what_a_device_held_back_is_kept_until_it_is_drawn_again_and_is_gone_when_the_run_has_finished(tmp_path: Path):
    config = plus(compression__error_feedback=True, rounds=5, run__checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "run", progress=stop_after(4))
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    kept = load_file(checkpoint)["memory.ids"].tolist()
    records = loop.run(config, tmp_path / "run", resume=True).records[:4]
    assert kept == sorted({device for record in records for device in record["cohort"]})
    assert len(kept) > max(len(record["cohort"]) for record in records)
    assert not [name for name in load_file(checkpoint) if name.startswith("memory")]


def test_the_second_clip_is_the_square_root_of_p_and_the_level_is_the_same_in_any_unit_of_noise():
    one, three = (link_only(**{"channel.noise_std": std}).scheme.level for std in (1.0, 3.0))
    setting = link_only().setting
    assert one.bound == pytest.approx(math.sqrt(setting.share) * setting.bound)
    assert three.noise_multiplier == pytest.approx(one.noise_multiplier)
    assert three.beta == pytest.approx(3 * one.beta)


def test_the_public_divisor_knows_of_devices_that_have_reached_the_cap():
    link = link_only(rounds=300, **{"privacy.total_epsilon": 8.0})
    late = range(200, 300)
    sent = sum(len(link.scheme.prepare(link.draws, t).sending) for t in late)
    expected = sum(link.scheme.expected_transmitters(t) for t in late)
    assert expected < 0.9 * len(late) * link.scheme.expected_transmitters(0)
    assert sent == pytest.approx(expected, abs=5 * math.sqrt(expected))


def test_with_p_one_no_fading_limit_and_no_noise_it_is_fedavg_with_poisson_sampling():
    loose = {
        "compression__ratio": 1.0, "training__clip": 10.0, "channel__snr_min_db": 180.0, "channel__snr_max_db": 180.0,
        "privacy__total_epsilon": 1e5, **{"privacy__adversary": "outsider"}, "cohort__sampling": "poisson",
    }  # fmt: skip
    e = build(plus(**loose))
    theta = e.network.initial(generator(0, Purpose.MODEL))
    level = e.scheme.level
    assert level.carried == pytest.approx(1.0, abs=1e-6)
    estimate = play(e, 1, theta).estimate
    mean = play(e, 1, theta, scheme=load_scheme("fedavg", e.setting)).estimate
    noise = level.noise_multiplier * level.bound / 8
    assert float((estimate - mean).abs().max()) < 6 * noise + 1e-6
    assert noise < 0.01 * float(mean.norm())


def test_a_mask_from_the_model_takes_the_largest_moves_and_starves_nobody():
    moved = torch.zeros(100)
    moved[:10] = torch.arange(10, 0, -1) * torch.tensor([1.0, -1.0] * 5)
    counts = torch.zeros(100)
    for t in range(400):
        chosen = public_top_k(generator(0, Purpose.MASK, round=t), moved, kept=20)
        assert len(set(chosen.tolist())) == 20
        counts[chosen] += 1
    assert bool((counts[:10] == 400).all())
    assert bool((counts[10:] > 0).all())


def test_a_mask_from_the_model_depends_on_public_things_alone():
    e = build(plus(compression__kind="public-top-k"))
    theta = e.network.initial(generator(0, Purpose.MODEL)) + 0.1
    moved = torch.zeros_like(theta)
    moved[100 : 100 + e.setting.kept // 2] = -1e-3
    chosen = e.scheme.indices(e.draws, e.draws.start + moved, 3)
    assert set(range(100, 100 + e.setting.kept // 2)) <= set(chosen.tolist()), "it counts how far the model has come"
    loop.run(plus(compression__kind="public-top-k"))


def test_the_server_optimiser_is_plain_arithmetic_on_the_estimate(scheme: str):
    """Without momentum a rate of ½ takes half the step; with momentum v ← 0.9v + Δ̂."""
    plain = {"scheme": scheme, "server__learning_rate": 1.0, "server__average": 0.0, "compression__ratio": 0.3}
    full = loop.run(small(**plain, rounds=1)).parameters
    start = build(small(**plain)).network.initial(generator(0, Purpose.MODEL))
    half = loop.run(small(**{**plain, "server__learning_rate": 0.5}, rounds=1)).parameters
    assert torch.allclose(half - start, (full - start) / 2, atol=1e-6)
    e = build(small(**plain, rounds=2))
    steps, theta, velocity = [], start, torch.zeros_like(start)
    for t in range(2):
        steps.append(play(e, t, theta).estimate)
        velocity = 0.9 * velocity + steps[-1]
        theta = theta + velocity
    heavy = loop.run(small(**plain, rounds=2, server__momentum=0.9)).parameters
    assert torch.allclose(heavy, theta, atol=1e-6)


def test_pfels_plus_alone_has_these_options():
    with pytest.raises(InputError, match="pfels does not use it, only pfels-plus"):
        load_config("demo", {"compression.kind": "public-top-k"})


def test_a_gain_floor_silences_the_weak_saves_energy_and_leaves_privacy_as_it_is():
    outsider = {"scheme": "pfels-plus", "rounds": 40, "privacy.adversary": "outsider"}
    plain, floored = (build(load_config("demo", {**outsider, "channel.silent_below": floor})) for floor in (0.0, 0.03))
    energy = {}
    for e in (plain, floored):
        plans = [e.scheme.prepare(e.draws, t) for t in range(40)]
        energy[e.config.channel.silent_below] = sum(plan.require_air().energy_bounds.sum() for plan in plans)
        weakest = min(np.abs(plan.require_air().gains).min() for plan in plans)
        assert weakest >= e.config.channel.silent_below
        level = e.scheme.level
        drawn, sent = (sum(map(len, part)) for part in zip(*((x.cohort, x.sending) for x in plans), strict=True))
        assert sent / drawn == pytest.approx(level.carried, abs=0.06)  # the public divisor knows of it
    assert energy[0.03] < 0.6 * energy[0.0]
    levels = [e.scheme.level for e in (plain, floored)]
    assert levels[1].noise_multiplier >= levels[0].noise_multiplier * (1 - 1e-12)


def test_a_gain_floor_is_pfels_plus_own_and_below_the_largest_gain():
    with pytest.raises(InputError, match=r"channel\.silent_below: pfels does not use it, only pfels-plus"):
        load_config("demo", {"channel.silent_below": 0.01})
    with pytest.raises(InputError, match=r"channel\.silent_below = 9"):
        load_config("demo", {"scheme": "pfels-plus", "channel.silent_below": 9})
