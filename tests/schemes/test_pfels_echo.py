"""PFELS-echo: decoding undoes encoding, the noise that is left is as predicted, and every limit and figure holds."""

import itertools
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pfels.config.load import load_config
from pfels.errors import GuardError, InputError
from pfels.experiment import loop
from pfels.experiment.forecast import forecast_run
from pfels.experiment.link import link_of
from pfels.experiment.setup import Experiment, build
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.schemes import pfels_echo
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import band_count, block_count, worst_cost
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.pfels_plus import ParticipationCount, PfelsPlus, PublicLevel
from pfels.schemes.repeat import repeat
from pfels.schemes.round import ALONE, local_updates
from pfels.schemes.round import play as play_round
from pfels.seeding import Purpose, generator
from pfels.uplink.clipping import clip
from tests.conftest import small
from tests.experiment.test_directory import contents, stop_after

NOBODY_SILENT = {"channel__gain_min": 0.4, "channel__gain_max": 0.5}
CASES = [  # blocks and bands: 30 devices, 5 per round, so that a device has a turn every 6 rounds
    {"compression__ratio": 1.0},
    {"compression__ratio": 0.5},
    {"compression__ratio": 1.0, "pfels-echo__bands": 2},
]


def echo(**changes):
    return small(**({"scheme": "pfels-echo", "cohort__size": 5, "compression__ratio": 1.0, "rounds": 14} | changes))


@dataclass(frozen=True)
class Quiet(Draws):
    """A receiver without noise."""

    def receiver_noise(self, t: int, width: int) -> torch.Tensor:
        return torch.zeros(width)


def quiet(e: Experiment) -> Experiment:
    return replace(e, draws=Quiet(e.setting, e.draws.seed, start=e.draws.start))


def rounds_of(e: Experiment, count: int):
    """The plan and the result of the first rounds, with the model of each."""
    theta, memory = e.network.initial(generator(0, Purpose.MODEL)), Memory()
    for t in range(count):
        plan = e.scheme.prepare(e.draws, t)
        result = play_round(e.scheme, e.draws, plan, theta, e.training, memory=memory)
        yield plan, result, theta, memory
        memory = memory.after(plan, result)
        theta = theta + result.estimate


# settings

AT_THE_TOP = {"channel__gain_mean": 3.9e-6, "channel__gain_min": 2e-7, "channel__gain_max": 4e-6,
              "channel__snr_min_db": 10.0, "channel__snr_max_db": 10.1, "privacy__total_epsilon": 2.0}  # fmt: skip
FLOOR = {"channel__gain_mean": 6e-5, "channel__gain_min": 4e-7, "channel__gain_max": 1e-3}
FAINT = {"channel__gain_mean": 0.02, "channel__snr_min_db": -60.0, "channel__snr_max_db": -60.0}


@pytest.mark.parametrize(
    ("key", "changed", "cure"),
    [
        ("channel.silent_below = 0.00092:", FLOOR | {"channel__silent_below": 9.2e-4},
         {"channel__silent_below": 6e-5, "pfels-echo__weights": "optimised"}),
        ("pfels-echo.weights = 'square-root':", AT_THE_TOP, {"pfels-echo__weights": "optimised"}),
        ("channel.snr_max_db = -60:", FAINT | {"privacy__total_epsilon": 1e4, "pfels-echo__weights": "optimised"},
         {"channel__snr_max_db": 15.0}),
    ],
)  # fmt: skip
def test_where_no_echo_is_heard_the_setting_to_blame_is_named_and_its_cure_works(
    key: str, changed: dict[str, float | str], cure: dict[str, float | str]
):
    with pytest.raises(InputError, match="hardly any device that is heard at its turn is heard again") as told:
        link_of(echo(**changed))
    assert str(told.value).startswith(key)
    for cured in (cure, {"pfels-echo__bands": 1}):
        assert 0 < link_of(echo(**changed | cured)).scheme.level.noise_multiplier < math.inf


# encoding and decoding


