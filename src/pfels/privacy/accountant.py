"""What rounds cost a device in privacy, and against whom: events in, figures out."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pfels.arrays import DeviceIds, Reals
from pfels.documents.privacy import Distribution, ExplainedFigure
from pfels.errors import InputError
from pfels.privacy import checks
from pfels.privacy.events import Adversary, Neighbours, PrivacyLoss, RoundEvent, Sampling
from pfels.privacy.gaussian import amplified, gaussian_epsilon, gaussian_mu
from pfels.privacy.outsider import Rounds, fixed_size_epsilon, poisson_epsilon
from pfels.privacy.spent import Columns, Spent

NO_NOISE = "no noise hides the updates"

COHORT_DEPENDENT = (
    "the noise level depends on who was drawn, so it reveals who took part and rules out amplification by sampling; "
    "the server's figure holds against an outsider too"
)

IN_TURNS = (
    "devices send in turns, so no sampling hides anybody: no amplification; an outsider sees less than the server, "
    "whose figure this is"
)


def exact_per_round(*, noise_multiplier: float, delta: float, devices: int, cohort: int) -> float:
    """ε of one round with the paper's sensitivity and amplification, but without its two approximations.

    The Gaussian mechanism is (ε₀, δ₀ = δN/r) by its exact δ(ε), and sampling makes it log(1 + (r/N)(e^ε₀ − 1)) (Thm 2).
    """
    checks.require_noise_multiplier("noise_multiplier", noise_multiplier)
    checks.require_delta(delta)
    checks.require_cohort(devices=devices, cohort=cohort)
    rate = cohort / devices
    if delta >= rate:  # a device is not even drawn with probability 1 − r/N ≥ 1 − δ
        return 0.0
    return amplified(epsilon=gaussian_epsilon(mu=1 / noise_multiplier, delta=delta / rate), rate=rate)


def server_loss(*, mu_squared: float, participations: int, delta: float) -> PrivacyLoss:
    """What the server learns of a device that is μ-GDP over all the rounds in which it took part. Neighbours: zero-out,
    the device sends a zero vector in all of them."""
    epsilon = None if math.isinf(mu_squared) else gaussian_epsilon(mu=math.sqrt(mu_squared), delta=delta)
    return PrivacyLoss(
        adversary=Adversary.SERVER,
        neighbours=Neighbours.DEVICE_EMPTIED,
        delta=delta,
        epsilon=epsilon,
        accountant="gaussian",
        participations=participations,
        why=NO_NOISE
        if epsilon is None
        else "exact Gaussian composition over the rounds the device took part in; no amplification, as the server "
        "knows who was drawn",
    )


def at_another_delta(figure: ExplainedFigure, *, delta: float) -> ExplainedFigure:
    """The server's figure at another δ: its ε and δ tell μ, and μ tells every other pair."""
    epsilon, times, mu = figure["epsilon"], figure.get("participations", 0), math.inf
    if epsilon is not None:
        mu = gaussian_mu(epsilon=max(epsilon, 1e-9), delta=figure["delta"])  # several μ have ε = 0: the largest of them
    return server_loss(mu_squared=(mu * (1 + 1e-12)) ** 2, participations=times, delta=delta).as_dict()


@dataclass(frozen=True, eq=False, init=False)
class ServerLedger:
    """What every device has lost to the server so far: μₑ² = Σ wₜ²/zₜ² over the rounds it took part in, with w = 1
    unless the event says otherwise.

    Holds only those who ever took part. Three arrays in rising order of id are how to store it:
    ServerLedger(devices=…, ids=…, mu_squared=…, participations=…) restores it.
    """

    devices: int
    spent: Spent

    def __init__(self, devices: int, ids: DeviceIds, mu_squared: Reals, participations: NDArray[np.int64]) -> None:
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "spent", Spent.of(Columns(ids, mu_squared, participations)))

    @classmethod
    def empty(cls, *, devices: int) -> Self:
        """The ledger before the first round."""
        checks.require_count("devices", devices)
        return cls(devices, np.empty(0, np.int64), np.empty(0), np.empty(0, np.int64))

    @property
    def ids(self) -> DeviceIds:
        """Who ever took part, in rising order."""
        return self.spent.columns().ids

    @property
    def mu_squared(self) -> Reals:
        """What each of them has lost."""
        return self.spent.columns().sums

    @property
    def participations(self) -> NDArray[np.int64]:
        """How often each of them took part."""
        return self.spent.columns().counts

    def after(self, event: RoundEvent) -> Self:
        """The ledger after one more round; this one stays as it is."""
        if event.devices != self.devices:
            raise InputError(f"devices = {event.devices}: the ledger is of {self.devices}")
        ledger = object.__new__(type(self))
        object.__setattr__(ledger, "devices", self.devices)
        spent = self.spent.after(np.array(event.participants, np.int64), event.server_costs)
        object.__setattr__(ledger, "spent", spent)
        return ledger

    def worst(self, *, delta: float) -> PrivacyLoss:
        """The figure of the device that lost most."""
        checks.require_delta(delta)
        most = self.spent.most
        return server_loss(mu_squared=most.spent, participations=most.times, delta=delta)

    def distribution(self, *, delta: float) -> Distribution:
        """Minimum, median, 90 % quantile and maximum of ε over the devices that took part, and the share that did not.

        A quantile is the ε of a device that is really there; None is a device without any noise.
        """
        checks.require_delta(delta)
        ids, lost, _ = self.spent.columns()

        def quantile(share: float) -> float | None:
            if not len(ids):
                return 0.0
            at = float(np.quantile(lost, share, method="inverted_cdf"))
            return server_loss(mu_squared=at, participations=0, delta=delta).epsilon

        return {
            "min": quantile(0.0),
            "median": quantile(0.5),
            "p90": quantile(0.9),
            "max": quantile(1.0),
            "never_took_part": 1 - len(ids) / self.devices,
        }


