"""The server's figure with its assumptions broken: what other antennas would hear of a run's very rounds, for one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pfels.arrays import DeviceIds, Reals
from pfels.documents.data import DataNote
from pfels.documents.privacy import Assumption, RunPrivacy
from pfels.experiment.forecast import forecast
from pfels.experiment.link import Link
from pfels.privacy.accountant import ServerLedger, blind_server_loss
from pfels.privacy.assumptions import priced_assumptions
from pfels.privacy.events import OWN_NOISE, PrivacyLoss
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.schemes.exposure import added_noise_factor, own_noise_costs, plan_round, relative_strengths
from pfels.schemes.scheme import Scheme, adds_noise
from pfels.uplink.frame import Frame

ANTENNAS = (1, 2, 4, 8)  # for which every run is priced


@dataclass(frozen=True)
class AntennaCosts:
    """μ² of the worst device against a server with each number of antennas, and against an eavesdropper who has one
    antenna; with fading, which other antennas would see differently, the one antenna alone is priced."""

    server: dict[int, float]
    eavesdropper: float | None


def antenna_costs(link: Link, *, rounds: int) -> AntennaCosts | None:
    """What the antennas of a server or an eavesdropper would hear, over the very rounds that these draws give; None
    where nothing goes over the air."""
    ids: list[DeviceIds] = []
    base: list[Reals] = []
    raised: list[Reals] = []
    others: list[Reals] = []
    for t in range(rounds):
        plan = link.scheme.prepare(link.draws, t)
        if plan.air is None:
            return None
        costs = plan.event.server_costs
        ids.append(plan.sending)
        base.append(costs)
        raised.append(costs * added_noise_factor(plan, link.setting))
        if not link.setting.cell.fading.active:
            others.append(relative_strengths(link.draws, t, plan.sending, plan.air.gains, antennas=max(ANTENNAS)))
    _, who = np.unique(np.concatenate(ids), return_inverse=True)
    alone = np.concatenate(base)

    def worst(costs: Reals) -> float:
        return float(np.bincount(who, costs, minlength=1).max())

    if not others:
        return AntennaCosts({1: worst(alone)}, None)
    heard, beside = np.concatenate(raised), np.concatenate(others, axis=1)
    several = {m: worst(heard * (1 + beside[: m - 1].sum(0))) for m in ANTENNAS if m > 1}
    return AntennaCosts({1: worst(alone)} | several, worst(heard * beside[0]))


def with_data_notes(
    figures: RunPrivacy, notes: Sequence[DataNote], ledger: ServerLedger, *, delta: float
) -> RunPrivacy:
    """The figures of a run with what they assume of its data.

    Where a device is not a user, the price of all data of one user joins the assumptions. Without them the data of
    each device that holds some are replaced by others, at 2μ each, and by the triangle inequality these add up at most.
    """
    if not notes:
        return figures
    found: RunPrivacy = {**figures, "data_notes": list(notes)}
    mu_squared = ledger.spent.most.spent
    for note in notes:
        if "devices_per_user" in note and "assumptions" in figures and not math.isinf(mu_squared):
            most = note["devices_per_user"]
            epsilon = gaussian_epsilon(mu=2 * most * math.sqrt(mu_squared), delta=delta)
            name = f"all data of one user emptied, on up to {most} devices"
            found["assumptions"] = [*figures["assumptions"], {"name": name, "epsilon": epsilon}]
    return found


def own_noise_cost(link: Link, *, rounds: int) -> float | None:
    """μ² of the worst device where no other device adds noise; None where devices add none."""
    scheme: Scheme = link.scheme
    if not adds_noise(link.scheme):
        return None
    ids: list[DeviceIds] = []
    costs: list[Reals] = []
    for t in range(rounds):
        plan = plan_round(scheme, link.draws, t)
        ids.append(plan.sending)
        costs.append(own_noise_costs(scheme, plan))
    _, who = np.unique(np.concatenate(ids), return_inverse=True)
    return float(np.bincount(who, np.concatenate(costs), minlength=1).max())


def with_assumptions(
    figures: RunPrivacy, ledger: ServerLedger, link: Link, *, rounds: int, over_air: bool
) -> RunPrivacy:
    """The figures of a run with what each assumption of the server's one costs if it fails. `over_air` is off where a
    digital network carried the rounds."""
    delta, mu_squared = link.setting.delta, ledger.spent.most.spent
    costs = antenna_costs(link, rounds=rounds) if over_air and not math.isinf(mu_squared) else None
    flat = not link.setting.cell.fading.active
    prices = priced_assumptions(mu_squared=mu_squared, delta=delta, over_air=costs is not None, flat=flat)
    alone = None if math.isinf(mu_squared) else own_noise_cost(link, rounds=rounds)
    if alone is not None:
        prices.append({"name": OWN_NOISE, "epsilon": gaussian_epsilon(mu=math.sqrt(alone), delta=delta)})
    found: RunPrivacy = {**figures, "assumptions": prices}
    if costs is not None:
        s = link.setting
        outsider = PrivacyLoss.read(figures["outsider"])
        blind = blind_server_loss(outsider, sampling=s.sampling, on_air=True, antennas=s.cell.antennas)
        found["blind_server"] = blind.as_dict()
        by_antennas = {m: gaussian_epsilon(mu=math.sqrt(cost), delta=delta) for m, cost in costs.server.items()}
        heard: list[Assumption] = [
            {"name": f"the server has {m} antennas", "epsilon": epsilon} for m, epsilon in by_antennas.items() if m > 1
        ]
        if costs.eavesdropper is not None:
            caught = gaussian_epsilon(mu=math.sqrt(costs.eavesdropper), delta=delta)
            heard.append({"name": "an eavesdropper has one antenna", "epsilon": caught})
        found["assumptions"] = [*prices, *heard]
        found["server_by_antennas"] = {str(m): epsilon for m, epsilon in by_antennas.items()}
    return found


def with_the_choice_to_stop(figures: RunPrivacy, link: Link, frame: Frame, *, rounds: int) -> RunPrivacy:
    """The figures of a run that was stopped, with what they become if the choice of when to stop was no public one. A
    choice that follows from what the server sees in any case is covered by the figure of all planned rounds."""
    if figures["server"]["epsilon"] is None:
        return figures
    planned = forecast({"": link}, rounds=rounds, frame=frame)[""].ledger()
    released = planned.server.worst(delta=link.setting.delta).epsilon
    prices: list[Assumption] = [
        {"name": f"when to stop follows from the models, so ε of {rounds} rounds", "epsilon": released},
        {"name": "when to stop follows from devices' data, as train_loss does", "epsilon": None},
    ]
    return {**figures, "assumptions": [*figures.get("assumptions", []), *prices]}
