"""What a scheme says of its rounds is held against what it does.

A scheme that says its release does not depend on the cohort is held to it.

An outsider's figure rests on that: amplification by sampling needs a level, a mask and an estimate that are functions
of what is public and of the received signal alone. Who was drawn, and who of them was heard, must not enter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pfels.arrays import DeviceIds, Gains
from pfels.errors import GuardError
from pfels.privacy.events import Sampling
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.draws import Draws
from pfels.schemes.scheme import Scheme, adds_noise


@dataclass(frozen=True)
class OtherCohort(Draws):
    """The same draws of everything public, with `drawn` other devices in the cohort, all of them with gain `gain`."""

    drawn: int = 1
    gain: float = 1.0

    def cohort(self, t: int) -> DeviceIds:
        """The first `drawn` of the devices that the seed did not draw, or of all where those are too few."""
        if self.setting.sampling is Sampling.TURNS:  # another group, of which nobody has another turn meanwhile
            return Draws.cohort(self, t + 1)[: self.drawn]
        drawn = Draws.cohort(self, t)
        first = np.arange(min(self.setting.devices, self.drawn + len(drawn)))  # enough of them, of ten million, too
        others = np.setdiff1d(first, drawn)
        return (others if len(others) >= self.drawn else first)[: self.drawn]

    def gains(self, t: int, devices: DeviceIds) -> Gains:
        """One gain for all: with the weakest, few are heard, and with the strongest, all."""
        return np.full(len(devices), self.gain, np.complex128)


def require_sound(scheme: Scheme, draws: Draws, theta: Tensor) -> None:
    """A GuardError if the scheme does not do what its plan says: noise that nobody adds, or a release that depends on
    the cohort. A spot check of the first round, before a run begins; tests/contract checks later rounds too."""
    plan, name = scheme.prepare(draws, 0), type(scheme).__name__
    on_devices = adds_noise(scheme)
    if plan.air is None and plan.event.noise_multiplier > 0 and not on_devices:
        raise GuardError(f"{name}: its plan has noise, but its devices add none; it needs a method `noise_std`")
    if plan.air is not None and on_devices != (plan.air.added is not None):
        raise GuardError(f"{name}: over the air devices add noise if and only if their power limits count it (`added`)")
    if hasattr(scheme, "keep") and not hasattr(scheme, "send_and_keep"):
        raise GuardError(f"{name}: a scheme that has `keep` needs `send_and_keep` as well")
    if plan.echo.used_until is not None and not (hasattr(scheme, "send_and_keep") and hasattr(scheme, "decode")):
        raise GuardError(f"{name}: a scheme whose devices repeat needs `send_and_keep` and `decode`")
    require_public_release(lambda: scheme, draws, theta)


def require_public_release(make: Callable[[], Scheme], draws: Draws, theta: Tensor, *, t: int = 0) -> None:
    """A GuardError if the plan of round t says that the release does not depend on the cohort, and it does.

    `make` gives the scheme: a fresh one for every cohort, where it counts something from round to round.
    """
    scheme = make()
    plan = scheme.prepare(draws, t)
    if plan.event.cohort_dependent:
        return
    name = type(scheme).__name__
    A = scheme.indices(draws, theta.to(draws.device), t)
    width = draws.setting.dimension if A is None else len(A)
    y = torch.linspace(-1, 1, width, device=draws.device)
    estimate = scheme.receive(plan, y.clone(), A)
    for others in _variations(draws):
        scheme = make()
        other = scheme.prepare(others, t)
        levels = [(p.event.noise_multiplier, p.event.cohort_dependent, p.air and p.air.beta) for p in (plan, other)]
        if levels[0] != levels[1]:
            raise GuardError(f"{name}: says that its release does not depend on the cohort, but its level does")
        B = scheme.indices(others, theta.to(draws.device), t)
        if (A is None) != (B is None) or (A is not None and B is not None and not torch.equal(A, B)):
            raise GuardError(f"{name}: says that its release does not depend on the cohort, but its index set does")
        if not torch.equal(scheme.receive(other, y.clone(), A), estimate):
            raise GuardError(f"{name}: says that its release does not depend on the cohort, but its estimate does")


def _variations(draws: Draws) -> Iterator[Draws]:
    """Other cohorts, of any size under Poisson sampling, that are all heard or hardly heard."""
    setting = draws.setting
    sizes = {1, setting.cohort_size} if setting.sampling is Sampling.POISSON else {setting.cohort_size}
    for drawn in sorted(sizes):
        for gain in (setting.cell.gain.gain_min, setting.cell.gain.gain_max):
            yield OtherCohort(setting, draws.seed, draws.device, start=draws.start, drawn=drawn, gain=gain)
