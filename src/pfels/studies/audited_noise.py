"""The noise of an audited training: what was received, less the same without noise, held against what is stated of it.

Over the air every received number carries the receiver's noise, of standard deviation σ₀. Where devices add noise, each
adds what its plan states. The difference of two plays of a round, one with noise and one without, is that noise as it
was, whatever the code that made it says.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.arrays import DeviceIds, Reals
from pfels.privacy import tails
from pfels.privacy.noise_batch import RECEIVER, Finding, Least, NoiseBatch
from pfels.privacy.noise_checks import NoiseRecord
from pfels.privacy.noise_vectors import FEWEST, unit
from pfels.schemes.plan import RoundPlan
from pfels.schemes.round import ServerView
from pfels.schemes.scheme import Scheme, adds_noise
from pfels.schemes.setting import Setting
from pfels.studies.server_replay import Answer, Vector

ROUNDING = 2.0**-22  # relative; what float32 may add to a sum of signals
COARSE = 2.0**-8  # a vector of which rounding blurs more, in standard deviations, is left out: it hides nothing


@dataclass(frozen=True)
class Played:
    """A round as it was played: from the model `theta`, which is `after` now; what the server saw with noise and
    without it, and `beside` without canaries as well."""

    round: int
    theta: Tensor
    after: Tensor
    plan: RoundPlan
    indices: Tensor | None
    estimate: Tensor
    noisy: ServerView
    quiet: ServerView
    beside: ServerView

    @property
    def columns(self) -> NDArray[np.int64] | None:
        """What coordinates are sent; None: all of them."""
        return None if self.indices is None else self.indices.cpu().numpy()


@dataclass
class AuditedNoise:
    """The noise of the receiver and that of devices over a training, and what estimates of other sums tell of it."""

    setting: Setting
    records: dict[str, NoiseRecord] = field(default_factory=dict)
    estimates: Least = field(default_factory=Least)

    def add(self, played: Played, scheme: Scheme, other: Answer) -> bool:
        """One more round; `other` is what a server with other noise made of it. False if the plays with noise and
        without it differ in more than noise."""
        heard, hushed, sent = played.noisy.received, played.quiet.received, _uploads(played)
        if heard is None or hushed is None or sent is None or other.noise is None or other.added is None:
            return False
        if not len(heard) == len(hushed) == len(other.noise) or len(sent[0]) != len(other.added):
            return False
        noise, again = heard - hushed, torch.from_numpy(other.noise).to(heard)
        self._hear(played, other.estimate, noise)
        loud, quiet = sent
        columns = None if other.follows else played.columns  # a coordinate that is sent for its noise has other noise
        if len(loud):
            of_devices, everybody = torch.from_numpy(other.added).to(heard), slice(0, len(loud))
            noise = noise - played.plan.arriving(loud - quiet, everybody)
            again = again - played.plan.arriving(of_devices, everybody)
            batch = _batch(
                played, played.plan.training[everybody], (loud - quiet, of_devices, quiet), loud.abs().amax(1),
                stds=self._stated(played.plan, scheme, loud), other=None if played.plan.air is None else noise,
                columns=columns,
            )  # fmt: skip
            self._record("devices", self.setting.rounds * self.setting.cohort_size).add(batch)
        if played.plan.air is not None:
            rows, level = (noise[None], again[None], hushed[None]), heard.abs().amax(0, keepdim=True)
            batch = _batch(
                played, np.array([RECEIVER]), rows, level,
                stds=np.array([self.setting.noise_std]), other=played.beside.received, columns=columns,
            )  # fmt: skip
            self._record("receiver", self.setting.rounds).add(batch)
        return True

    def _hear(self, played: Played, estimate: Vector | None, noise: Tensor) -> None:
        """Whether the estimate of a sum with other noise knows this one's."""
        if estimate is None:
            return
        sent, own = estimate if played.columns is None else estimate[played.columns], noise.cpu().numpy()
        if sent.shape != own.shape or len(own) < FEWEST:
            return
        cosine = float(unit(sent[None])[0] @ unit(own[None])[0])
        self.estimates.add(
            np.atleast_1d(tails.correlation(np.array(cosine**2), len(own))),
            lambda at: f"in round {played.round + 1} the server knows noise that it has not received "
            f"(correlation {cosine:.2f})",
        )  # fmt: skip

    def findings(self) -> list[tuple[str, Finding]]:
        """What every check found, with the source of the noise."""
        found = [(source, each) for source, record in sorted(self.records.items()) for each in record.findings()]
        if found:
            least = self.estimates
            found.append(("server", Finding("estimates", least.corrected, least.count, least.saw)))
        return found

    def _record(self, source: str, expected: int) -> NoiseRecord:
        return self.records.setdefault(source, NoiseRecord(expected, self.setting.dimension))

    def _stated(self, plan: RoundPlan, scheme: Scheme, loud: Tensor) -> Reals:
        """The standard deviation of the noise of each sender: over the air the plan's, otherwise the event's, or more
        where the scheme says that it adds more."""
        count, width = loud.shape
        if plan.air is not None:
            return np.array([plan.air.added_std(place, width=width) for place in range(count)])
        stated = np.full(count, self.setting.bound * plan.event.server_noise_multiplier)
        if not adds_noise(scheme):
            return stated
        said = np.array([scheme.noise_std(plan, device) for device in plan.training[:count].tolist()])
        more: Reals = np.maximum(stated, said)
        return more


def _uploads(played: Played) -> tuple[Tensor, Tensor] | None:
    """What devices sent with their noise and without; None if it is not of one shape."""
    nothing = torch.zeros(0, 0)
    loud, quiet = (torch.cat(view.uploads) if view.uploads else nothing for view in (played.noisy, played.quiet))
    return (loud, quiet) if loud.shape == quiet.shape else None


def _batch(
    played: Played, owners: DeviceIds, rows: tuple[Tensor, Tensor, Tensor], levels: Tensor, *, stds: Reals,
    other: Tensor | None, columns: NDArray[np.int64] | None,
) -> NoiseBatch:  # fmt: skip
    """Noise, that of another seed, and what it hides, over the noise's standard deviation; vectors of which rounding
    leaves nothing to see are left out. `levels` are the largest numbers that were rounded."""
    largest = levels.double().cpu().numpy()
    rounding = np.divide(ROUNDING * largest, stds, out=np.full(len(stds), np.inf), where=stds > 0)
    kept = np.flatnonzero(rounding < COARSE)
    scale = torch.from_numpy(1 / stds[kept]).float()[:, None]
    noise, again, signals = (each.cpu()[torch.from_numpy(kept)] for each in rows)
    return NoiseBatch(
        played.round, owners[kept], (noise * scale).numpy(), (again * scale).numpy(), signals.numpy(),
        None if other is None else other.cpu().numpy(), rounding[kept], columns,
    )  # fmt: skip
