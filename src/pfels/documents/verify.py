"""Documents of `pfels verify`: published figures with all their inputs, and how they compare with those found."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.validate import Amount, document


@document
class Tolerance(TypedDict):
    """By how much a figure may differ: |found − published| ≤ absolute + relative·|published|."""

    relative: Amount  # share of the published value
    absolute: Amount  # in the figure's own unit
    because: str  # why it is this much, and no more


@document
class FigureKind(TypedDict):
    """What figures of one kind are, and how they are computed."""

    gives: str  # what the value is
    formula: str  # the formula, with the names of the inputs
    computed_by: str  # the function of pfels that computes it
    tolerance: str  # the name of its tolerance
    adversary: NotRequired[str]  # of a privacy figure: against whom it holds
    neighbours: NotRequired[str]  # of a privacy figure: device-emptied, add-remove or replace-one
    checked_with: NotRequired[str]  # an independent way to compute it


@document
class PublishedFigure(TypedDict):
    """A figure without training, with all its inputs."""

    name: str  # what a table calls it
    kind: str  # its kind
    inputs: dict[str, object]  # all that it depends on, by the names of the formula
    value: float  # the published value
    spread: NotRequired[float]  # of a mean over seeds: the standard deviation over them


@document
class PublishedRun(TypedDict):
    """A short run of one scheme."""

    settings: dict[str, object]  # settings of this scheme, beside those of all
    figures: dict[str, float | None]  # the published values; null: the scheme has none
    sha256: dict[str, str]  # hashes of the run's log and checkpoint


@document
class PublishedRuns(TypedDict):
    """A short run of every scheme."""

    arithmetic: str  # hash of a few computations: where it is the same, runs are the same to the bit
    tolerances: dict[str, str]  # the name of the tolerance of each figure
    config: dict[str, object]  # the settings of all runs
    schemes: dict[str, PublishedRun]  # one run per scheme


@document
class Published(TypedDict):
    """`published.json` in `pfels.studies`: the figures that `pfels verify` recomputes."""

    tolerances: dict[str, Tolerance]  # by name
    kinds: dict[str, FigureKind]  # by name
    figures: list[PublishedFigure]  # figures without training
    runs: PublishedRuns  # short runs


class VerifiedFigure(TypedDict):
    """A published figure beside the one found."""

    name: str  # the figure; of a run: `SCHEME: FIGURE`
    published: float | None  # the published value; null: there is none
    found: float | None  # the value found; null: there is none
    tolerance: float  # by how much they may differ
    ok: bool  # whether they differ by no more
    adversary: NotRequired[str]  # of a privacy figure: against whom it holds
    neighbours: NotRequired[str]  # of a privacy figure: its neighbouring relation
    inputs: NotRequired[dict[str, object]]  # of a figure without training: all that it depends on


class VerifiedRun(TypedDict):
    """A short run beside the published one."""

    same_bits: bool | None  # whether log and checkpoint have the published bits; null: this machine rounds otherwise
    figures: list[VerifiedFigure]  # its figures


class Verification(TypedDict):
    """`pfels verify --json` and `pfels.verify`."""

    version: str  # the version of pfels
    ok: bool  # whether everything is as published
    same_arithmetic: bool  # whether this machine rounds as the one on which the figures were made
    figures: list[VerifiedFigure]  # figures without training
    runs: dict[str, VerifiedRun]  # one short run per scheme
    differs: list[str]  # names of the figures and files that differ
