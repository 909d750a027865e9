"""One round: devices train and send, the channel adds up their signals, and the server makes its estimate."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pfels.arrays import DeviceIds
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.draws import Draws
from pfels.schemes.memory import Kept, Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.repeat import repeat
from pfels.schemes.scheme import Scheme, adds_noise, decodes, keeps_unsent, remembers
from pfels.training.updates import LocalUpdates
from pfels.uplink.clipping import check_sensitivity, norms, silence_non_finite
from pfels.uplink.power import energy

if TYPE_CHECKING:
    from pfels.training.local import LocalTraining

ALONE = Ranks()
AddNoise = Callable[[Tensor, float], None]  # to a row, in place, with this standard deviation


@dataclass
class ServerView:
    """What the server sees of a round: the received sum, and on ideal links the uploads of which it is the sum, in
    cohort order. Where devices add noise over the air, `uploads` are what they transmit, for those who study it."""

    received: Tensor | None = None
    uploads: list[Tensor] = field(default_factory=list)


def play(
    scheme: Scheme,
    draws: Draws,
    plan: RoundPlan,
    theta: Tensor,
    training: "LocalTraining",
    *,
    memory: Memory,
    ranks: Ranks = ALONE,
    view: ServerView | None = None,
) -> RoundResult:
    """Simulate a round on this process, or on all ranks that share the run, from the model θ.

    `memory` is what devices and server kept from earlier rounds. `view` is filled with what the server sees.
    """
    t, kept = plan.round, dict[int, Kept]()
    losses: list[float] = []
    energies: list[float] = []
    unheard = 0
    A = scheme.indices(draws, theta, t)
    y = listen(draws, plan, A, ranks)
    for places, sent, heard in sent_chunks(scheme, draws, plan, theta, training, A, memory=memory, ranks=ranks):
        losses += heard
        unheard += places.stop - places.start - len(heard)
        y += plan.arriving(sent.signals, places)
        if view is not None and (plan.air is None or plan.air.added is not None):
            view.uploads.append(sent.signals.clone())
        kept |= sent.kept
        energies += sent.energies
    if keeps_unsent(scheme):
        for part, _ in local_updates(training, draws, theta, t, plan.waiting, ranks=ranks):
            kept |= _rows(plan, plan.waiting, part, scheme.keep(plan, part, memory))
    again = repeat(plan, memory, y, ranks=ranks)
    losses, energies, again = ranks.gather(losses), ranks.gather(energies), ranks.gather(again)
    y, decoded = ranks.all_reduce(y), None
    if view is not None:
        view.received = y.clone()
    if plan.air is not None and plan.air.used_share < 1:
        y = y / plan.air.used_share
    if decodes(scheme):
        y = decoded = scheme.decode(plan, y, memory.decoded)
    return RoundResult(
        estimate=scheme.receive(plan, y, A),
        train_loss=_mean(losses),
        unheard=int(sum(ranks.gather([float(unheard)]))),
        energy=None if plan.air is None else math.fsum([*energies, *again]),
        device_energy=None if plan.air is None else tuple(energies),
        repeated=len(again),
        kept=_gathered(kept, ranks, like=y),
        decoded=decoded,
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


def sent_chunks(  # noqa: PLR0917
    scheme: Scheme,
    draws: Draws,
    plan: RoundPlan,
    theta: Tensor,
    training: "LocalTraining",
    A: Tensor | None,
    *,
    memory: Memory,
    ranks: Ranks,
) -> Iterator[tuple[slice, "Transmissions", list[float]]]:
    """What the devices of this rank's share send, trained and clipped on several cores at once: chunk by chunk, with
    the places of its senders and the training losses of those whose update is finite. A chunk is valid until the next
    one is asked for, and one that was cut for several cores is whole again, so that cutting it changes no sum."""
    mine, t = ranks.share(len(plan.training)), plan.round
    ends = {mine.start + chunk.stop for chunk in training.chunks(mine.stop - mine.start)}

    def send(part: LocalUpdates) -> tuple[slice, Transmissions, list[float]]:
        part = part.behind(mine.start)
        finite = silence_non_finite(part.updates)
        sent = transmissions(scheme, draws, plan, part, A, memory=memory)
        if part.places.stop not in ends:  # kept until the rest of its chunk is there
            sent = sent._replace(signals=sent.signals.clone())
        return part.places, sent, part.losses[finite.cpu().numpy()].tolist()

    pieces: list[tuple[slice, Transmissions, list[float]]] = []
    for piece in training.map(theta, plan.training[mine].tolist(), lambda device: draws.batch_order(t, device), send):
        pieces.append(piece)
        if piece[0].stop in ends:
            yield _joined(pieces)
            pieces = []


def _joined(pieces: list[tuple[slice, "Transmissions", list[float]]]) -> tuple[slice, "Transmissions", list[float]]:
    if len(pieces) == 1:
        return pieces[0]
    places, sent, losses = zip(*pieces, strict=True)
    kept = {device: row for each in sent for device, row in each.kept.items()}
    whole = Transmissions(torch.cat([each.signals for each in sent]), kept, [e for each in sent for e in each.energies])
    return slice(places[0].start, places[-1].stop), whole, [loss for each in losses for loss in each]


class Transmissions(NamedTuple):
    """The signals of some senders, one row per device, what each device keeps, and the energy of each over the air."""

    signals: Tensor
    kept: dict[int, Kept]
    energies: list[float]


def transmissions(
    scheme: Scheme,
    draws: Draws,
    plan: RoundPlan,
    part: LocalUpdates,
    A: Tensor | None,
    *,
    memory: Memory,
    add_noise: AddNoise | None = None,
) -> Transmissions:
    """On the senders: what the scheme sends, with the devices' noise where they add some.

    Nothing longer than its norm bound is let through, whatever the scheme does: every privacy figure rests on that.
    `add_noise` adds a device's noise; by default it is drawn from the seed.
    """
    kept: dict[int, Kept] = {}
    energies: list[float] = []
    if remembers(scheme):
        x, rows = scheme.send_and_keep(plan, part, A, memory)
        if plan.echo.used_until is not None:  # what is repeated leaves the amplifier as it did at first
            rows = draws.setting.cell.amplified(rows)
        kept = _rows(plan, plan.sending, part, rows)
    else:
        x = scheme.send(plan, part, A)
    if plan.air is not None:
        x = draws.setting.cell.amplified(x)
        spent = plan.check_signals(x, part.places)
    elif plan.event.noise_multiplier > 0:
        check_sensitivity(x, bound=scheme.setting.bound)
    if adds_noise(scheme):
        for row, device in zip(x, plan.sending[part.places].tolist(), strict=True):
            std = scheme.noise_std(plan, device)
            if add_noise is None:
                row.add_(draws.device_noise(plan.round, device, width=len(row), std=std))
            else:
                add_noise(row, std)
    if plan.air is not None:
        energies = (spent if plan.air.added is None else energy(x)).tolist()
    return Transmissions(x, kept, energies)


def _rows(plan: RoundPlan, devices: DeviceIds, part: LocalUpdates, rows: Tensor) -> dict[int, Kept]:
    """What devices keep; the norms only where the vectors will be sent again."""
    ids = devices[part.places].tolist()
    lengths = [0.0] * len(ids) if plan.echo.used_until is None else norms(rows).tolist()
    return {
        device: Kept(row.clone(), norm, plan.echo.used_until)
        for device, row, norm in zip(ids, rows, lengths, strict=True)
    }


def _gathered(kept: dict[int, Kept], ranks: Ranks, *, like: Tensor) -> dict[int, Kept]:
    """What the devices of all ranks keep."""
    if ranks.size == 1:
        return kept
    ends = [-1 if each.used_until is None else each.used_until for each in kept.values()]
    sizes, lengths = [len(each.row) for each in kept.values()], [each.norm for each in kept.values()]
    everywhere = zip(*(ranks.gather(list(map(float, own))) for own in (kept, sizes, lengths, ends)), strict=True)
    found = {}
    for device, size, norm, end in everywhere:
        own = kept.get(int(device))
        row = like.new_zeros(int(size)) if own is None else own.row.clone()
        found[int(device)] = Kept(ranks.all_reduce(row), norm, None if end < 0 else int(end))
    return found


def _mean(losses: list[float]) -> float | None:
    """The mean training loss over the devices that sent something finite; None where it is not finite itself."""
    if not losses or not all(map(math.isfinite, losses)):
        return None
    return math.fsum(losses) / len(losses)