@pytest.mark.parametrize("changes", CASES)
def test_decoding_undoes_encoding_where_there_is_neither_noise_nor_silence(changes: dict):
    e = quiet(build(echo(**NOBODY_SILENT, **changes)))
    level, heard = e.scheme.level, []
    assert level.bands > 1
    assert level.heard == pytest.approx(np.ones(level.bands))
    for plan, result, theta, _ in rounds_of(e, 14):
        A = e.scheme.indices(e.draws, theta, plan.round)
        own = torch.zeros(plan.subcarriers)
        for part, _ in local_updates(e.training, e.draws, theta, plan.round, plan.training):
            delta = clip(part.updates, bound=e.setting.bound)
            own += clip(delta if A is None else delta[:, A], bound=level.bound).sum(0)
        assert torch.allclose(result.decoded / level.beta, own, atol=2e-6)
        heard.append(result.repeated)
    assert heard[-1] == 5 * (level.bands - 1), "every device of the last turns was repeating"


@pytest.mark.parametrize("changes", CASES)
def test_noise_in_the_decoded_sums_has_the_predicted_covariance(changes: dict):
    """With nothing but noise received, 2,410 coordinates are as many samples; blocks are independent of each other."""
    e = build(echo(model__hidden=32, rounds=12, **changes))
    level, decoded, rows = e.scheme.level, {}, []
    for t in range(12):
        plan = e.scheme.prepare(e.draws, t)
        y = torch.from_numpy(generator(5, Purpose.CHANNEL_NOISE, round=t).standard_normal(2410))
        decoded[t] = e.scheme.decode(plan, y, decoded)
        rows.append(decoded[t].numpy())
    steps = 12 // level.blocks
    encoder = np.zeros((steps, steps))
    for j in range(min(level.bands, steps)):
        encoder += np.diag(np.full(steps - j, level.weights[j] * (level.heard[j] if j else 1.0)), -j)
    left = np.linalg.inv(encoder)
    sums, samples = np.tril(np.ones((steps, steps))), 2410
    for block in range(level.blocks):
        x = np.array(rows[block :: level.blocks])
        for workload in (np.eye(steps), sums):
            predicted = workload @ left @ left.T @ workload.T
            measured = (workload @ x) @ (workload @ x).T / samples
            scale = np.sqrt(np.outer(np.diag(predicted), np.diag(predicted)))
            assert np.abs(measured - predicted).max() < 5 * math.sqrt(2 / samples) * scale.max()
    assert np.trace(sums @ left @ left.T @ sums.T) < 0.8 * np.trace(sums @ sums.T), "less than independent rounds leave"


def test_one_band_and_one_block_are_pfels_plus_with_turns():
    e = build(echo(**{"pfels-echo__bands": 1}))
    level, setting = e.scheme.level, e.setting
    public = PublicLevel(level.beta, level.limit, level.noise_multiplier, level.bound, level.carried, cap=None)
    plus = PfelsPlus(replace(setting, ratio=1.0), public, ParticipationCount())
    theta = e.network.initial(generator(0, Purpose.MODEL))
    for t in range(7):
        plan, other = e.scheme.prepare(e.draws, t), plus.prepare(e.draws, t)
        assert plan.sending.tolist() == other.sending.tolist()
        assert plan.event.server_costs == pytest.approx(other.event.server_costs)
        mine, theirs = (
            play_round(s, e.draws, p, theta, e.training, memory=Memory()) for s, p in ((e.scheme, plan), (plus, other))
        )
        assert mine.device_energy == pytest.approx(theirs.device_energy, rel=1e-6)
        assert torch.allclose(mine.estimate, theirs.estimate, rtol=1e-5, atol=1e-8)


