"""Which cheats does an audit reject? Schemes whose noise, or whose server, is not what they say, audited on many seeds.

python docs/studies/audit_cheats.py --seeds 20
python docs/studies/audit_cheats.py --seeds 20 --noise-alone

Every cheat changes one thing in the code of this process and leaves what the scheme says of itself as it is. Honest
schemes stand first. Audits are those of the demo at its own size, with few canaries, since these cheats are not for
canaries to find. Each is a line in runs/audit-cheats: the same command continues where it stopped.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

import pfels
from pfels.experiment.link import link_of
from pfels.privacy.noise_batch import RECEIVER, NoiseBatch
from pfels.privacy.noise_checks import NoiseRecord
from pfels.schemes import registry, round
from pfels.schemes.dp_fedavg import DpFedAvg
from pfels.schemes.draws import Draws
from pfels.schemes.echo_level import echo_level
from pfels.schemes.participation import ParticipationCount
from pfels.schemes.pfels_echo import PfelsEcho
from pfels.schemes.pfels_plus import PfelsPlus, public_level
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import scheme_entry, scheme_names
from pfels.seeding import Purpose, generator
from pfels.studies.audit_verdict import ERROR_RATE
from pfels.training.updates import LocalUpdates

ROUNDS, DIMENSION = 300, 2410  # of the demo
honest, honest_device, honest_listen = Draws.receiver_noise, Draws.device_noise, round.listen


def fixed(*address: int) -> np.random.Generator:
    """A generator that does not follow the seed of the training."""
    return np.random.default_rng(list(address))


# The receiver's noise: from (draws, round, width) to noise.
Receive = Callable[[Draws, int, int], Tensor]


def of_honest(change: Callable[[Tensor, int], Tensor]) -> Receive:
    """Honest noise, changed."""
    return lambda draws, t, width: change(honest(draws, t, width), t)


def of_round(which: Callable[[int], int], change: Callable[[Tensor, int], Tensor] = lambda n, t: n) -> Receive:
    """The honest noise of another round, changed."""
    return lambda draws, t, width: change(honest(draws, which(t), width), t)


def by_law(law: Callable[[np.random.Generator, int], Any]) -> Receive:
    """Noise of another law with the right variance."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        g = generator(draws.seed, Purpose.CHANNEL_NOISE, round=t)
        return torch.from_numpy(np.asarray(law(g, width), np.float32)) * draws.setting.noise_std

    return noise


def truncated(limit: float) -> Receive:
    """Normal noise of the right variance, drawn again where it is beyond the limit."""

    def law(g: np.random.Generator, width: int) -> Any:
        x = g.standard_normal(4 * width + 64)
        kept = x[np.abs(x) < limit][:width]
        inside = math.erf(limit / math.sqrt(2))
        variance = 1 - 2 * limit * math.exp(-(limit**2) / 2) / math.sqrt(2 * math.pi) / inside
        return kept / math.sqrt(variance)

    return by_law(law)


def rounded(share: float) -> Receive:
    """Noise on a lattice."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        step = share * draws.setting.noise_std
        return torch.round(honest(draws, t, width) / step) * step

    return noise


def masked(where: Callable[[int, int], Any], scale: float = 1.0) -> Receive:
    """Noise at some places alone."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        return honest(draws, t, width) * torch.from_numpy(np.asarray(where(t, width), np.float32)) * scale

    return noise


def in_subspace(rank: int) -> Receive:
    """Noise in one subspace of so many dimensions, the same in every round."""

    def noise(draws: Draws, t: int, width: int) -> Tensor:
        basis = fixed(rank, width).standard_normal((rank, width)).astype(np.float32)
        weights = honest(draws, t, width)[:rank].numpy() / math.sqrt(rank)
        return torch.from_numpy(weights @ basis)

    return noise


def smoothed(n: Tensor, t: int) -> Tensor:
    """Neighbours that share noise."""
    return (n + n.roll(1)) / math.sqrt(2)


def walked(draws: Draws, t: int, width: int) -> Tensor:
    """Noise that shares half its variance with the round before."""
    return (honest(draws, t, width) + honest(draws, max(t - 1, 0), width)) / math.sqrt(2)


def copied_half(n: Tensor, t: int) -> Tensor:
    """The second half is the first."""
    half = len(n) // 2
    n[half : 2 * half] = n[:half]
    return n


