"""Channels that differ between subcarriers: no more power and no more privacy spent than in a flat one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import exp1

import pfels
from pfels.config.load import load_config
from pfels.errors import GuardError, InputError
from pfels.experiment.forecast import forecast_run
from pfels.experiment.link import link_of
from pfels.experiment.loop import run
from pfels.experiment.setup import build
from pfels.privacy.calibration import Budget
from pfels.runtime.distributed import Ranks
from pfels.schemes.carried import carried_shares
from pfels.schemes.exposure import plan_round
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.repeat import repeat
from pfels.seeding import Purpose, normal_rows
from pfels.studies.budget import with_budget
from pfels.uplink.effects.fading import Fading
from pfels.uplink.effects.timing import Timing
from pfels.uplink.frame import Band
from pfels.uplink.spectrum import Spectrum
from pfels.uplink.tdl import PROFILES, response, subcarrier_frequencies
from pfels.uplink.waveform import Grid, demodulate, from_symbols, superposed, to_symbols

FADED = ("pfels", "wfl-p", "wfl-pdp", "pfels-plus", "pfels-echo", "liu-simeone", "truncated-inversion")
BAND, FADING = Band(600, 15e3), Fading(model="tdl-c", delay_spread_ns=300.0, fade_limit_db=10.0)


def demo(scheme: str, **settings):
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    narrow = {"radio.bandwidth_mhz": 9.0}  # 600 subcarriers
    return load_config("demo", {"scheme": scheme, "rounds": 20, "channel.model": "tdl-c", **narrow, **dotted})


def spectrum(count: int = 40, *, round: int = 0) -> Spectrum:
    return Spectrum(3, round, np.arange(count), BAND, FADING, Timing())


def received(scheme: str, t: int = 0, **settings):
    link = link_of(demo(scheme, **settings))
    return link, plan_round(link.scheme, link.draws, t)


@pytest.mark.parametrize("profile", ["tdl-a", "tdl-c"])
def test_fading_has_the_law_and_the_correlation_of_its_profile(profile: str):
    n, fading = 20_000, Fading(model=profile, delay_spread_ns=300.0, fade_limit_db=10.0)
    band = Band(40, 60e3)
    powers = fading.draw_powers(1, 0, np.arange(n), band=band)
    assert abs(powers[:, 7].mean() - 1) < 4 / math.sqrt(n)  # exponential with mean 1, so its deviation is 1
    share = (powers[:, 7] >= 0.1).mean()
    assert abs(share - fading.used_share) < 4 * math.sqrt(share * (1 - share) / n)
    # Of complex Gaussians with correlation ρ, the powers have correlation |ρ|²: the Fourier transform of the profile.
    delays, weights = np.array(PROFILES[profile].delays) * 300e-9, PROFILES[profile].powers
    for apart in (1, 5, 20):
        expected = abs((weights * np.exp(-2j * np.pi * apart * 60e3 * delays)).sum()) ** 2
        found = np.corrcoef(powers[:, 2], powers[:, 2 + apart])[0, 1]
        assert abs(found - expected) < 5 / math.sqrt(n)


def test_a_device_has_one_channel_whoever_else_is_drawn():
    everyone = FADING.draw_powers(1, 4, np.arange(3000), band=BAND)
    some = FADING.draw_powers(1, 4, np.array([2047, 5, 1024]), band=BAND)
    np.testing.assert_allclose(some, everyone[[2047, 5, 1024]], rtol=1e-4, atol=1e-6)
    later = FADING.draw_powers(1, 5, np.array([5]), band=BAND)
    assert not np.allclose(later, some[1])


@pytest.mark.parametrize("width", [600, 1450, 77])
def test_what_arrives_is_the_vector_on_the_subcarriers_used_and_nothing_elsewhere(width: int):
    found, everybody = spectrum(), slice(0, 40)
    v = torch.randn(40, width, generator=torch.Generator().manual_seed(0))
    arrives = found.reach(found.invert(v, everybody), everybody)
    kept = arrives != 0
    torch.testing.assert_close(arrives[kept], v[kept], rtol=1e-5, atol=0)
    assert 0.8 < kept.float().mean() < 0.97  # e^{−0.1} = 0.905


@pytest.mark.parametrize("scheme", FADED)
def test_no_vector_however_it_is_spread_arrives_with_more_than_its_norm_bound(scheme: str):
    link, plan = received(scheme)
    air, everybody = plan.require_air(), slice(0, len(plan.sending))
    for v in worst_vectors(len(plan.sending), plan.subcarriers):
        signals = plan.transmit(v * air.bound * (1 - 1e-6), everybody)
        arrives = air.spectrum.reach(signals, everybody).double().norm(dim=1).numpy() * np.abs(air.gains)
        assert (arrives <= air.levels * air.bound).all()
        priced = np.sqrt(plan.event.server_costs) * link.setting.noise_std
        assert (arrives <= priced * (1 + 1e-12)).all()


def worst_vectors(count: int, width: int):
    """Vectors of norm 1: one coordinate each, all alike, and at random."""
    for column in (0, width // 2, width - 1):
        single = torch.zeros(count, width)
        single[:, column] = 1
        yield single
    yield torch.full((count, width), 1 / math.sqrt(width))
    noise = torch.randn(count, width, generator=torch.Generator().manual_seed(1))
    yield noise / noise.norm(dim=1, keepdim=True)


def test_a_signal_that_would_arrive_too_strong_is_refused():
    _, plan = received("pfels-plus")
    air, everybody = plan.require_air(), slice(0, len(plan.sending))
    fair = plan.transmit(next(worst_vectors(len(plan.sending), plan.subcarriers)) * air.bound * 0.999, everybody)
    plan.check_signals(fair, everybody)
    loud = torch.zeros_like(fair)
    strongest = air.spectrum.reach(torch.ones_like(fair), everybody).argmax(1)
    rows = torch.arange(len(loud))
    # As much energy as a flat channel would take, on the subcarrier with the best gain.
    loud[rows, strongest] = torch.from_numpy(air.levels / np.abs(air.gains) * air.bound).float()
    with pytest.raises(GuardError, match="norm bound"):
        plan.check_signals(loud, everybody)


def test_over_the_public_permutation_the_energy_is_that_of_the_effective_gain():
    found, everybody = spectrum(), slice(0, 40)
    whole = torch.full((40, 600), 1 / math.sqrt(600))  # the mean over all columns, and so over all permutations
    energies = found.invert(whole, everybody).double().square().sum(1)
    torch.testing.assert_close(energies, torch.ones(40, dtype=torch.float64), rtol=1e-5, atol=0)
    orders = np.array([spectrum(1, round=t).order for t in range(2000)])
    assert all(sorted(order) == list(range(600)) for order in orders[:5])
    places = orders[:, 17]  # one position meets every subcarrier alike
    assert abs(places.mean() - 299.5) < 4 * 173.2 / math.sqrt(2000)


@pytest.mark.parametrize("scheme", ["wfl-p", "wfl-pdp", "pfels-plus", "pfels-echo", "liu-simeone"])
def test_no_single_transmission_exceeds_its_power_limit(scheme: str):
    capped = 0
    for t in range(8):
        _, plan = received(scheme, t, privacy__epsilon=100.0) if scheme == "wfl-pdp" else received(scheme, t)
        air, everybody = plan.require_air(), slice(0, len(plan.sending))
        for v in worst_vectors(len(plan.sending), plan.subcarriers):
            spent = plan.transmit(v * air.bound * (1 - 1e-6), everybody).double().square().sum(1).numpy()
            assert (spent <= air.powers * (1 + 1e-6)).all()
            capped += int((spent >= air.powers * (1 - 1e-4)).sum())
    assert capped or scheme != "wfl-p"  # some do reach it, or there would be nothing to see


def test_a_wide_band_costs_what_the_exponential_integral_says():
    # E[1{|G|² ≥ ρ}/|G|²] = ∫_ρ^∞ e^{−x}/x dx = E₁(ρ); over a wide band the mean over the subcarriers is near it.
    powers = FADING.draw_powers(2, 0, np.arange(4000), band=Band(400, 480e3))
    costs = FADING.inversion_costs(powers)
    assert abs(costs.mean() - exp1(0.1)) < 5 * costs.std() / math.sqrt(4000)
    assert FADING.typical_costs(BAND).mean() == pytest.approx(exp1(0.1), rel=0.1)


def test_a_device_whose_whole_band_has_faded_sends_nothing():
    narrow = Band(1, 15e3)
    deep = Fading.model_construct(model="tdl-a", delay_spread_ns=30.0, fade_limit_db=-10 * math.log10(3))
    found = Spectrum(0, 0, np.arange(200), narrow, deep, Timing())
    sent = found.invert(torch.ones(200, 5), slice(0, 200))
    silent = (sent == 0).all(1)
    assert 0.9 < silent.float().mean() < 1  # e^{−3} = 0.05 are above the floor
    assert torch.isfinite(sent).all()


@pytest.mark.parametrize("level", [0.05, 0.2, 1.0])
def test_the_share_of_devices_that_a_level_reaches_is_that_of_real_draws(level: float):
    link = link_of(demo("pfels-plus", data__devices=3000, channel__silent_below=0.02))
    s = link.setting
    expected = carried_shares(s, level).mean()
    ids = np.arange(3000)
    heard = [(np.abs(h) * np.sqrt(P) >= level) & (np.abs(h) >= 0.02) for h, P in
             ((link.draws.gains(t, ids), link.draws.powers(ids)) for t in range(4))]  # fmt: skip
    found = np.concatenate(heard).mean()
    # 64 quantiles of 512 public draws stand for the law of the costs
    assert abs(found - expected) < 0.015


@pytest.mark.parametrize("scheme", ["pfels-plus", "wfl-p"])
def test_the_estimate_is_right_on_average(scheme: str):
    link = link_of(demo(scheme, data__devices=40, cohort__size=20))
    got, ratio = [], []
    for t in range(100):
        plan = plan_round(link.scheme, link.draws, t)
        if not len(plan.sending):
            continue
        everybody = slice(0, len(plan.sending))
        v = torch.full((len(plan.sending), plan.subcarriers), plan.require_air().bound / math.sqrt(plan.subcarriers))
        heard = plan.arriving(plan.transmit(v * 0.999, everybody), everybody) / plan.require_air().used_share
        got.append(float(heard.mean()))
        ratio.append(len(plan.sending) * plan.beta * float(v[0, 0]) * 0.999)
    shares = np.array(got) / np.array(ratio)
    # Devices that send have somewhat better channels than all, and some signals are scaled down to the power limit.
    assert abs(shares.mean() - 1) < 0.05
    assert shares.std() > 0


@pytest.mark.parametrize("scheme", ["pfels-plus", "pfels-echo", "pfels"])
def test_a_budget_is_met_as_in_a_flat_channel(scheme: str):
    config = with_budget(demo(scheme), Budget(4.0))
    setting, ledger = forecast_run(config)
    assert 0 < ledger.server.worst(delta=setting.delta).epsilon <= 4.0


@pytest.mark.parametrize("settings", [{}, {"channel__timing_error_us": 0.1, "channel__phase_error_deg": 30.0}])
def test_devices_that_repeat_are_heard_as_if_they_sent_for_the_first_time(settings):
    _, plan = received("pfels-echo", 7, **settings)
    rows = torch.randn(len(plan.sending), plan.subcarriers, generator=torch.Generator().manual_seed(2))
    rows *= plan.require_air().bound / rows.norm(dim=1, keepdim=True) * 0.999
    ends, first = plan.ends, len(plan.training)
    kept = {
        int(plan.sending[i]): Kept(rows[i], float(rows[i].double().norm()), int(ends[i]))
        for i in range(first, len(plan.sending))
    }
    memory = Memory.of(kept)
    y = torch.zeros(plan.subcarriers)
    spent = repeat(plan, memory, y, ranks=Ranks())
    at = slice(first, len(plan.sending))
    signals = plan.transmit(rows[at], at)
    torch.testing.assert_close(y, plan.arriving(signals, at), rtol=1e-4, atol=1e-5 * float(y.abs().max()))
    energies = signals.double().square().sum(1).tolist()
    assert sorted(spent) == pytest.approx(sorted(energies), rel=1e-4)


@pytest.mark.parametrize("scheme", ["pfels", "pfels-plus", "pfels-echo"])
def test_timing_errors_cost_no_privacy_and_leave_the_cosine(scheme: str):
    flat = {"channel__model": "flat"}
    figures = [forecast_run(demo(scheme, **flat, channel__timing_error_us=us)) for us in (0.0, 0.1)]
    epsilons = [ledger.server.worst(delta=setting.delta).epsilon for setting, ledger in figures]
    assert epsilons[0] == epsilons[1]
    link, plan = received(scheme, **flat, channel__timing_error_us=0.1)
    found, everybody = plan.require_air().spectrum, slice(0, len(plan.sending))
    v = torch.ones(len(plan.sending), 600)
    torch.testing.assert_close(found.reach(found.invert(v, everybody), everybody), v)  # with both components, all of it
    offsets = Timing(timing_error_us=0.1).draw_offsets(link.draws.seed, 0, plan.sending)
    angles = 2 * np.pi * np.outer(offsets, subcarrier_frequencies(600, spacing_hz=15e3)[found.order])
    heard = found.superpose(v[:1], np.ones(1, complex), slice(0, 1))
    np.testing.assert_allclose(heard.numpy(), np.cos(angles[0]), atol=1e-5)
    assert np.abs(offsets).max() <= 0.1e-6
    assert np.cos(angles).min() < 0


def test_a_faded_run_is_the_same_whatever_the_number_of_workers_and_when_it_is_resumed(tmp_path):
    for scheme in ("pfels-plus", "pfels-echo"):
        config = demo(scheme, rounds=8, run__checkpoint_every=3)
        one, two = (run(config, workers=n) for n in (1, 2))
        assert torch.equal(one.parameters, two.parameters)
        out = tmp_path / scheme

        def stop(record):
            if record["round"] == 5:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(config, out, progress=stop)
        assert torch.equal(run(config, out, resume=True).parameters, one.parameters)


@pytest.mark.parametrize("scheme", FADED)
def test_every_scheme_learns_over_a_faded_channel(scheme: str):
    summary = run(demo(scheme, rounds=30)).summary
    assert summary["energy"] <= summary["energy_bound"] * 1.1
    assert summary["accuracy"] > 0.3  # 0.1 is chance
    assert set(summary["privacy"]["server_by_antennas"]) == {"1"}


@pytest.mark.parametrize("scheme", ["pfels-plus", "pfels-echo"])
def test_an_audit_does_not_reject_a_faded_channel(scheme: str):
    found = pfels.audit(demo(scheme, rounds=40), canaries=120)
    assert not found["rejected"]
    # The subcarriers that are not used carry nothing, so that a canary moves somewhat less than is booked.
    assert 0.7 < found["alone"]["epsilon"] / found["alone"]["booked"] < 1


def test_the_forecast_is_what_the_run_does():
    config = demo("pfels-plus", rounds=6)
    setting, ledger = forecast_run(config)
    totals, summary = ledger.summary(setting, slot_s=0.01), run(config).summary
    assert summary["energy_bound"] == pytest.approx(totals["energy_bound"], rel=1e-6)
    assert summary["silent"] == totals["silent"]


def test_a_flat_channel_draws_nothing_of_a_faded_one():
    e = build(load_config("demo", {"rounds": 2}))
    plan = plan_round(e.scheme, e.draws, 0)
    assert plan.air.spectrum is None
    assert plan.air.used_share == 1
    shifted = replace(e.setting.cell, effects=(Timing(timing_error_us=1e-3),))
    assert not shifted.fading.active


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channel.delay_spread_ns": 1000.0}, "the last echo of tdl-c comes after 8.65 µs, beyond the cyclic prefix"),
        ({"channel.delay_spread_ns": 0.0}, "channel.delay_spread_ns = 0.0: must be a finite number in (0, 1e+06]"),
        ({"channel.timing_error_us": 4.0}, "further apart than the cyclic prefix is long; must be at most 1.911"),
        ({"channel.antennas": 2}, "channel.antennas = 2: must be 1 unless channel.model is flat"),
        ({"channel.clipping_db": 3.0}, "channel.clipping_db = 3: needs channel.model = flat"),
        ({"channel.model": "tdl-b"}, "channel.model = 'tdl-b': must be one of flat, tdl-a, tdl-c"),
        ({"scheme": "artificial-noise"}, "channel.model: artificial-noise does not use it"),
        ({"scheme": "artificial-noise", "channel.phase_error_deg": 3.0}, "artificial-noise does not use it"),
        ({"radio.bandwidth_mhz": 0.01}, "radio.bandwidth_mhz = 0.01: less than one subcarrier; must be at least 0.015"),
        ({"radio.distance_m": 0.0}, "radio.distance_m = 0.0: must be a finite number in [10, 5000]"),
        ({"radio.frame": "nr", "radio.subcarrier_khz": 20.0}, "radio.subcarrier_khz = 20: must be 15, 30, 60"),
    ],
)  # fmt: skip
def test_what_a_channel_cannot_be_is_refused_in_one_line(settings, message: str):
    with pytest.raises(InputError) as caught:
        load_config("demo", {"channel.model": "tdl-c", **settings})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["flat", "tdl-a", "tdl-c"])
def test_the_sum_that_a_round_forms_is_what_time_samples_deliver(model: str):
    settings = {"channel__csi_error_db": 1.0, "channel__phase_error_deg": 20.0, "channel__timing_error_us": 0.03}
    link, plan = received("wfl-p", 2, channel__model=model, cohort__size=6, **settings)
    air, s, everybody = plan.require_air(), link.setting, slice(0, len(plan.sending))
    v = torch.randn(len(plan.sending), plan.subcarriers, generator=torch.Generator().manual_seed(4))
    signals = plan.transmit(v * air.bound / v.norm(dim=1, keepdim=True) * 0.999, everybody)
    modelled = plan.arriving(signals, everybody).double().numpy()
    # The same signals as samples: every device turns its symbols back by the phase that it knows of its channel.
    grid = Grid.of(subcarriers=s.cell.band.subcarriers, spacing_hz=s.cell.band.spacing_hz)
    delays, amplitudes, phases = np.zeros((len(v), 1)), np.ones((len(v), 1), complex), np.zeros((len(v), 600))
    if s.cell.fading.active:
        profile = PROFILES[s.cell.fading.model]
        count = len(profile.delays)
        drawn = normal_rows(link.draws.seed, Purpose.TAPS, devices=plan.sending, round=2, width=2 * count).astype(float)
        taps = (drawn[:, :count] + 1j * drawn[:, count:]) / math.sqrt(2)
        delays = np.tile(np.array(profile.delays) * s.cell.fading.delay_spread_ns / 1e9, (len(v), 1))
        amplitudes = taps * np.sqrt(profile.powers)
        phases = np.angle(
            response(taps, profile, grid.frequencies_hz, delay_spread_s=s.cell.fading.delay_spread_ns / 1e9)
        )
    means = link.draws.mean_gains(2, plan.sending)
    order = air.spectrum.order
    sent = to_symbols(signals.numpy(), order=order) * np.exp(-1j * (np.angle(means)[:, None] + phases))[:, None, :]
    offsets = Timing(timing_error_us=0.03).draw_offsets(link.draws.seed, 2, plan.sending)
    samples = superposed(
        sent, grid, amplitudes=(means * air.errors)[:, None] * amplitudes, delays_s=delays + offsets[:, None]
    )
    early = math.ceil(0.03e-6 / grid.step_s)
    heard = from_symbols(demodulate(samples, grid, early=early), order=order, width=plan.subcarriers).real
    assert np.linalg.norm(heard - modelled) <= 1e-6 * np.linalg.norm(modelled)
