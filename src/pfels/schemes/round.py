"""One round, played: devices train and send, the channel adds them up, and the server makes of it what it can."""

from pfels.runtime.lazy_torch import Tensor, torch
from pfels.schemes.plan import Link, Tally
from pfels.schemes.scheme import Scheme
from pfels.schemes.system import System


def play(scheme: Scheme, system: System, link: Link, theta: Tensor, tally: Tally) -> Tensor:
    """The server's estimate of the cohort's mean update."""
    t = link.round
    A = scheme.indices(system, theta, t)
    y = listen(system, link)
    for part in system.local_updates(theta, t, link.sending, tally):
        x = scheme.send(system, link, part, A, tally)
        y += link.arriving(x, part.places)
        if link.air is not None:
            tally.sent(x)
    if system.error_feedback:
        for part in system.local_updates(theta, t, link.waiting, Tally()):  # they send nothing, so nothing is counted
            scheme.hold(system, link, part, tally)
    return scheme.receive(system, link, system.superposed(y), A)


def listen(system: System, link: Link) -> Tensor:
    """What the server has received before anyone sends: the receiver's noise, or nothing on ideal links."""
    if link.air is None:
        return torch.zeros(system.dimension, device=system.ranks.device)
    return system.receiver_noise(link.round, link.subcarriers)