def test_what_silent_devices_do_not_send_is_not_in_the_sum():
    """The sum by whole turns minus the silent ones is the sum of those on the air."""
    e = quiet(build(echo(channel__silent_below=0.05, rounds=20)))
    silent = 0
    for plan, result, _, memory in rounds_of(e, 20):
        y = torch.zeros(plan.subcarriers)
        spent = repeat(plan, memory, y, ranks=ALONE)
        places = range(len(plan.training), len(plan.sending))
        rows = [memory.devices[device].row for device in plan.repeating.tolist()]
        levels = plan.require_air().levels[places.start :]
        direct = sum((float(c) * row for c, row in zip(levels, rows, strict=True)), torch.zeros(plan.subcarriers))
        assert torch.allclose(y, direct, atol=1e-5)
        amplitudes = levels / np.abs(plan.require_air().gains[places.start :])
        energies = [float((a * row.double()).norm() ** 2) for a, row in zip(amplitudes, rows, strict=True)]
        assert sorted(spent) == pytest.approx(sorted(energies), rel=1e-6)
        assert result.repeated == len(rows)
        silent += sum(len(turn.devices) for turn in memory.turns.values()) - len(rows)
    assert silent > 20


def test_emptying_a_device_changes_nothing_of_what_others_send_given_the_same_received_sums():
    """The proof rests on it: both worlds see the same models, and one device's vectors are zero in one of them."""
    e = build(echo())
    emptied = int(e.scheme.prepare(e.draws, 0).training[0])
    others_seen, memories = 0, [Memory(), Memory()]
    for plan, result, theta, memory in rounds_of(e, 14):
        kept = dict(result.kept)
        if emptied in kept:
            kept[emptied] = Kept(torch.zeros_like(kept[emptied].row), 0.0, kept[emptied].used_until)
        again = play_round(e.scheme, e.draws, plan, theta, e.training, memory=memories[1])
        for device, row in again.kept.items():
            if device != emptied:
                assert torch.equal(row.row, result.kept[device].row)
                others_seen += 1
        ids = [d for d in plan.repeating.tolist() if d != emptied]
        assert all(torch.equal(memory.devices[d].row, memories[1].devices[d].row) for d in ids)
        memories[1] = memories[1].after(plan, replace(again, kept=kept))
        if emptied in plan.repeating:
            assert not torch.equal(again.decoded, result.decoded), "what the emptied device sends is missing"
    assert others_seen > 30


# privacy


def brute_force(config, rounds: int) -> np.ndarray:
    """μ² of every device, transmission by transmission, from the gains and powers alone."""
    link = link_of(config)
    level, s, draws = link.scheme.level, link.setting, link.draws
    everyone, spent = np.arange(s.devices), np.zeros(s.devices)

    def able(t: int, weight: float) -> np.ndarray:
        h = np.abs(draws.gains(t, everyone))
        return (h >= s.cell.silent_below) & (h * np.sqrt(draws.powers(everyone)) >= level.beta * weight * level.bound)

    for t in range(rounds):
        turn = np.isin(everyone, draws.cohort(t)) & able(t, level.weights[0])
        for j, c in enumerate(level.weights):
            if t + j * level.blocks < rounds:
                spent += (turn & able(t + j * level.blocks, c)) * (c * level.beta * level.bound / s.noise_std) ** 2
    return spent


@pytest.mark.parametrize("changes", [*CASES, {"channel__silent_below": 0.05}, {"privacy__total_epsilon": 2000.0}])
def test_the_servers_figure_is_brute_force_composition_and_never_above_the_budget(changes: dict):
    config = echo(rounds=40, **changes)
    setting, ledger = forecast_run(config)
    spent = brute_force(config, 40)
    server = ledger.privacy(setting)["server"]
    epsilon = gaussian_epsilon(mu=math.sqrt(spent.max()), delta=config.delta)
    assert server["epsilon"] == pytest.approx(epsilon, rel=1e-9)
    assert server["epsilon"] <= config.privacy.total_epsilon
    assert server["distribution"]["median"] == pytest.approx(
        gaussian_epsilon(mu=math.sqrt(np.quantile(spent[spent > 0], 0.5, method="inverted_cdf")), delta=config.delta)
    )


@pytest.mark.parametrize("rounds", [1, 5, 6, 7, 13, 40])
@pytest.mark.parametrize("changes", CASES)
def test_a_device_that_is_always_heard_spends_just_the_budget(rounds: int, changes: dict):
    config = echo(rounds=rounds, **NOBODY_SILENT, **changes)
    setting, ledger = forecast_run(config)
    link = link_of(config)
    assert link.scheme.level.limit == "privacy"
    assert link.scheme.required_noise().loss.epsilon == pytest.approx(16.0, rel=1e-6)
    spent = ledger.privacy(setting)
    assert 16.0 * (1 - 1e-6) < spent["server"]["epsilon"] <= 16.0
    assert spent["outsider"]["epsilon"] == spent["server"]["epsilon"]
    assert "no amplification" in spent["outsider"]["why"]


