"""The stages bound to one experiment's constants: all that a scheme may use in a round."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pfels.arrays import Gains, Ids, Reals
from pfels.privacy.calibration import Budget
from pfels.privacy.claim import c2
from pfels.privacy.events import RoundEvent, Sampling
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.plan import Air, Link, Tally
from pfels.seeding import Purpose, generator
from pfels.uplink import channel, cohort, compression
from pfels.uplink.channel import GainLaw, SnrLaw
from pfels.uplink.clipping import silence_non_finite

if TYPE_CHECKING:
    from pfels.training.local import LocalTraining, LocalUpdates


T = TypeVar("T")


@dataclass(frozen=True)
class System:
    """N devices, a cohort of r a round, d parameters of which k are sent, updates bounded by ητC₁, and a channel.

    `training` is absent where only the link is simulated: the channel, the powers and β need no model. Where a run
    has several `ranks`, each trains its share of a cohort and `superposed` adds up what they have. `noise_seed` is
    where noise comes from if the seed, which every device must know for channel and cohort, is not to tell it.
    """

    seed: int
    devices: int
    cohort_size: int
    sampling: Sampling
    dimension: int
    ratio: float
    bound: float
    epsilon: float
    delta: float
    noise_std: float
    gain_law: GainLaw
    snr_law: SnrLaw
    training: "LocalTraining | None" = None
    budget: Budget | None = None
    start: Tensor | None = None
    mask: str = "rand-k"
    error_feedback: bool = False
    silent_below: float = 0.0
    noise_seed: int | None = None
    ranks: Ranks = field(default_factory=Ranks)

    @property
    def kept(self) -> int:
        """k."""
        return compression.kept_count(self.dimension, self.ratio)

    @property
    def privacy_limit(self) -> float:
        """The β at which the paper's per-round claim is just ε: ε/C₂ (Thm 3)."""
        return self.epsilon / c2(
            bound=self.bound, noise_std=self.noise_std, delta=self.delta, devices=self.devices, cohort=self.cohort_size
        )

    def cohort(self, t: int) -> Ids:
        """The devices drawn for round t."""
        draw = generator(self.seed, Purpose.COHORT, round=t)
        return cohort.sample(draw, devices=self.devices, size=self.cohort_size, sampling=self.sampling.value)

    def gains(self, t: int, devices: Ids) -> Gains:
        """The complex channel of each device in round t."""
        law = self.gain_law
        return channel.draw_gains(seed=self.seed, round=t, devices=devices, mean=law.mean, low=law.low, high=law.high)

    def powers(self, devices: Ids) -> Reals:
        """The power limit of each device."""
        law = self.snr_law
        return channel.draw_powers(
            seed=self.seed, devices=devices, dimension=self.dimension, noise_std=self.noise_std,
            low_db=law.low_db, high_db=law.high_db, scale=law.scale,
        )  # fmt: skip

    def rand_k(self, t: int) -> Tensor:
        """The shared index set of round t."""
        draw = generator(self.seed, Purpose.MASK, round=t)
        return compression.rand_k(draw, dimension=self.dimension, kept=self.kept).to(self.ranks.device)

    def chosen(self, t: int, theta: Tensor) -> Tensor:
        """The index set of round t as `mask` has it; it may depend on the model, which everybody knows."""
        if self.mask == "rand-k":
            return self.rand_k(t)
        assert self.start is not None, "a mask from the model needs the model it started from"
        draw = generator(self.seed, Purpose.MASK, round=t)
        return compression.public_top_k(draw, theta.cpu() - self.start, kept=self.kept).to(theta.device)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """A value that a scheme works out once for this system."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def receiver_noise(self, t: int, width: int) -> Tensor:
        """The receiver's noise of round t over the subcarriers in use; there is one receiver, on the leading rank."""
        if not self.ranks.leads:
            return torch.zeros(width, device=self.ranks.device)
        draw = generator(self._noise_from, Purpose.CHANNEL_NOISE, round=t)
        return channel.receiver_noise(draw, width=width, std=self.noise_std).to(self.ranks.device)

    def device_noise(self, t: int, device: int, *, std: float) -> Tensor:
        """The noise that one device adds to its own update in round t."""
        draw = generator(self._noise_from, Purpose.DEVICE_NOISE, round=t, device=device)
        return channel.receiver_noise(draw, width=self.dimension, std=std).to(self.ranks.device)

    @property
    def _noise_from(self) -> int:
        return self.seed if self.noise_seed is None else self.noise_seed

    def local_updates(self, theta: Tensor, t: int, devices: Ids, tally: Tally) -> "Iterator[LocalUpdates]":
        """What each device of this rank's share learns from θ in round t, in chunks in cohort order; a diverged
        device's update is zero."""
        assert self.training is not None, "this system simulates the link only"

        def orders(device: int) -> np.random.Generator:
            return generator(self.seed, Purpose.BATCHES, round=t, device=device)

        mine = self.ranks.share(len(devices))
        for part in self.training.cohort(theta, devices[mine].tolist(), orders):
            tally.learned(part, silence_non_finite(part.updates))
            yield part.behind(mine.start)

    def superposed(self, part: Tensor) -> Tensor:
        """The sum of what all ranks have received, which is all there is where a run has but one."""
        return self.ranks.total(part)

    def link(
        self,
        t: int,
        cohort: Ids,
        *,
        sending: Ids | None = None,
        subcarriers: int,
        noise_multiplier: float,
        alone: float | None = None,
        cohort_dependent: bool,
        claimed: bool,
        air: Air | None = None,
    ) -> Link:
        """What this system settles with the cohort of round t. `alone` is the noise multiplier of what the server sees
        of a single device, where that is not the noise multiplier of the sum."""
        transmitters = cohort if sending is None else sending
        event = RoundEvent(
            noise_multiplier=noise_multiplier,
            server_noise_multiplier=noise_multiplier if alone is None else alone,
            devices=self.devices,
            cohort_size=self.cohort_size,
            sampling=self.sampling,
            participants=tuple(transmitters.tolist()),
            cohort_dependent=cohort_dependent,
        )
        return Link(t, cohort, transmitters, event, subcarriers, self.epsilon if claimed else None, air)

    def air_link(self, t: int, cohort: Ids, air: Air, *, width: int, claimed: bool) -> Link:
        """The link of a cohort whose signals add up on `width` subcarriers, at a level that depends on who they are."""
        z = self.noise_std / (air.beta * air.bound)
        return self.link(
            t, cohort, subcarriers=width, noise_multiplier=z, cohort_dependent=True, claimed=claimed, air=air
        )