def neighbours_for(*, adversary: Adversary, sampling: Sampling) -> Neighbours:
    """The one relation for which a figure against this adversary is known."""
    if adversary is Adversary.SERVER or sampling is Sampling.TURNS:
        return Neighbours.DEVICE_EMPTIED
    return Neighbours.ADD_REMOVE if sampling is Sampling.POISSON else Neighbours.REPLACE_ONE


def outsider_loss(
    rounds: Rounds,
    *,
    devices: int,
    cohort: int,
    sampling: Sampling,
    delta: float,
    cohort_dependent: bool = False,
    server: PrivacyLoss | None = None,
) -> PrivacyLoss:
    """What `rounds` (how many had each noise multiplier) tell someone who sees only the models.

    ε is None where it would have to be infinite, or where the noise level depends on who was drawn. In turns nothing
    is amplified, and it is the figure against the `server`.
    """
    checks.require_delta(delta)
    checks.require_cohort(devices=devices, cohort=cohort)
    epsilon, accountant = None, "none"
    if sampling is Sampling.TURNS:
        if server is None:
            raise InputError("server: in turns an outsider's figure is the server's, which must be given")
        return replace(server, adversary=Adversary.OUTSIDER, why=NO_NOISE if server.epsilon is None else IN_TURNS)
    if cohort_dependent:
        why = COHORT_DEPENDENT
    elif 0 in rounds:
        why = NO_NOISE
    elif not rounds:
        epsilon, why = 0.0, "nothing was released"
    elif sampling is Sampling.POISSON:
        epsilon, accountant = poisson_epsilon(rounds, devices=devices, cohort=cohort, delta=delta)
        why = f"Poisson sampling at rate {cohort}/{devices}, hidden from the outsider"
    else:
        epsilon, accountant = fixed_size_epsilon(rounds, devices=devices, cohort=cohort, delta=delta)
        why = (
            f"sampling of exactly {cohort} of {devices} devices, hidden from the outsider; a replaced device moves the "
            "sum by twice the norm bound"
        )
    relation = neighbours_for(adversary=Adversary.OUTSIDER, sampling=sampling)
    return PrivacyLoss(Adversary.OUTSIDER, relation, delta, epsilon, accountant, why)


def blind_server_loss(outsider: PrivacyLoss, *, sampling: Sampling, on_air: bool, antennas: int) -> PrivacyLoss:
    """What rounds tell a server that does not learn who sends, from the figure against an outsider.

    The outsider's proof is about the law of the received sums y, which are all that a blind server sees; so the figure
    is the same. It needs what hides a sender in y: a coin of its own, a level and a divisor that depend on nobody, a
    common channel, and a single antenna, since several would tell senders apart by where they are.
    """
    loss = replace(outsider, adversary=Adversary.BLIND_SERVER)
    why = ""
    if not on_air:
        why = "without a common channel the server sees who sends"
    elif antennas > 1:
        why = "a server with several antennas can tell senders apart by their channels, so it is not blind"
    elif outsider.epsilon is not None and sampling is Sampling.WITHOUT_REPLACEMENT:
        why = "a cohort of fixed size is drawn by somebody who knows it; devices must flip coins of their own"
    if why:
        return replace(loss, epsilon=None, accountant="none", why=why)
    if outsider.epsilon is None or sampling is Sampling.TURNS:
        return loss
    return replace(loss, why="Poisson sampling by the devices' own coins, hidden in the received sums")


def price(
    events: Iterable[RoundEvent], *, adversary: Adversary, delta: float, neighbours: Neighbours | None = None
) -> PrivacyLoss:
    """What a run's rounds cost: against the server the worst device's figure, against an outsider everyone's.

    `neighbours` may be left out: there is one relation for each adversary and sampling. Asking for another raises.
    """
    events = list(events)
    kinds = {(event.devices, event.cohort_size, event.sampling) for event in events}
    if len(kinds) != 1:
        raise InputError(f"events of {len(kinds)} kinds: the rounds of a run share devices, cohort size and sampling")
    ((devices, cohort, sampling),) = kinds
    known = neighbours_for(adversary=adversary, sampling=sampling)
    if neighbours not in (None, known):
        raise InputError(f"{adversary} with {neighbours} neighbours and {sampling} sampling: the known one is {known}")
    ledger = ServerLedger.empty(devices=devices)
    for event in events:
        ledger = ledger.after(event)
    server = ledger.worst(delta=delta)
    if adversary is Adversary.SERVER:
        return server
    if adversary is Adversary.BLIND_SERVER:
        raise InputError("adversary: events do not say what a blind server may know; ask for server or outsider")
    return outsider_loss(
        Counter(event.noise_multiplier for event in events),
        devices=devices,
        cohort=cohort,
        sampling=sampling,
        delta=delta,
        cohort_dependent=any(event.cohort_dependent for event in events),
        server=server,
    )