def test_stopping_early_costs_no_more_and_a_resumed_run_costs_the_same(tmp_path: Path):
    config = echo(rounds=20, run__checkpoint_every=3)
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "run", progress=stop_after(11))
    early = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    whole = loop.run(config, tmp_path / "run", resume=True)
    losses = [record["privacy"]["server"]["epsilon"] for record in whole.records]
    assert losses[:11] == [record["privacy"]["server"]["epsilon"] for record in early]
    assert losses == sorted(losses)
    assert losses[-1] == whole.summary["privacy"]["server"]["epsilon"] <= 16.0
    spent = brute_force(config, 20)
    assert losses[-1] == pytest.approx(gaussian_epsilon(mu=math.sqrt(spent.max()), delta=config.delta), rel=1e-9)


@dataclass(frozen=True)
class Leaving(Draws):
    """From round 8 on a third of the devices is gone for good: nothing of them arrives."""

    def gains(self, t: int, devices: np.ndarray) -> np.ndarray:
        gone = (devices % 3 == 0) & (t >= 8)
        return np.where(gone, 1e-9, Draws.gains(self, t, devices))


def test_devices_that_leave_for_good_cost_nothing_more_and_the_others_go_on():
    e = build(echo(rounds=20, channel__silent_below=0.01))
    e = replace(e, draws=Leaving(e.setting, e.draws.seed, start=e.draws.start))
    spent = np.zeros(e.setting.devices)
    for plan, result, _, _ in rounds_of(e, 20):
        assert torch.isfinite(result.estimate).all()
        if plan.round >= 8:
            assert np.all(plan.sending % 3 > 0)
        spent[plan.sending] += plan.event.server_costs
    assert gaussian_epsilon(mu=math.sqrt(spent.max()), delta=e.setting.delta) <= 16.0
    assert spent[spent > 0].min() > 0


def test_worst_cost_is_the_maximum_over_all_devices():
    for rounds in (1, 4, 9, 23):
        link = link_of(echo(rounds=rounds, **NOBODY_SILENT))
        level = link.scheme.level
        z = level.noise_multiplier
        assert worst_cost(level, link.setting) / z**2 == pytest.approx(
            brute_force(echo(rounds=rounds, **NOBODY_SILENT), rounds).max(), rel=1e-9
        )


# limits


def test_every_transmission_stays_within_its_power_limit_in_100_000_device_rounds():
    config = load_config(
        "fashion",
        {"scheme": "pfels-echo", "compression.ratio": 1.0, "privacy.total_epsilon": 200.0, "rounds": 400},
    )
    link, seen, silent = link_of(config), 0, 0
    for t in range(400):
        plan = link.scheme.prepare(link.draws, t)
        air = plan.require_air()
        x = air.weights * air.beta * air.bound / np.abs(air.gains)
        assert np.all(x**2 <= air.powers * (1 + 1e-12))
        seen += len(air.gains)
        silent += len(plan.cohort) - len(plan.training)
    assert seen >= 100_000
    assert silent > 0, "power limits have silenced some"


def test_realised_transmissions_stay_within_their_power_limit():
    e = build(echo(channel__gain_mean=0.002, channel__gain_min=0.0001, privacy__total_epsilon=500.0))
    for plan, result, _, memory in rounds_of(e, 14):
        air = plan.require_air()
        assert np.all(np.array(result.device_energy) <= air.powers[: len(plan.training)])
        lengths = np.array([memory.devices[device].norm for device in plan.repeating.tolist()])
        again = air.levels[len(plan.training) :] / np.abs(air.gains[len(plan.training) :]) * lengths
        assert np.all(again**2 <= air.powers[len(plan.training) :])
        assert result.energy == pytest.approx(math.fsum([*result.device_energy, *(again**2).tolist()]))


