"""The paper's tables and figures, reproduced: `pfels reproduce`.

A target is a table (`schemes`) or a figure (`points`). Without training (`--scale link`) there is no accuracy.
"""

from typing import NotRequired, final

from typing_extensions import TypedDict

from pfels.documents.privacy import ClaimedFigure, ExplainedFigure, RunPrivacy
from pfels.documents.studies import Spread


class SeedSpread(Spread):
    """A figure over several seeds, with the value of each: claims are judged by differences seed by seed."""

    values: list[float]  # one per seed, in the order of `seeds`; only in the JSON


class Printed(TypedDict):
    """One row of a table as the paper prints it."""

    accuracy: float  # test accuracy, from 0 to 1
    subcarriers: int  # channel uses in units of d
    energy: float  # Σ‖x‖² in units of σ₀²


class Difference(TypedDict):
    """A result less the printed one."""

    accuracy: float | None  # difference of the accuracies; null: not trained
    subcarriers: float | None  # difference in units of d; null: another data set or model
    energy: float | None  # as a share of the printed energy; null: another data set or model


class RelativeToWflP(TypedDict):
    """Results over those of WFL-P, which can be compared across sizes."""

    energy: float  # energy over WFL-P's
    subcarriers: float  # channel uses over WFL-P's
    paper_energy: float  # the same of the printed energies
    paper_subcarriers: float  # the same of the printed channel uses


class BesidePrinted(TypedDict):
    """The printed values of a scheme, and how a result differs from them."""

    paper: Printed  # the printed values
    difference: Difference  # the result less the printed values
    to_wfl_p: RelativeToWflP  # both relative to WFL-P


class SchemeFigures(TypedDict):
    """One scheme of a table, without the printed values."""

    ratio: float  # p = k/d
    epsilon: float  # ε claimed per round
    accuracy: SeedSpread | None  # test accuracy; null: not trained
    energy: SeedSpread  # Σ‖x‖² in units of σ₀²; not trained: expected, with every update at its norm bound
    subcarriers: float  # channel uses in units of d
    subcarriers_total: float  # channel uses
    airtime_s: float  # seconds on the air
    privacy: RunPrivacy  # privacy of the whole training
    beta: NotRequired[Spread]  # not trained: median level β over the rounds
    privacy_limited_share: NotRequired[Spread]  # not trained: share of the rounds in which privacy set β
    noise_multiplier_min: NotRequired[float]  # not trained: minimum of z over the rounds and seeds
    learning_rate: NotRequired[float]  # trained: the η chosen
    learning_rate_at_edge: NotRequired[bool]  # trained: whether η is the minimum or maximum of those tried
    loss: NotRequired[SeedSpread | None]  # trained: test loss; null: not finite for some seed


class SchemeRow(SchemeFigures, BesidePrinted):
    """One scheme of a table, with the printed values beside it."""


class PointPrivacy(TypedDict):
    """Privacy at one point of a figure without training, for the worst seed."""

    claimed: ClaimedFigure | None  # the paper's claim per round; null: none is made
    exact_per_round: ExplainedFigure  # the claim's argument without approximations
    server: ExplainedFigure  # the worst device against the server, whole training


class BoundMeans(TypedDict):
    """The terms of a convergence bound, means over the seeds."""

    optimisation: float  # optimisation error
    compression: float  # compression error
    privacy: float  # privacy error
    total: float  # the sum of the three


@final
class LinkPoint(TypedDict):
    """One point of fig-compression or fig-privacy without training."""

    benchmark: str  # CIFAR-10 or FEMNIST
    scheme: str  # the scheme
    ratio: NotRequired[float]  # fig-compression: p = k/d
    epsilon: float  # ε claimed per round
    accuracy: None  # not trained
    beta: float  # median level β over the rounds
    noise_multiplier_min: float  # minimum of z over the rounds and seeds
    noise_multiplier_median: float  # median of z over the rounds
    privacy_limited_share: float  # share of the rounds in which privacy set β
    privacy_limited_shares: list[float]  # the same for each seed; only in the JSON
    energy: SeedSpread  # expected Σ‖x‖² with every update at its norm bound, in units of σ₀²
    subcarriers: float  # channel uses in units of d
    airtime_s: float  # seconds on the air
    privacy: PointPrivacy  # privacy figures
    bounds: NotRequired[dict[str, BoundMeans]]  # fig-compression: convergence bounds, by name


