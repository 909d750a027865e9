"""What the channel does that devices did not plan: gain errors, and antennas that they do not aim at.

A device scales what it sends by β/|ĥ|, with ĥ the gain to the server's first antenna as it knows it. Another antenna,
with gain hₘ, hears it |hₘ|²/|ĥ|² times as well, and a server that combines all of them has the sum of their
signal-to-noise ratios. Against it a transmission costs μ² = (w/z)²·Σₘ|hₘ|²/|ĥ|², where z has the margin for gain errors
in it already.
"""

from dataclasses import replace

import numpy as np

from pfels.arrays import DeviceIds, Gains, Reals
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.scheme import Scheme, adds_noise
from pfels.schemes.setting import Setting


def exposures(draws: Draws, t: int, devices: DeviceIds) -> Reals:
    """By how much the server's other antennas raise what a transmission of round t costs each of these devices."""
    s = draws.setting
    if s.cell.antennas == 1:
        return np.ones(len(devices))
    beside = relative_strengths(draws, t, devices, draws.gains(t, devices), antennas=s.cell.antennas)
    heard: Reals = 1 + beside.sum(0)
    return heard


def relative_strengths(draws: Draws, t: int, devices: DeviceIds, gains: Gains, *, antennas: int) -> Reals:
    """|hₘ|²/(m|ĥ|)² of each device, whose gains are given, at each antenna other than the first in round t, with m the
    margin for gain errors: what that antenna hears of it over what is priced for the first. One row per antenna."""
    known = np.abs(gains) * draws.setting.cell.margin
    strengths: Reals = (draws.other_strengths(t, devices, antennas=antennas) / known) ** 2
    return strengths


def added_noise_factor(plan: RoundPlan, setting: Setting) -> float:
    """By how much a round costs more where the noise that devices add is granted to the server: several antennas may
    cancel it, since it comes from other places than the signal. 1 where devices add none."""
    arriving = plan.require_air().noise_std(setting.noise_std, width=plan.subcarriers, margin=setting.cell.margin)
    return (arriving / setting.noise_std) ** 2


def own_noise_costs(scheme: Scheme, plan: RoundPlan) -> Reals:
    """μ² that a round costs each sender where no other device adds noise: its own and the receiver's protect it."""
    s, costs, air = scheme.setting, plan.event.server_costs, plan.air
    if air is None:
        if not adds_noise(scheme):
            return costs
        own = np.array([scheme.noise_std(plan, device) for device in plan.sending.tolist()])
        with np.errstate(divide="ignore"):
            return np.maximum(costs, (s.bound / own) ** 2)
    if air.added is None or plan.event.exposures is not None:  # several antennas are granted all noise of devices
        return costs
    width, margin = plan.subcarriers, s.cell.margin
    own = (np.abs(air.gains) / margin) ** 2 * air.added / width
    everyone = air.noise_std(s.noise_std, width=width, margin=margin) ** 2
    alone: Reals = costs * everyone / (s.noise_std**2 + own)
    return alone


def plan_round(scheme: Scheme, draws: Draws, t: int) -> RoundPlan:
    """The scheme's plan of round t, with what the channel does: the true gains, and what all antennas hear."""
    plan, s = scheme.prepare(draws, t), draws.setting
    air = plan.air
    if air is None:
        return plan
    spectrum, errors, event = draws.spectrum(t, plan.sending), draws.gain_errors(t, plan.sending), plan.event
    if s.cell.antennas == 1 and spectrum is None and errors is None:
        return plan
    if s.cell.antennas > 1:
        heard = added_noise_factor(plan, s) * exposures(draws, t, plan.sending)
        event = replace(event, exposures=tuple(heard.tolist()))
    air = replace(air, errors=errors, spectrum=spectrum)
    return replace(plan, air=air, event=event)