def test_without_its_clip_nothing_is_sent(monkeypatch: pytest.MonkeyPatch):
    e = build(echo(training__clip=0.001))
    monkeypatch.setattr(pfels_echo, "clip", lambda rows, *, bound: rows)
    with pytest.raises(GuardError, match="exceeds its sensitivity bound"):
        next(rounds_of(e, 1))


def test_what_was_kept_is_not_repeated_if_it_is_too_long_or_gone():
    e = build(echo())
    *_, (plan, _, _, memory) = rounds_of(e, 8)
    device = int(plan.repeating[0])
    kept, y = memory.devices[device], torch.zeros(plan.subcarriers)
    longer = {**memory.devices, device: replace(kept, norm=1.01 * e.scheme.level.bound)}
    with pytest.raises(GuardError, match="norm bound"):
        repeat(plan, Memory.of(longer), y, ranks=ALONE)
    without = {d: k for d, k in memory.devices.items() if d != device}
    with pytest.raises(GuardError, match=f"device {device} is to repeat"):
        repeat(plan, Memory.of(without), y, ranks=ALONE)


# turns, blocks and bands


def test_every_device_has_a_turn_every_g_rounds_and_its_echo_ends_before_the_next():
    link = link_of(load_config("fashion", {"scheme": "pfels-echo", "compression.ratio": 1 / 3}))
    g, level = link.setting.groups, link.scheme.level
    assert (g, level.blocks, level.bands) == (31, 3, 10)
    turns = [set(link.draws.cohort(t).tolist()) for t in range(2 * g)]
    assert turns[:g] == turns[g:]
    assert set.union(*turns[:g]) == set(range(1000))
    assert sum(map(len, turns[:g])) == 1000
    assert {len(turn) for turn in turns} <= {32, 33}
    for t in range(2 * g):
        plan = link.scheme.prepare(link.draws, t)
        assert len(set(plan.sending.tolist())) == len(plan.sending)
        assert set(plan.training.tolist()) <= turns[t]
        assert not set(plan.repeating.tolist()) & turns[t]


def test_blocks_cover_every_coordinate_once_and_an_echo_stays_on_its_block():
    link = link_of(echo(compression__ratio=1 / 3, cohort__size=3))
    blocks = [link.draws.block(t, 3) for t in range(6)]
    assert torch.cat(blocks[:3]).sort().values.tolist() == list(range(link.setting.dimension))
    for t in range(6):
        assert torch.equal(blocks[t], blocks[t % 3])
        assert len(blocks[t]) == link.scheme.prepare(link.draws, t).subcarriers


def test_m_is_the_nearest_number_of_blocks_within_20_percent():
    assert [block_count(p) for p in (1.0, 0.9, 0.5, 0.3, 1 / 3, 0.1, 0.01)] == [1, 1, 2, 3, 3, 10, 100]
    for ratio in (0.7, 0.75, 0.8):
        with pytest.raises(InputError, match=rf"compression.ratio = {ratio}: .* use 1 or 0.5"):
            block_count(ratio)


def test_bands_that_overlap_the_next_turn_are_refused():
    assert band_count(0, groups=31, blocks=3, rounds=300) == 10
    assert band_count(0, groups=31250, blocks=1, rounds=300) == 300
    assert band_count(7, groups=31, blocks=1, rounds=300) == 7
    with pytest.raises(InputError, match=r"pfels-echo.bands = 32: .* 31 rounds later; with 1 block at most 31 fit"):
        band_count(32, groups=31, blocks=1, rounds=300)
    with pytest.raises(InputError, match=r"use a ratio of at least 0.2"):
        band_count(0, groups=5, blocks=10, rounds=300)


def test_turns_of_more_than_half_the_devices_are_refused():
    with pytest.raises(InputError, match=r"cohort.size = 16: with pfels-echo .* in turns .* half of data.devices = 30"):
        echo(cohort__size=16)
    with pytest.raises(InputError, match="in turns"):
        small(scheme="pfels", cohort__sampling="turns", cohort__size=16)


