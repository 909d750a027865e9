"""The four privacy figures side by side: what the paper claims, what that is exactly, and what holds against whom."""

from pfels.documents.privacy import AssumedServerFigure, ClaimedFigure, ExplainedFigure, PrivacyFigures
from pfels.errors import InputError
from pfels.privacy import checks, claim
from pfels.privacy.accountant import COHORT_DEPENDENT, exact_per_round, outsider_loss, server_loss
from pfels.privacy.events import Adversary, Neighbours, PrivacyLoss, Sampling, turns_per_device
from pfels.privacy.gaussian import mu_squared


def figures(
    *,
    devices: int,
    cohort: int,
    delta: float,
    rounds: int,
    noise_multiplier: float | None = None,
    claimed_epsilon: float | None = None,
    sampling: Sampling = Sampling.WITHOUT_REPLACEMENT,
    participations: int | None = None,
    server_noise_multiplier: float | None = None,
    cohort_dependent: bool = False,
) -> PrivacyFigures:
    """Every figure of a training whose rounds all have one noise multiplier, ready for JSON.

    Give either the noise multiplier or the ε that the paper claims for a round. `participations` is how often the
    device in question takes part; left out, it is every round, which is the only number that is certain in advance,
    unless devices take turns.
    `server_noise_multiplier` is given where the server sees more than the sum (see RoundEvent).
    """
    checks.require_count("rounds", rounds)
    checks.require_cohort(devices=devices, cohort=cohort)
    checks.require_delta(delta)
    if (noise_multiplier is None) == (claimed_epsilon is None):
        raise InputError("noise_multiplier, claimed_epsilon: give one of the two")
    if claimed_epsilon is not None:
        z = claim.claimed_noise_multiplier(epsilon=claimed_epsilon, delta=delta, devices=devices, cohort=cohort)
    else:
        assert noise_multiplier is not None
        z = noise_multiplier
    checks.require_noise_multiplier("noise_multiplier", z)
    seen = z if server_noise_multiplier is None else server_noise_multiplier
    checks.require_noise_multiplier("server_noise_multiplier", seen)
    if sampling is Sampling.TURNS and participations is None:
        participations = turns_per_device(devices=devices, cohort=cohort, rounds=rounds)
    times = rounds if participations is None else participations
    outsider = outsider_loss(
        {z: rounds}, devices=devices, cohort=cohort, sampling=sampling, delta=delta, cohort_dependent=cohort_dependent,
        server=server_loss(mu_squared=mu_squared(seen, times=times), participations=times, delta=delta),
    )  # fmt: skip
    return {
        "noise_multiplier": z,
        "claimed": claimed_figure(z, claimed_epsilon, delta=delta, devices=devices, cohort=cohort),
        "exact_per_round": exact_figure(
            z, delta=delta, devices=devices, cohort=cohort, sampling=sampling, cohort_dependent=cohort_dependent
        ),
        "server": _server(
            seen, delta=delta, rounds=rounds, participations=participations, expected=rounds * cohort / devices
        ),
        "outsider": outsider.as_dict(),
    }


def claimed_figure(z: float, epsilon: float | None, *, delta: float, devices: int, cohort: int) -> ClaimedFigure:
    """What the paper claims for a round, and whether its proof covers it; without ε, what its formula gives for z."""
    below = claim.claim_valid_below(devices=devices, cohort=cohort)
    figure: ClaimedFigure = {
        "epsilon": epsilon,
        "delta": delta,
        "adversary": Adversary.SERVER.value,
        "neighbours": Neighbours.ADD_REMOVE.value,
        "valid": False,
        "valid_below": below,
        "why": "",
    }
    if epsilon is None:
        try:
            epsilon = claim.claimed_epsilon(noise_multiplier=z, delta=delta, devices=devices, cohort=cohort)
        except InputError as error:
            return {**figure, "why": f"the paper's formula gives nothing here: {error}"}
    valid = claim.claim_is_valid(epsilon=epsilon, delta=delta, devices=devices, cohort=cohort)
    if valid:
        why = f"one round only, in the range of the proof, ε < 2r/N = {below:g}, where nobody knows who was drawn"
    elif epsilon >= below:
        why = f"the paper's proof needs ε < 2r/N = {below:g}"
    else:
        why = f"the paper's proof needs δ < r/N = {cohort / devices:g}"
    return {**figure, "epsilon": epsilon, "valid": valid, "why": why}


def exact_figure(
    z: float, *, delta: float, devices: int, cohort: int, sampling: Sampling, cohort_dependent: bool
) -> ExplainedFigure:
    """What the paper's own argument gives for a round with noise multiplier z when nothing is approximated."""
    # For whom it can hold: amplification needs an adversary who does not know the cohort, add-remove needs a cohort
    # whose other members stay as they are.
    holds = sampling is Sampling.POISSON and not cohort_dependent
    why = "the paper's sensitivity and amplification without its approximations, for one round"
    if cohort_dependent:
        why += f"; not a guarantee: {COHORT_DEPENDENT}"
    elif sampling is Sampling.TURNS:
        why += "; not a guarantee: devices send in turns, so no sampling hides anybody"
    elif not holds:
        why += "; not a guarantee: whoever is drawn in place of a removed device moves the sum as well"
    loss = PrivacyLoss(
        adversary=Adversary.OUTSIDER,
        neighbours=Neighbours.ADD_REMOVE,
        delta=delta,
        epsilon=exact_per_round(noise_multiplier=z, delta=delta, devices=devices, cohort=cohort),
        accountant="gaussian",
        why=why,
    )
    return {**loss.as_dict(), "valid": holds}


def _server(z: float, *, delta: float, rounds: int, participations: int | None, expected: float) -> AssumedServerFigure:
    times = rounds if participations is None else participations
    checks.require_count("participations", times, minimum=0, maximum=rounds)
    worst = server_loss(mu_squared=mu_squared(z, times=times), participations=times, delta=delta)
    typical = max(1, round(expected))
    usual = server_loss(mu_squared=mu_squared(z, times=typical), participations=typical, delta=delta)
    assumed = f"a device that takes part in {times} of {rounds} rounds"
    if participations is None:
        assumed = f"a device that takes part in all {rounds} rounds, since no smaller number is certain in advance"
    return {
        **worst.as_dict(),
        "why": f"{assumed}: {worst.why}",
        "typical": {"participations": typical, "epsilon": usual.epsilon, "display": usual.display},
    }
