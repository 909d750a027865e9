"""What a run has used up: energy, spectrum, airtime and privacy; a record for each round, totals for the run."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pfels.privacy.accountant import ServerLedger, outsider_loss
from pfels.privacy.figures import claimed_figure, exact_figure
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.plan import Link, Tally
from pfels.schemes.system import System


@dataclass(frozen=True)
class Ledger:
    """Running totals. Energies are None for schemes with ideal links, which the paper gives no energy.

    `energy` is Σ‖xᵢ‖² as transmitted; `energy_bound` is what it would be with every update at its norm bound, in
    expectation over the index sets, which is the figure in the paper's tables.
    """

    server: ServerLedger
    noise_multipliers: Mapping[float, int]
    energy: float | None = None
    energy_bound: float | None = None
    subcarriers: int = 0
    slots: int = 0
    silent: int = 0
    privacy_limited_rounds: int = 0
    cohort_dependent: bool = False
    claimed_epsilon: float | None = None

    @classmethod
    def empty(cls, *, devices: int) -> Self:
        """The ledger before the first round."""
        return cls(ServerLedger.empty(devices=devices), {})

    def after(self, link: Link, tally: Tally, *, slots: int) -> Self:
        """The ledger after one more round; this one stays as it is."""
        multipliers = Counter(self.noise_multipliers)
        # A round in which nobody happened to send is a release all the same: its noise says that nobody did.
        if link.event.participants or link.event.noise_multiplier > 0:
            multipliers[link.event.noise_multiplier] += 1
        return replace(
            self,
            server=self.server.after(link.event),
            noise_multipliers=multipliers,
            energy=None if link.air is None else (self.energy or 0.0) + math.fsum(tally.energies),
            energy_bound=None if link.air is None else (self.energy_bound or 0.0) + math.fsum(link.air.energy_bounds),
            subcarriers=self.subcarriers + link.subcarriers,
            slots=self.slots + slots,
            silent=self.silent + tally.silent + len(link.cohort) - len(link.sending),
            privacy_limited_rounds=self.privacy_limited_rounds + (link.air is not None and link.air.limit == "privacy"),
            cohort_dependent=self.cohort_dependent or link.event.cohort_dependent,
            claimed_epsilon=link.claimed_epsilon,
        )

    def record(self, t: int, link: Link, tally: Tally, *, system: System) -> dict[str, Any]:
        """Round t as a line of `rounds.jsonl`; this ledger is the one after the round.

        `privacy.server` is the worst device's loss up to and with this round. An outsider's loss is composed over
        the whole run and stands in its summary.
        """
        air, cohort = link.air, link.cohort.tolist()
        beta = air.beta if air is not None and math.isfinite(air.beta) else None
        silent = tally.silent + len(cohort) - len(link.sending)
        spent = dict(zip(link.sending.tolist(), tally.energies, strict=False))  # nothing on ideal links
        figures = _round_figures(
            link.event.noise_multiplier, link.claimed_epsilon, system, cohort_dependent=link.event.cohort_dependent
        ) | {"server": self.server.worst(delta=system.delta).as_dict()}
        return {
            "round": t,
            "cohort": cohort,
            "participants": len(cohort) - silent,
            "silent": silent,
            "beta": beta,
            "limit": None if beta is None or air is None else air.limit,
            "noise_multiplier": link.event.noise_multiplier if cohort or beta else None,
            "energy": math.fsum(tally.energies) if air is not None else None,
            "energy_bound": math.fsum(air.energy_bounds) if air is not None else None,
            "device_energy": [spent.get(device, 0.0) for device in cohort] if air is not None else None,
            "subcarriers": link.subcarriers,
            "train_loss": tally.mean_loss,
            "test_accuracy": None,
            "test_loss": None,
            "privacy": {key: _short(figure) for key, figure in figures.items()},
            **tally.notes,
        }

    def summary(self, system: System, *, slot_s: float) -> dict[str, Any]:
        """The totals of a finished run, with every privacy figure."""
        return {
            "energy": self.energy,
            "energy_bound": self.energy_bound,
            "subcarriers": self.subcarriers,
            "airtime_s": self.slots * slot_s,
            "silent": self.silent,
            "privacy_limited_rounds": self.privacy_limited_rounds,
            "privacy": self.privacy(system),
        }

    def privacy(self, system: System) -> dict[str, Any]:
        """Every privacy figure of a run that ends here; those of a single round are of the round with least noise."""
        least = min(self.noise_multipliers, default=0.0)
        figures = _round_figures(least, self.claimed_epsilon, system, cohort_dependent=self.cohort_dependent)
        claimed = figures["claimed"]
        server = self.server.worst(delta=system.delta).as_dict()
        outsider = outsider_loss(
            self.noise_multipliers, devices=system.devices, cohort=system.cohort_size, sampling=system.sampling,
            delta=system.delta, cohort_dependent=self.cohort_dependent,
        )  # fmt: skip
        return {
            "noise_multiplier_min": least,
            "claimed_epsilon": claimed and claimed["epsilon"],
            "claimed_valid": claimed and claimed["valid"],
            **figures,
            "server": server | {"distribution": self.server.distribution(delta=system.delta)},
            "outsider": outsider.as_dict(),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of the ledger, for a checkpoint."""
        values = sorted(self.noise_multipliers)
        return {
            "server.ids": torch.from_numpy(self.server.ids),
            "server.mu_squared": torch.from_numpy(self.server.mu_squared),
            "server.participations": torch.from_numpy(self.server.participations),
            "noise_multipliers": torch.tensor(values, dtype=torch.float64),
            "noise_multiplier_rounds": torch.tensor([self.noise_multipliers[v] for v in values], dtype=torch.int64),
        }

    def totals(self) -> dict[str, Any]:
        """The plain numbers of the ledger, for a checkpoint."""
        arrays = ("server", "noise_multipliers")
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in arrays}

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor], totals: Mapping[str, Any], *, devices: int) -> Self:
        """The ledger that a checkpoint holds."""
        server = ServerLedger(
            devices=devices,
            ids=tensors["server.ids"].numpy(),
            mu_squared=tensors["server.mu_squared"].numpy(),
            participations=tensors["server.participations"].numpy(),
        )
        values, counts = tensors["noise_multipliers"].tolist(), tensors["noise_multiplier_rounds"].tolist()
        return cls(server, dict(zip(values, counts, strict=True)), **totals)


def _round_figures(z: float, epsilon: float | None, system: System, *, cohort_dependent: bool) -> dict[str, Any]:
    """The paper's claim for a round, if the scheme makes one, and what its own argument gives without approximation."""
    claimed = exact = None
    if epsilon is not None:
        claimed = claimed_figure(z, epsilon, delta=system.delta, devices=system.devices, cohort=system.cohort_size)
    if z > 0:
        exact = exact_figure(
            z, delta=system.delta, devices=system.devices, cohort=system.cohort_size, sampling=system.sampling,
            cohort_dependent=cohort_dependent,
        )  # fmt: skip
    return {"claimed": claimed, "exact_per_round": exact}


def _short(figure: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A figure without its sentences, for a line of the log."""
    keys = ("epsilon", "delta", "adversary", "neighbours", "valid", "participations")
    return None if figure is None else {key: figure[key] for key in keys if key in figure}