def test_any_scheme_can_take_turns(scheme: str):
    config = small(scheme=scheme, cohort__sampling="turns")
    if config.sampling.value == "turns":
        first, again = ([r["cohort"] for r in loop.run(config).records] for _ in range(2))
        assert first == again
        assert first[:3] == first[3:]
        assert sorted(device for cohort in first[:3] for device in cohort) == list(range(30))


# state


@pytest.mark.parametrize("changes", CASES)
def test_an_interrupted_echo_resumes_to_the_same_bytes_and_leaves_nothing_behind(tmp_path: Path, changes: dict):
    config = echo(channel__silent_below=0.03, run__checkpoint_every=4, server__average=0.9, **changes)
    loop.run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        loop.run(config, tmp_path / "cut", progress=stop_after(9))
    kept = load_file(tmp_path / "cut" / "checkpoint.safetensors")
    level = link_of(config).scheme.level
    assert 0 < len(kept["memory.ids"]) <= 5 * (level.bands - 1) * level.blocks
    assert kept["memory"].numel() == kept["memory.sizes"].sum()
    assert len(kept["decoded.rounds"]) <= (level.bands - 1) * level.blocks
    loop.run(config, tmp_path / "cut", resume=True)
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
    left = load_file(tmp_path / "cut" / "checkpoint.safetensors")
    assert not [name for name in left if name.startswith(("memory", "decoded"))]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_nothing(workers: int):
    one, other = (loop.run(echo(), workers=n) for n in (1, workers))
    assert torch.equal(one.parameters, other.parameters)
    assert one.records == other.records


def test_memory_survives_a_checkpoint_and_so_does_that_of_earlier_versions():
    whole = Memory({3: Kept(torch.arange(4.0), 2.5, 9), 1: Kept(torch.ones(3), 1.5, 8), 2: Kept(torch.zeros(2))})
    again = Memory.restore(whole.tensors(), "cpu")
    assert sorted(again.devices) == [1, 2, 3]
    assert all(torch.equal(again.devices[i].row, whole.devices[i].row) for i in (1, 2, 3))
    about = [(again.devices[i].norm, again.devices[i].used_until) for i in (1, 2, 3)]
    assert about == [(1.5, 8), (0.0, None), (2.5, 9)]
    assert {end: turn.total.tolist() for end, turn in again.turns.items()} == {8: [1.0] * 3, 9: [0.0, 1.0, 2.0, 3.0]}
    earlier = Memory.restore({"memory.ids": torch.tensor([4, 7]), "memory": torch.eye(2)}, "cpu")
    assert {i: kept.row.tolist() for i, kept in earlier.devices.items()} == {4: [1.0, 0.0], 7: [0.0, 1.0]}


def test_what_does_not_fit_in_memory_is_refused_before_training_with_the_bands_that_would_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = echo()
    needed = link_of(config).scheme.echo_plan()["memory_bytes"]
    held = sum(kept.row.numel() * 4 for kept in list(rounds_of(build(config), 14))[-1][3].devices.values())
    assert held <= needed <= 2 * held, "what is announced is what is kept"
    monkeypatch.setattr("pfels.experiment.setup.available_memory", lambda: 3 * needed - 1)
    with pytest.raises(InputError, match=r"pfels-echo.bands = 6: .* at most 5 bands fit"):
        loop.run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    loop.run(echo(**{"pfels-echo__bands": 5, "rounds": 2}), tmp_path / "run")
    loop.run(echo(rounds=2))  # without a checkpoint it fits


def test_a_million_devices_cost_what_a_thousand_cost_where_the_bands_are_few():
    def seconds(devices: int) -> float:
        settings = {"data.name": "synthetic", "data.per_device": 20, "cohort.size": 16, "run.workers": 1}
        config = load_config(
            "demo",
            {**settings, "scheme": "pfels-echo", "pfels-echo.bands": 3, "data.devices": devices, "rounds": 30}
            | {"compression.ratio": 1.0, "run.eval_every": 50},
        )
        marks: list[float] = []
        loop.run(config, progress=lambda record: marks.append(time.process_time()))
        return min(after - before for before, after in itertools.pairwise(marks))

    assert seconds(1_000_000) < 3 * seconds(1_000)
