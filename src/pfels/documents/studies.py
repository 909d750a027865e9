"""Documents about many runs, or about none: `compare`, `sweep`, `plan`."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.privacy import ExplainedFigure, RunPrivacy
from pfels.documents.radio import RadioPlan, RadioUnits


class Spread(TypedDict):
    """A figure over several seeds."""

    mean: float  # mean
    std: float | None  # sample standard deviation; null: one seed
    standard_error: float | None  # of the mean, which is what stands behind ±; null: one seed


class Tuned(TypedDict):
    """The settings chosen for a scheme out of a common grid."""

    settings: dict[str, object]  # the chosen values of the settings that the scheme uses
    trials: int  # how many combinations were tried
    at_edge: list[str]  # settings whose chosen value is the smallest or largest tried
    accuracy: float  # mean over the tuning seeds
    seeds: list[int]  # the tuning seeds
    epsilon_on_same_data: NotRequired[float | None]  # server ε had they been chosen on the private data; null: none


class BySeed(TypedDict):
    """The value of each seed, in the order of `seeds`."""

    accuracy: list[float]  # test accuracy
    loss: list[float | None]  # test loss; null: not finite
    energy: list[float | None]  # Σ‖x‖² in units of σ₀²; null: ideal links


class AggregateRow(TypedDict):
    """Runs that differ in their seed alone."""

    seeds: list[int]  # the seeds
    by_seed: BySeed  # the value of each; only in the JSON
    rounds: int  # T
    dimension: int  # d
    accuracy: Spread  # test accuracy
    loss: Spread | None  # test loss; null: not finite for some seed
    energy: Spread | None  # Σ‖x‖² in units of σ₀²; null: ideal links
    subcarriers: float  # channel uses, mean over the seeds
    airtime_s: float  # seconds on the air, mean over the seeds
    privacy: RunPrivacy  # the worst figure of each kind over the seeds
    on_budget: NotRequired[bool]  # with --total-epsilon: whether the budget sets this scheme's noise
    server_small_delta: NotRequired[ExplainedFigure]  # compare: the server's figure at δ = 1e-5
    tuned: NotRequired[Tuned]  # compare --tune: how the scheme's settings were chosen


class Pair(TypedDict):
    """Two schemes over the same seeds."""

    better: str  # the one with the higher mean accuracy
    other: str  # the other
    by: float  # mean of the differences of their accuracies, seed by seed
    standard_error: float | None  # of that mean; null: one seed
    verdict: str  # holds: more than two standard errors; undecided: not, or one seed


class Comparison(TypedDict):
    """`pfels compare --json` and `pfels.compare`."""

    schemes: dict[str, AggregateRow]  # one row per scheme
    pairs: list[Pair]  # every two schemes
    asked: NotRequired[dict[str, object]]  # only in the file: what the command asked for; the same again replaces it


class SweepRow(AggregateRow):
    """One point of a grid."""

    settings: dict[str, object]  # what sets the point apart


class GridShare(TypedDict):
    """Which part of a grid was run."""

    index: int  # i of --shard i/n
    count: int  # n of --shard i/n
    runs: int  # runs in this part
    of_runs: int  # runs of the whole grid


class Sweep(TypedDict):
    """`pfels sweep --json` and `pfels.sweep`."""

    shard: NotRequired[GridShare]  # only with --shard
    points: list[SweepRow]  # one row per point of the grid


class Levels(TypedDict):
    """β over the rounds."""

    median: float  # median
    min: float  # minimum
    max: float  # maximum


class EchoPlan(TypedDict):
    """How devices repeat what they sent, and what that does to the noise in the models."""

    bands: int  # b, rounds in which a device sends what it learned at a turn
    blocks: int  # m, blocks of coordinates that take turns
    rounds_between_turns: int  # g
    turns: int  # maximum number of turns of a device
    heard_at_turn: float  # expected share of the devices that are heard at their turn
    noise_in_models: float  # noise in the models (root mean square over rounds), relative to one band
    noise_in_average: float | None  # the same for the average that is delivered; null: server.average is 0
    noise_in_models_optimised: float  # what noise_in_models is with optimised weights
    noise_in_average_optimised: float | None  # what noise_in_average is with optimised weights
    memory_bytes: int  # what a simulation keeps of devices that repeat, and at the server


class LinkPlan(TypedDict):
    """The link budget of one scheme, in the units of the channel."""

    beta: Levels | None  # null: ideal links
    limits: dict[str, float]  # share of the rounds in which each limit set β
    privacy_limited_rounds: int  # rounds in which privacy set β
    noise_multiplier_min: float | None  # minimum of z over the rounds
    noise_multiplier_median: float | None  # median of z over the rounds
    noise_ratio_round: float | None  # norm of the noise in a round's estimate over ητC₁, median; null: unknown decoder
    noise_ratio_sum: float | None  # norm of the noise in the sum of all estimates over that of the largest possible sum
    noise_ratio_coordinate: float | None  # the same for the noise in one coordinate: noise_ratio_sum/√d
    energy: float | None  # expected Σ‖x‖² with every update at its norm bound; null: ideal links
    energy_per_round: float | None  # the same per round
    subcarriers: int  # channel uses
    subcarriers_per_round: float  # the same per round
    airtime_s: float  # seconds on the air
    silent: int  # how often a drawn device does not send
    privacy: RunPrivacy  # privacy of the whole training
    on_budget: NotRequired[bool]  # with --total-epsilon: whether the budget sets this scheme's noise
    echo: NotRequired[EchoPlan]  # only where devices repeat what they sent


class SchemePlan(LinkPlan):
    """The link budget of one scheme."""

    radio: RadioPlan  # watts, joules and seconds; ideal links are priced as digital ones


class AssumedLosses(TypedDict):
    """What Theorem 4 assumes of the losses."""

    smoothness: float  # L
    gradient_variance: float  # ζ²
    gamma_squared: float  # γ²
    kappa_squared: float  # κ²
    initial_gap: float  # f(θ⁰) − f_inf


class BoundTerms(TypedDict):
    """A convergence bound at one k."""

    kept: int  # k
    ratio: float  # k/d
    optimisation: float  # optimisation error
    compression: float  # compression error
    privacy: float  # privacy error
    proven: bool  # whether the proof covers this k; `exact`: whether it covers this η
    total: float  # the sum of the three
    vacuous: bool  # whether it is above C₁², which Assumption 1 gives already


class BoundAtK(TypedDict):
    """A convergence bound at two k."""

    here: BoundTerms  # at the config's k
    best: BoundTerms  # at the k that minimises it


class Theory(TypedDict):
    """Convergence bounds for PFELS: Theorem 4, and one with the exact inner product."""

    assumed: AssumedLosses  # what is assumed of the losses
    gradient_bound_squared: float  # C₁²
    learning_rate: float  # η
    learning_rate_limit: float  # the maximum η that the theorem covers
    learning_rate_covered: bool  # whether η is within it
    bounds: dict[str, BoundAtK]  # `printed`, by the paper; `corrected`, as its proof has it; `exact` inner product


class Plan(TypedDict):
    """`pfels plan --json` and `pfels.plan`: the link budget before any training."""

    dimension: int  # d
    kept: int  # k
    rounds: int  # T
    devices: int  # N
    cohort: int  # r
    seed: int  # the seed
    radio: RadioUnits  # the units of the link budgets
    schemes: dict[str, SchemePlan]  # one link budget per scheme
    theory: Theory  # convergence bounds for PFELS
