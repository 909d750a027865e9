"""What a run has used: energy, spectrum, airtime and privacy; one record per round, totals for the run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from pfels.documents.privacy import ClaimedFigure, ExplainedFigure, Figure, RoundPrivacy, RunPrivacy
from pfels.documents.run import LinkTotals, RoundRecord
from pfels.privacy.accountant import ServerLedger, outsider_loss
from pfels.privacy.assumptions import SMALL_DELTA
from pfels.privacy.figures import claimed_figure, exact_figure
from pfels.privacy.spent import Tally
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.setting import Setting


@dataclass(frozen=True)
class Ledger:
    """Running totals. Energies are None for schemes with ideal links, which the paper gives no energy.

    `energy` is Σ‖xᵢ‖² as transmitted; `energy_bound` is what it would be with every update at its norm bound, in
    expectation over the index sets, which is the figure in the paper's tables.
    """

    server: ServerLedger
    noise_multipliers: Tally
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
        return cls(ServerLedger.empty(devices=devices), Tally({}))

    def after(self, plan: RoundPlan, result: RoundResult, *, slots: int) -> Self:
        """The ledger after one more round; this one stays as it is."""
        multipliers = self.noise_multipliers
        # A round in which nobody happened to send is a release all the same: its noise says that nobody did.
        if plan.event.participants or plan.event.noise_multiplier > 0:
            multipliers = multipliers.plus(plan.event.noise_multiplier)
        air = plan.air
        return replace(
            self,
            server=self.server.after(plan.event),
            noise_multipliers=multipliers,
            energy=None if result.energy is None else (self.energy or 0.0) + result.energy,
            energy_bound=None if air is None else (self.energy_bound or 0.0) + math.fsum(air.energy_bounds.tolist()),
            subcarriers=self.subcarriers + plan.subcarriers,
            slots=self.slots + slots,
            silent=self.silent + _silent(plan, result),
            privacy_limited_rounds=self.privacy_limited_rounds + (air is not None and air.limit == "privacy"),
            cohort_dependent=self.cohort_dependent or plan.event.cohort_dependent,
            claimed_epsilon=plan.claimed_epsilon,
        )

    def record(self, plan: RoundPlan, result: RoundResult, setting: Setting) -> RoundRecord:
        """A round as a line of `rounds.jsonl`; this ledger is the one after the round.

        `privacy.server` is the worst device's loss up to and including this round. An outsider's loss is composed over
        the whole run and stands in its summary.
        """
        air, cohort, silent = plan.air, plan.cohort.tolist(), _silent(plan, result)
        beta = air.beta if air is not None and math.isfinite(air.beta) else None
        z, dependent = plan.event.noise_multiplier, plan.event.cohort_dependent
        claimed, exact = _round_figures(z, plan.claimed_epsilon, setting, cohort_dependent=dependent)
        privacy: RoundPrivacy = {
            "claimed": claimed and _short(claimed),
            "exact_per_round": exact and _short(exact),
            "server": self.server.worst(delta=setting.delta).short(),
        }
        record: RoundRecord = {
            "round": plan.round,
            "cohort": cohort,
            "participants": len(cohort) - silent,
            "silent": silent,
            "beta": beta,
            "limit": None if beta is None or air is None else air.limit,
            "noise_multiplier": z if cohort or beta else None,
            "energy": result.energy,
            "energy_bound": math.fsum(air.energy_bounds) if air is not None else None,
            "device_energy": _device_energy(plan, result),
            "subcarriers": plan.subcarriers,
            "train_loss": result.train_loss,
            "test_accuracy": None,
            "test_loss": None,
            "privacy": privacy,
        }
        if plan.echo.fresh is not None:
            record["echoes"] = result.repeated
        if result.replies is not None:
            record["replies"] = result.replies
        if result.lost:
            record["lost"] = True
        return record

    def summary(self, setting: Setting, *, slot_s: float) -> LinkTotals:
        """The totals of a run that ends here."""
        return {
            "energy": self.energy,
            "energy_bound": self.energy_bound,
            "subcarriers": self.subcarriers,
            "airtime_s": self.slots * slot_s,
            "silent": self.silent,
            "privacy_limited_rounds": self.privacy_limited_rounds,
            "privacy": self.privacy(setting),
        }

    def privacy(self, setting: Setting) -> RunPrivacy:
        """Every privacy figure of a run that ends here; figures of one round are of the round with the least noise."""
        minimum = min(self.noise_multipliers, default=0.0)
        claimed, exact = _round_figures(minimum, self.claimed_epsilon, setting, cohort_dependent=self.cohort_dependent)
        worst, distribution = self.server.worst(delta=setting.delta), self.server.distribution(delta=setting.delta)
        small = self.server.worst(delta=SMALL_DELTA)
        outsider = outsider_loss(
            self.noise_multipliers, devices=setting.devices, cohort=setting.cohort_size, sampling=setting.sampling,
            delta=setting.delta, cohort_dependent=self.cohort_dependent, server=worst,
        )  # fmt: skip
        figures: RunPrivacy = {
            "noise_multiplier_min": minimum,
            "claimed_epsilon": claimed and claimed["epsilon"],
            "claimed_valid": claimed and claimed["valid"],
            "claimed": claimed,
            "exact_per_round": exact,
            "server": {**worst.as_dict(), "distribution": distribution, "epsilon_at_1e-5": small.epsilon},
            "outsider": outsider.as_dict(),
        }
        if not setting.audited:
            figures["audited"] = False
        return figures

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of the ledger, for a checkpoint."""
        values, (ids, lost, times) = sorted(self.noise_multipliers), self.server.spent.columns()
        return {
            "server.ids": torch.from_numpy(ids),
            "server.mu_squared": torch.from_numpy(lost),
            "server.participations": torch.from_numpy(times),
            "noise_multipliers": torch.tensor(values, dtype=torch.float64),
            "noise_multiplier_rounds": torch.tensor([self.noise_multipliers[v] for v in values], dtype=torch.int64),
        }

    def totals(self) -> dict[str, float | int | bool | None]:
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
        return cls(server, Tally(dict(zip(values, counts, strict=True))), **totals)


