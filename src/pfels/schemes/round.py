"""One round: devices train and send, the channel adds up their signals, and the server makes its estimate."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pfels.arrays import DeviceIds
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.draws import Draws
from pfels.schemes.plan import Memory, RoundPlan, RoundResult
from pfels.schemes.scheme import Scheme, adds_noise, remembers
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import check_sensitivity, silence_non_finite
from pfels.uplink.power import check_signals, energy

if TYPE_CHECKING:
    from pfels.training.local import LocalTraining

ALONE = Ranks()


def play(
    scheme: Scheme,
    draws: Draws,
    plan: RoundPlan,
    theta: Tensor,
    training: "LocalTraining",
    *,
    memory: Memory,
    ranks: Ranks = ALONE,
) -> RoundResult:
    """Simulate a round on this process, or on all ranks that share the run, from the model θ.

    `memory` is what devices kept from earlier rounds.
    """
    t, kept = plan.round, dict[int, Tensor]()
    losses: list[float] = []
    energies: list[float] = []
    unheard = 0
    A = scheme.indices(draws, theta, t)
    y = listen(draws, plan, A, ranks)
    for part, finite in local_updates(training, draws, theta, t, plan.sending, ranks=ranks):
        losses += part.losses[finite.cpu().numpy()].tolist()
        unheard += int((~finite).sum())
        sent = transmissions(scheme, draws, plan, part, A, memory=memory)
        y += plan.arriving(sent.signals, part.places)
        kept |= sent.kept
        energies += sent.energies
    if remembers(scheme):
        for part, _ in local_updates(training, draws, theta, t, plan.waiting, ranks=ranks):
            kept |= _rows(plan.waiting, part, scheme.keep(plan, part, memory))
    estimate = scheme.receive(plan, ranks.all_reduce(y), A)
    losses, energies = ranks.gather(losses), ranks.gather(energies)
    return RoundResult(
        estimate=estimate,
        train_loss=_mean(losses),
        unheard=int(sum(ranks.gather([float(unheard)]))),
        energy=None if plan.air is None else math.fsum(energies),
        device_energy=None if plan.air is None else tuple(energies),
        kept=_gathered(kept, ranks, like=theta),
    )


def listen(draws: Draws, plan: RoundPlan, A: Tensor | None, ranks: Ranks = ALONE) -> Tensor:
    """What the server has received before anyone sends: the receiver's noise, or nothing on ideal links.

    There is one receiver, on the leading rank.
    """
    width = draws.setting.dimension if A is None else len(A)
    if plan.air is None or not ranks.leads:
        return torch.zeros(width, device=draws.device)
    return draws.receiver_noise(plan.round, width)


def local_updates(
    training: "LocalTraining", draws: Draws, theta: Tensor, t: int, devices: DeviceIds, *, ranks: Ranks = ALONE
) -> Iterator[tuple[LocalUpdates, Tensor]]:
    """What each device of this rank's share learns from θ in round t, in chunks in cohort order, and which updates
    are finite: a diverged device's update is zero."""
    mine = ranks.share(len(devices))
    for part in training.cohort(theta, devices[mine].tolist(), lambda device: draws.batch_order(t, device)):
        finite = silence_non_finite(part.updates)
        yield part.behind(mine.start), finite


class Transmissions(NamedTuple):
    """The signals of some senders, one row per device, what each device keeps, and the energy of each over the air."""

    signals: Tensor
    kept: dict[int, Tensor]
    energies: list[float]


def transmissions(
    scheme: Scheme, draws: Draws, plan: RoundPlan, part: LocalUpdates, A: Tensor | None, *, memory: Memory
) -> Transmissions:
    """On the senders: what the scheme sends, with the devices' noise where they add some.

    Nothing longer than its norm bound is let through, whatever the scheme does: every privacy figure rests on that.
    """
    kept: dict[int, Tensor] = {}
    energies: list[float] = []
    if remembers(scheme):
        x, rows = scheme.send_and_keep(plan, part, A, memory)
        kept = _rows(plan.sending, part, rows)
    else:
        x = scheme.send(plan, part, A)
    if plan.air is not None:
        spent = energy(x)
        check_signals(spent, plan.air.gains[part.places], beta=plan.air.beta, bound=plan.air.bound)
        energies = spent.tolist()
    elif plan.event.noise_multiplier > 0:
        check_sensitivity(x, bound=scheme.setting.bound)
    if adds_noise(scheme):
        for row, device in zip(x, plan.sending[part.places].tolist(), strict=True):
            row.add_(scheme.noise(draws, plan, device))
    return Transmissions(x, kept, energies)


def _rows(devices: DeviceIds, part: LocalUpdates, rows: Tensor) -> dict[int, Tensor]:
    return {device: row.clone() for device, row in zip(devices[part.places].tolist(), rows, strict=True)}


def _gathered(kept: dict[int, Tensor], ranks: Ranks, *, like: Tensor) -> dict[int, Tensor]:
    """What the devices of all ranks keep."""
    if ranks.size == 1:
        return kept
    nothing = torch.zeros_like(like)
    everywhere = map(int, ranks.gather([float(device) for device in kept]))
    return {device: ranks.all_reduce(kept.get(device, nothing).clone()) for device in everywhere}


def _mean(losses: list[float]) -> float | None:
    """The mean training loss over the devices that sent something finite; None where it is not finite itself."""
    if not losses or not all(map(math.isfinite, losses)):
        return None
    return math.fsum(losses) / len(losses)
