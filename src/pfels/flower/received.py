"""What the server has received of a round so far: noise and signals, added up.

With secret noise the sum is one of integers on a public lattice, and its noise is exact (`privacy.lattice`). With the
noise of the seed it is the simulator's, in double precision, so that the order of arrival does not matter.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pfels.flower.keystream import keystream
from pfels.privacy.discrete_gaussian import Whole
from pfels.privacy.lattice import Lattice, require_range
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.round import listen
from pfels.schemes.scheme import Scheme, adds_noise


class ReceivedSum(Protocol):
    """A sum of noise and signals."""

    @property
    def width(self) -> int:
        """How many numbers a signal has."""

    def add(self, arriving: Tensor) -> None:
        """Add what arrives of a device's signal, in double precision."""

    def total(self) -> Tensor:
        """The sum as the scheme's `receive` takes it."""


@dataclass
class FloatSum:
    """The sum in double precision."""

    values: Tensor

    @property
    def width(self) -> int:
        """How many numbers a signal has."""
        return len(self.values)

    def add(self, arriving: Tensor) -> None:
        """Add what arrives of a device's signal, in double precision."""
        self.values += arriving

    def total(self) -> Tensor:
        """The sum as the scheme's `receive` takes it."""
        return self.values.float()


@dataclass
class ExactSum:
    """The sum in steps of a lattice, with its noise in it from the start.

    Signals are cut toward zero. Where `noisy`, they come with exact noise of their own on this same lattice, and are
    rounded: that finds the integers that were sent.
    """

    lattice: Lattice
    steps: Whole
    noisy: bool = False

    @property
    def width(self) -> int:
        """How many numbers a signal has."""
        return len(self.steps)

    def add(self, arriving: Tensor) -> None:
        """Add what arrives of a device's signal, in double precision; what the noise cannot hide is not added."""
        values = arriving.numpy()
        sum_ = self.steps + (self.lattice.nearest(values) if self.noisy else self.lattice.inward(values))
        require_range(sum_)
        self.steps = sum_

    def total(self) -> Tensor:
        """The sum as the scheme's `receive` takes it."""
        return torch.from_numpy(self.lattice.real(self.steps)).float()


def received_noise(scheme: Scheme, draws: Draws, plan: RoundPlan, A: Tensor | None, *, secret: bool) -> ReceivedSum:  # noqa: N803
    """Before any signal: the receiver's noise, or nothing on ideal links."""
    if not secret:
        return FloatSum(listen(draws, plan, A).double())
    width = draws.setting.dimension if A is None else len(A)
    if plan.air is not None:
        lattice = Lattice.for_noise(draws.setting.noise_std)
        return ExactSum(lattice, lattice.noise(width, random_bytes=keystream))
    if adds_noise(scheme) and len(plan.sending):
        std = min(scheme.noise_std(plan, device) for device in plan.sending.tolist())
        return ExactSum(Lattice.for_noise(std), np.zeros(width, np.int64), noisy=True)
    return FloatSum(torch.zeros(width, dtype=torch.float64))


class ExactNoise:
    """On devices: cuts rows to the lattice of their noise and adds the noise, in integers; then back to numbers.

    The noise of `rows` rows is drawn at once, which costs less, and each number of it is used once.
    """

    def __init__(self, rows: int = 1) -> None:
        self._rows, self._drawn = rows, np.empty(0, np.int64)
        self._std, self._lattice = 0.0, Lattice(1.0)

    def __call__(self, row: Tensor, std: float) -> None:
        """Add noise of this standard deviation to a row, in place."""
        if std == 0:
            return
        if std != self._std:
            self._std, self._lattice = std, Lattice.for_noise(std)
        lattice, width = self._lattice, len(row)
        if len(self._drawn) < width:
            self._drawn = lattice.noise(self._rows * width, random_bytes=keystream)
        noise, self._drawn = self._drawn[:width], self._drawn[width:]
        values = row.numpy()
        steps = lattice.inward(values)
        steps += noise
        lattice.real(steps, out=values)