def _silent(plan: RoundPlan, result: RoundResult) -> int:
    """How many of the cohort were not heard."""
    return result.unheard + len(plan.cohort) - len(plan.training)


def _device_energy(plan: RoundPlan, result: RoundResult) -> list[float] | None:
    """The energy of each member of the cohort, in order."""
    if result.device_energy is None:
        return None
    spent = dict(zip(plan.training.tolist(), result.device_energy, strict=True))
    return [spent.get(device, 0.0) for device in plan.cohort.tolist()]


def _round_figures(
    z: float, epsilon: float | None, setting: Setting, *, cohort_dependent: bool
) -> tuple[ClaimedFigure | None, ExplainedFigure | None]:
    """The paper's claim for a round, if the scheme makes one, and what its own argument gives without approximation."""
    claimed = exact = None
    if epsilon is not None:
        claimed = claimed_figure(z, epsilon, delta=setting.delta, devices=setting.devices, cohort=setting.cohort_size)
    if z > 0:
        exact = exact_figure(
            z, delta=setting.delta, devices=setting.devices, cohort=setting.cohort_size, sampling=setting.sampling,
            cohort_dependent=cohort_dependent,
        )  # fmt: skip
    return claimed, exact


def _short(figure: Figure) -> Figure:
    """A figure without its sentences, for a line of the log."""
    short: Figure = {
        "epsilon": figure["epsilon"],
        "delta": figure["delta"],
        "adversary": figure["adversary"],
        "neighbours": figure["neighbours"],
        "valid": figure["valid"],
    }
    if "participations" in figure:
        short["participations"] = figure["participations"]
    return short