@final
class LinkCurvePoint(TypedDict):
    """One round of fig-training or fig-energy without training; the last round has the printed values beside it."""

    benchmark: str  # CIFAR-10 or FEMNIST
    scheme: str  # the scheme
    round: int  # rounds so far
    subcarriers: float  # channel uses so far, in units of d
    energy: SeedSpread  # expected Σ‖x‖² so far with every update at its norm bound, in units of σ₀²
    train_loss: None  # not trained
    accuracy: None  # not trained
    paper: NotRequired[Printed]  # last round: the printed values
    difference: NotRequired[Difference]  # last round: the result less the printed values
    to_wfl_p: NotRequired[RelativeToWflP]  # last round: both relative to WFL-P


@final
class TrainedPoint(TypedDict):
    """One trained point of fig-compression or fig-privacy."""

    benchmark: str  # CIFAR-10 or FEMNIST
    preset: str  # the preset that was trained
    scheme: str  # the scheme
    ratio: float  # p = k/d
    epsilon: float  # ε claimed per round
    printed_epsilon: NotRequired[float]  # fig-privacy: the ε of the paper that it is the equivalent of
    learning_rate: float  # the η chosen
    learning_rate_at_edge: bool  # whether η is the minimum or maximum of those tried
    accuracy: SeedSpread  # test accuracy
    loss: SeedSpread | None  # test loss; null: not finite for some seed
    energy: SeedSpread  # Σ‖x‖² in units of σ₀²
    subcarriers: float  # channel uses in units of d
    privacy: RunPrivacy  # privacy of the whole training


@final
class TrainedCurvePoint(TypedDict):
    """One evaluated round of fig-training or fig-energy."""

    benchmark: str  # CIFAR-10 or FEMNIST
    preset: str  # the preset that was trained
    scheme: str  # the scheme
    learning_rate: float  # the η chosen
    round: int  # rounds so far
    subcarriers: float  # channel uses so far, in units of d
    energy: SeedSpread  # Σ‖x‖² so far, in units of σ₀²
    train_loss: float | None  # mean training loss since the evaluation before; null: not finite for some seed
    train_losses: list[float | None]  # the same for each seed; only in the JSON
    accuracy: SeedSpread  # test accuracy


@final
class MatchedPoint(TypedDict):
    """One ε of matched-progress: PFELS at p and η/p against WFL-PDP at η, which have the same mean progress."""

    benchmark: str  # CIFAR-10 or FEMNIST
    ratio: float  # p = k/d of PFELS
    epsilon: float  # ε claimed per round, by both
    noise_power_ratio: SeedSpread  # noise power in PFELS's estimates over that in WFL-PDP's, each summed over rounds
    pfels_privacy_limited_share: float  # share of the rounds in which privacy set PFELS's β
    wfl_pdp_privacy_limited_share: float  # share of the rounds in which privacy set WFL-PDP's β


CurvePoint = LinkCurvePoint | TrainedCurvePoint
FigurePoint = LinkPoint | TrainedPoint | LinkCurvePoint | TrainedCurvePoint
PaperPoint = LinkPoint | TrainedPoint | LinkCurvePoint | TrainedCurvePoint | MatchedPoint


class Claim(TypedDict):
    """A claim about a table or figure, judged by differences seed by seed."""

    where: str  # the data it was judged on: CIFAR-10, or for a stand-in `demo, for CIFAR-10`
    claim: str  # what is claimed
    verdict: str  # holds, does not hold, or undecided: the margin is within two standard errors, or one seed
    by: float | None  # the margin, mean over the seeds; below 0: by how much it is missed; null: a run diverged
    standard_error: float | None  # of the margin; 0: no seed has a part in it; null: one seed, or a run diverged
    unit: str  # the unit of the margin


class Results(TypedDict):
    """The results of a table or figure."""

    schemes: NotRequired[dict[str, SchemeRow]]  # of a table: one row per scheme
    points: NotRequired[list[PaperPoint]]  # of a figure, or of matched-progress
    preferred_ratio: NotRequired[dict[str, float]]  # fig-compression, not trained: p that minimises the bound
    claims: list[Claim]  # the claims, judged


class Reproduction(Results):
    """`pfels reproduce --json` and `pfels.reproduce`."""

    target: str  # table-cifar10, fig-privacy, …
    title: str  # what it shows
    scale: str  # link, laptop or paper
    seeds: list[int]  # the seeds
    command: str  # the command that makes it
    notes: list[str]  # what was trained, and how ε and η were chosen
    files: list[str]  # the files written
    asked: NotRequired[dict[str, object]]  # only in the file: what was asked for; the same again replaces the files