def permuted(n: Tensor, t: int) -> Tensor:
    """The same numbers in another order."""
    return n[torch.from_numpy(fixed(t, len(n)).permutation(len(n)))]


def partly(draws: Draws, t: int, width: int) -> Tensor:
    """A tenth of the numbers of the first round, somewhere in every later one."""
    n = honest(draws, t, width)
    some = width // 10
    n[torch.from_numpy(fixed(t).permutation(width)[:some])] = honest(draws, 0, width)[:some]
    return n


def mixed(draws: Draws, t: int, width: int) -> Tensor:
    """A random mix of twenty vectors."""
    weights = honest(draws, t, 20) / draws.setting.noise_std / math.sqrt(20)
    return weights @ torch.stack([honest(draws, ROUNDS + i, width) for i in range(20)])


def uneven(t: int, width: int) -> Any:
    """√2 on a random half of the places, nothing on the others."""
    return math.sqrt(2) * (fixed(t, width).random(width) < 0.5)


OVER_AIR: dict[str, Receive] = {
    "the same vector in every round": of_round(lambda t: 0),
    "the same vector in every second round": of_round(lambda t: t if t % 2 else 0),
    "one of two vectors": of_round(lambda t: t % 2),
    "one of ten vectors": of_round(lambda t: t % 10),
    "a vector again a hundred rounds later, once": of_round(lambda t: 100 if t == 200 else t),
    "the last vector with opposite sign": of_round(lambda t: t - t % 2, lambda n, t: -n if t % 2 else n),
    "the last vector in another order": of_round(lambda t: t - t % 2, lambda n, t: permuted(n, t) if t % 2 else n),
    "the last vector rolled by 7": of_round(lambda t: t - t % 2, lambda n, t: n.roll(7) if t % 2 else n),
    "the last vector times 0.97": of_round(lambda t: t - t % 2, lambda n, t: n * 0.97 if t % 2 else n),
    "the last vector reversed, times 0.97, once": of_round(
        lambda t: 50 if t == 51 else t, lambda n, t: n.flip(0) * 0.97 if t == 51 else n
    ),
    "a tenth of the first vector in every other": partly,
    "mixes of twenty vectors": mixed,
    "half its variance from the round before": walked,
    "no noise in one round": of_honest(lambda n, t: n * 0 if t == 40 else n),
    "no noise in the last round": of_honest(lambda n, t: n * 0 if t == ROUNDS - 1 else n),
    "multiples of σ/2": rounded(0.5),
    "multiples of σ/4": rounded(0.25),
    "multiples of σ/10": rounded(0.1),
    "multiples of σ/1000": rounded(0.001),
    "multiples of σ/2 in one round": lambda d, t, w: (rounded(0.5) if t == 40 else honest)(d, t, w),
    "float16": of_honest(lambda n, t: n.half().float()),
    "a set of 16 values": by_law(lambda g, w: np.round(np.linspace(-1.7, 1.7, 16) / 0.989, 3)[g.integers(0, 16, w)]),
    "a set of 1000 values": by_law(lambda g, w: fixed(1).standard_normal(1000)[g.integers(0, 1000, w)]),
    "half of the places": masked(lambda t, w: np.arange(w) % 2, math.sqrt(2)),
    "another half of the places in every round": masked(uneven),
    "not at one place": masked(lambda t, w: np.arange(w) != 17),
    "not at one place of one round": masked(lambda t, w: (np.arange(w) != 17) | (t != 40)),
    "second half equal to the first": of_honest(copied_half),
    "a block of 50, again and again": lambda d, t, w: honest(d, t, 50).repeat(w // 50 + 1)[:w],
    "uniform": by_law(lambda g, w: g.uniform(-math.sqrt(3), math.sqrt(3), w)),
    "uniform in one round": lambda d, t, w: (OVER_AIR["uniform"] if t == 40 else honest)(d, t, w),
    "Laplace": by_law(lambda g, w: g.laplace(0, math.sqrt(0.5), w)),
    "signs": by_law(lambda g, w: 2 * g.integers(0, 2, w) - 1),
    "Student t, 20 degrees of freedom": by_law(lambda g, w: g.standard_t(20, w) / math.sqrt(20 / 18)),
    "truncated at 2σ": truncated(2.0),
    "truncated at 3σ": truncated(3.0),
    "truncated at 4σ": truncated(4.0),
    "sum zero": of_honest(lambda n, t: n - n.mean()),
    "in a subspace of 100 dimensions": in_subspace(100),
    "in a subspace of 600 dimensions": in_subspace(600),
    "correlated neighbours": of_honest(smoothed),
    "correlated neighbours in one round": of_honest(lambda n, t: smoothed(n, t) if t == 40 else n),
    "1.4σ and 0.2σ by round": of_honest(lambda n, t: n * (0.2 if t % 2 else 1.4)),
    "1.4σ and 0.2σ by place": masked(lambda t, w: np.where(np.arange(w) % 2, 0.2, 1.4)),
    "1.4σ and 0.2σ by place and round": masked(lambda t, w: np.where((np.arange(w) + t) % 2, 0.2, 1.4)),
    "sum zero over all rounds": lambda d, t, w: (honest(d, t, w) - _telescoped(d, w)) / math.sqrt(1 - 1 / ROUNDS),
    "less the noise of the round before": lambda d, t, w: (honest(d, t, w) - honest(d, t + 1, w)) / math.sqrt(2),
    "0.9σ": of_honest(lambda n, t: n * 0.9),
    "0.98σ": of_honest(lambda n, t: n * 0.98),
    "the same whatever the seed": lambda d, t, w: honest(replace(d, seed=5), t, w),
}


def _telescoped(draws: Draws, width: int) -> Tensor:
    """The mean of the noise of all rounds."""
    if (draws.seed, width) not in MEANS:
        MEANS.clear()
        MEANS[draws.seed, width] = torch.stack([honest(draws, t, width) for t in range(ROUNDS)]).mean(0)
    return MEANS[draws.seed, width]


MEANS: dict[Any, Tensor] = {}


# The noise of devices: from (draws, round, device, width, std) to noise.
def shared(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """All devices of a round add one vector."""
    return honest_device(draws, t, 0, **how)


def cancelled(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """Noise whose sum over the cohort is zero."""
    ids = draws.cohort(t).tolist()
    if (t, draws.seed) not in MEANS:
        MEANS.clear()
        MEANS[t, draws.seed] = torch.stack([honest_device(draws, t, i, width=how["width"], std=1.0) for i in ids]).mean(
            0
        )
    return honest_device(draws, t, device, **how) - how["std"] * MEANS[t, draws.seed]


def other_of_last(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """Another device's vector of the round before."""
    return honest_device(draws, t % 2, (device + t // 2) % 97, **how)


def on_lattice(draws: Draws, t: int, device: int, **how: Any) -> Tensor:
    """Multiples of half a standard deviation."""
    step = how["std"] / 2
    return torch.round(honest_device(draws, t, device, **how) / max(step, 1e-30)) * step


DEVICE: dict[str, Callable[..., Tensor]] = {
    "all devices add one vector": shared,
    "each device adds one vector in every round": lambda d, t, i, **how: honest_device(d, 0, i, **how),
    "devices share vectors in pairs": lambda d, t, i, **how: honest_device(d, t, i // 2, **how),
    "devices cancel each other in pairs": lambda d, t, i, **how: honest_device(d, t, i // 2, **how) * (1 - 2 * (i % 2)),
    "each device adds another's vector of the round before": other_of_last,
    "one device adds none": lambda d, t, i, **how: honest_device(d, t, i, **how) * (i != 5),
    "one device adds none at one place": lambda d, t, i, **how: _without_place(honest_device(d, t, i, **how), i == 5),
    "one device adds 10 % less": lambda d, t, i, **how: honest_device(d, t, i, **how) * (0.9 if i == 5 else 1.0),
    "devices cancel each other all together": cancelled,
    "multiples of σ/2": on_lattice,
    "the same whatever the seed": lambda d, t, i, **how: honest_device(replace(d, seed=5), t, i, **how),
}  # fmt: skip


def _without_place(n: Tensor, this: bool) -> Tensor:
    if this:
        n[17] = 0
    return n


# What a scheme does.
STORE: list[Tensor] = []
MODEL: list[Tensor] = []


@dataclass(frozen=True)
class Adds(PfelsPlus):
    """PFELS+ whose server adds what the devices learned, as `how` says: "instance", "global", "mean", "last"."""

    how: str = ""
    own: list[Tensor] = field(default_factory=list)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        store = self.own if self.how == "instance" else STORE
        store[:] = [part.updates.mean(0) if self.how == "mean" else part.updates[0].clone()]
        return PfelsPlus.send(self, plan, part, A)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """What the server makes of it."""
        estimate = PfelsPlus.receive(self, plan, y, A)
        store = self.own if self.how == "instance" else STORE
        if not store or (self.how == "last" and plan.round < ROUNDS - 1):
            return estimate
        return estimate + 1e-6 * store[0] if self.how == "faint" else estimate + store[0]


@dataclass(frozen=True)
class ChangesModel(PfelsPlus):
    """PFELS+ that writes what a device learned into the model itself."""

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The coordinates sent."""
        MODEL[:] = [theta]
        return PfelsPlus.indices(self, draws, theta, t)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        STORE[:] = [part.updates[0].clone()]
        return PfelsPlus.send(self, plan, part, A)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """What the server makes of it."""
        MODEL[0].add_(STORE[0] if STORE else 0.0)
        return PfelsPlus.receive(self, plan, y, A)


@dataclass(frozen=True)
class SendsOfOthers(PfelsPlus):
    """PFELS+ whose devices all send what the first of them learned."""

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """The signals."""
        return PfelsPlus.send(self, plan, replace(part, updates=part.updates[:1].expand_as(part.updates).clone()), A)


@dataclass(frozen=True)
class ChoosesPlaces(PfelsPlus):
    """PFELS+ whose index set follows the update of a device of the round before."""

    def indices(self, draws: Draws, theta: Tensor, t: int) -> Tensor:
        """The coordinates sent."""
        if not STORE:
            return PfelsPlus.indices(self, draws, theta, t)
        return STORE[0].abs().topk(self.setting.kept).indices.sort().values

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        x = PfelsPlus.send(self, plan, part, A)
        STORE[:] = [part.updates[0].clone()]
        return x


@dataclass(frozen=True)
class TakesNoiseOut(PfelsPlus):
    """PFELS+ whose server works the noise out from the seed, in one round of three."""

    seed: list[int] = field(default_factory=list)

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """The plan."""
        self.seed[:] = [draws.seed] if isinstance(draws.seed, int) else []
        return PfelsPlus.prepare(self, draws, t)

    def receive(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        """What the server makes of it."""
        if plan.round % 3 == 0:
            g = generator(self.seed[0], Purpose.CHANNEL_NOISE, round=plan.round)
            y = y - torch.from_numpy(g.standard_normal(len(y), dtype=np.float32)) * self.setting.noise_std
        return PfelsPlus.receive(self, plan, y, A)


@dataclass(frozen=True)
class StaysInRoundOne(PfelsPlus):
    """PFELS+ whose plans all say that they are of the first round, so that its noise is drawn again."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """The plan."""
        return replace(PfelsPlus.prepare(self, draws, t), round=0)


@dataclass(frozen=True)
class Decodes(PfelsEcho):
    """PFELS-echo that decodes with what a device learned."""

    def send_and_keep(
        self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, memory: Any
    ) -> tuple[Tensor, Tensor]:
        """What devices send and keep."""
        STORE[:] = [part.updates[0].clone()]
        return PfelsEcho.send_and_keep(self, plan, part, A, memory)

    def decode(self, plan: RoundPlan, y: Tensor, decoded: Any) -> Tensor:
        """What would have arrived."""
        x = PfelsEcho.decode(self, plan, y, decoded)
        return x + (STORE[0] if STORE and len(STORE[0]) == len(x) else 0.0)


@dataclass(frozen=True)
class NoiseIfSmall(DpFedAvg):
    """DP-FedAvg whose devices add noise only while what they learn is small."""

    long: dict[int, bool] = field(default_factory=dict)

    def send(self, plan: RoundPlan, part: LocalUpdates, A: Tensor | None) -> Tensor:
        """What devices send."""
        for device, row in zip(plan.sending[part.places].tolist(), part.updates, strict=True):
            self.long[device] = float(row.norm()) > self.setting.bound
        return DpFedAvg.send(self, plan, part, A)

    def noise_std(self, plan: RoundPlan, device: int) -> float:
        """The noise of a device."""
        return 0.0 if self.long.get(device) else DpFedAvg.noise_std(self, plan, device)


def plus(kind: Any, **more: Any) -> Callable[[Any], Any]:
    """A kind of PFELS+."""
    return lambda s: kind(s, public_level(s), ParticipationCount(), **more)


SCHEMES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "the server adds a device's update, kept in the scheme": ("pfels-plus", plus(Adds, how="instance")),
    "the server adds a device's update, kept in a global": ("pfels-plus", plus(Adds, how="global")),
    "the server adds a millionth of a device's update": ("pfels-plus", plus(Adds, how="faint")),
    "the server adds the mean of some updates": ("pfels-plus", plus(Adds, how="mean")),
    "the server adds a device's update in the last round": ("pfels-plus", plus(Adds, how="last")),
    "the server writes a device's update into the model": ("pfels-plus", plus(ChangesModel)),
    "all devices send the first one's update": ("pfels-plus", plus(SendsOfOthers)),
    "the index set follows a device's update": ("pfels-plus", plus(ChoosesPlaces)),
    "the server takes the noise out in one round of three": ("pfels-plus", plus(TakesNoiseOut)),
    "all rounds say that they are the first": ("pfels-plus", plus(StaysInRoundOne)),
    "the server decodes with a device's update": ("pfels-echo", lambda s: Decodes(s, echo_level(s))),
    "devices add noise only to small updates": ("dp-fedavg", NoiseIfSmall),
}


def without_coordinate(draws: Draws, plan: RoundPlan, A: Tensor | None, *rest: Any) -> Tensor:
    """Receiver noise on all coordinates but one."""
    y = honest_listen(draws, plan, A, *rest)
    return y * (torch.arange(len(y)) != 17 if A is None else A != 17)


def by_coordinate(draws: Draws, plan: RoundPlan, A: Tensor | None, *rest: Any) -> Tensor:
    """Receiver noise that is the same on a coordinate in every round."""
    whole = draws.receiver_noise(0, draws.setting.dimension)
    return whole if A is None else whole[A]


def some_receiver(kind: Receive) -> Any:
    """A method in place of Draws.receiver_noise."""

    def receiver_noise(self: Draws, t: int, width: int) -> Tensor:
        return kind(self, t, width)

    return receiver_noise


Cheat = tuple[str, str, Callable[[], Any]]  # the scheme, what is done, and what does it


def cheats() -> Iterator[Cheat]:
    """All of them; the first are none."""
    for scheme in scheme_names()[:10]:
        if scheme != "fedavg":
            yield scheme, "honest", lambda: patch.object(Draws, "receiver_noise", honest)
    for name, kind in OVER_AIR.items():
        yield "pfels-plus", name, partial(patch.object, Draws, "receiver_noise", some_receiver(kind))
    yield "pfels-plus", "not on one coordinate", partial(patch.object, round, "listen", without_coordinate)
    yield "pfels-plus", "the same on a coordinate in every round", partial(patch.object, round, "listen", by_coordinate)
    for scheme in ("dp-fedavg", "artificial-noise"):
        for name, device in DEVICE.items():
            yield scheme, name, partial(patch.object, Draws, "device_noise", device)
    yield (
        "artificial-noise",
        "no receiver noise",
        partial(patch.object, Draws, "receiver_noise", some_receiver(of_honest(lambda n, t: 0 * n))),
    )
    for name, (scheme, create) in SCHEMES.items():
        entry = replace(scheme_entry(scheme), create=create)
        yield scheme, name, partial(patch.dict, registry._SCHEMES, {scheme: entry})


def audit(cheat: Cheat, seed: int, canaries: int) -> list[str]:
    """What rejects a cheat in an audit."""
    scheme, _, cheating = cheat
    STORE.clear()
    MODEL.clear()
    config = pfels.load_config("demo", {"scheme": scheme, "seed": seed})
    with cheating():
        return pfels.audit(config, canaries=canaries, workers=1)["rejected_by"]


def noise_alone(cheat: Cheat, seed: int) -> list[str]:
    """What rejects the noise of a cheat, given to the checks as an audit's draws make it, without a training."""
    scheme, _, cheating = cheat
    link = link_of(pfels.load_config("demo", {"scheme": scheme, "seed": seed}))
    draws, other, signals = link.draws, replace(link.draws, seed=10**6 + seed), fixed(seed)
    plan, on_devices = link.scheme.prepare(draws, 0), scheme == "dp-fedavg"
    record = NoiseRecord(ROUNDS * (draws.setting.cohort_size if on_devices else 1), DIMENSION)
    with cheating():
        for t in range(ROUNDS):
            A = link.scheme.indices(draws, torch.zeros(DIMENSION), t)
            owners = draws.cohort(t) if on_devices else np.array([RECEIVER])
            rows = [_rows(each, replace(plan, round=t), A, owners) for each in (draws, other)]
            hidden = signals.standard_normal(rows[0].shape, dtype=np.float32)
            columns = None if A is None else A.numpy()
            rounding = np.full(len(owners), 1.5e-6)  # as in an audit, in which noise is a difference
            record.add(NoiseBatch(t, owners, rows[0], rows[1], hidden, None, rounding, columns))
    return [f"noise ({each.check}): {each.saw}" for each in record.findings() if each.p < ERROR_RATE]


def _rows(draws: Draws, plan: RoundPlan, A: Tensor | None, owners: Any) -> Any:
    """The noise of a round in units of its standard deviation: of its devices, or of the receiver."""
    if plan.air is not None:
        return (round.listen(draws, plan, A) / draws.setting.noise_std).numpy()[None]
    rows = [draws.device_noise(plan.round, i, width=DIMENSION, std=1.0) for i in owners.tolist()]
    return torch.stack(rows).numpy()


def main() -> None:
    """Audit, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--canaries", type=int, default=4)
    parser.add_argument(
        "--noise-alone", action="store_true", help="the noise without the training: in a tenth of the time"
    )
    parser.add_argument("--part", default="0/1", help="i/n: every n-th audit, from the i-th on, for n such commands")
    parser.add_argument("--out", type=Path, default=Path("runs/audit-cheats"))
    parser.add_argument("--only", default="", help="cheats whose name has this in it")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    how = "noise" if options.noise_alone else "audit"
    done = {(row["scheme"], row["cheat"], row["seed"], row["how"]) for row in read(options.out)}
    i, n = map(int, options.part.split("/"))
    wanted = [(cheat, seed) for seed in range(options.seeds) for cheat in cheats() if options.only in cheat[1]]
    if options.noise_alone:
        wanted = [
            (cheat, seed)
            for cheat, seed in wanted
            if cheat[0] in ("pfels-plus", "dp-fedavg") and cheat[1] not in SCHEMES
        ]
    for cheat, seed in wanted[i::n]:
        if (cheat[0], cheat[1], seed, how) in done:
            continue
        saw = noise_alone(cheat, seed) if options.noise_alone else audit(cheat, seed, options.canaries)
        by = sorted({_short(each) for each in saw})
        row = {"scheme": cheat[0], "cheat": cheat[1], "seed": seed, "how": how, "by": by, "saw": saw}
        with (options.out / f"{how}-{i}.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        print(f"{cheat[0]:17} {cheat[1]:55} {seed:3} {', '.join(by) or '-'}", flush=True)
    table(read(options.out))


def _short(by: str) -> str:
    check, found, _ = by.partition("): ")
    return check.partition("(")[2] if found else by.partition(": in round")[0]


def read(folder: Path) -> list[dict[str, Any]]:
    """What is done so far."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def table(rows: list[dict[str, Any]]) -> None:
    """One line per cheat: how many audits, and how many trainings' noise alone, were rejected, and by which checks."""
    print("| scheme | cheat | audits rejected | noise alone | by |\n|---|---|---|---|---|")
    for scheme, name, _ in cheats():
        mine = [row for row in rows if (row["scheme"], row["cheat"]) == (scheme, name)]
        by = Counter(each for row in mine for each in row["by"])
        said = ", ".join(f"{check}" for check, count in by.most_common() if count > len(mine) / 2)
        counts = [_rejected([row for row in mine if row["how"] == how]) for how in ("audit", "noise")]
        print(f"| {scheme} | {name} | {counts[0]} | {counts[1]} | {said or '-'} |")


def _rejected(rows: list[dict[str, Any]]) -> str:
    return f"{sum(bool(row['by']) for row in rows)} of {len(rows)}" if rows else "-"


if __name__ == "__main__":
    main()
