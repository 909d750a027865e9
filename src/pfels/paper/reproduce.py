"""One table or figure of the paper, end to end: its results, the printed values beside them, its claims judged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfels.config.load import changes, load_config
from pfels.documents.paper import (
    BesidePrinted,
    Claim,
    LinkCurvePoint,
    PaperPoint,
    Printed,
    Reproduction,
    Results,
    SchemeFigures,
    SchemeRow,
)
from pfels.paper import claims, link
from pfels.paper.benchmarks import RATIOS, SEEDS, Benchmark
from pfels.paper.curve_claims import CURVE_AXES, of_curves
from pfels.paper.matched import matched
from pfels.paper.printed import Measured, beside_printed
from pfels.paper.scheme_traces import draw_traces
from pfels.paper.stand_ins import StandIn, choose_stand_in
from pfels.paper.targets import Target, check, find
from pfels.privacy.checks import require_positive
from pfels.runtime.arguments import path_of, seed_values, values, whole
from pfels.runtime.csv_files import SENTENCES, to_csv
from pfels.runtime.files import number_beside, to_json, writable_folder, write_atomically
from pfels.seeding import TUNING_SEEDS

if TYPE_CHECKING:
    from pfels.studies.sweep import Watch

PER_SEED = ("train_losses", "privacy_limited_shares")  # left to the JSON
NOT_DRAWN = ("table", "matched")
LINK_NOTE = "no training; energy is expected, with every update at its norm bound"
MATCHED_NOTE = (
    "no training; PFELS at p and η/p against WFL-PDP at η: PFELS does not divide its estimate by p, so both have the "
    "same mean progress per round"
)


def reproduce(
    target: str,
    *,
    scale: str = "link",
    seeds: Sequence[int] = SEEDS,
    jobs: int = 1,
    out: str | Path = "runs/reproduce",
    overrides: Mapping[str, Any] | None = None,
    preset: str | None = None,
    learning_rates: Sequence[float] | None = None,
    command: str | None = None,
    fresh: bool = False,
    watch: "Watch | None" = None,
) -> Reproduction:
    """A table or figure of the paper, also written to `out` as JSON and CSV, a figure as PNG and PDF as well.

    `link` needs no training and has the paper's full size. `laptop` trains data that are available in place of the
    paper's, or `preset`; `paper` trains the paper's own settings. Every trained point has its own best learning rate
    out of `learning_rates`. Finished runs under `out` are read, unfinished ones continued; `fresh` makes all anew.

    >>> import pfels, tempfile
    >>> table = pfels.reproduce("table-cifar10", seeds=[0], overrides={"rounds": 5}, out=tempfile.mkdtemp())
    >>> table["schemes"]["pfels"]["subcarriers"]  # in units of d: 5 rounds of p = 0.3
    1.5
    """
    wanted, changed, jobs = find(target), changes(overrides), whole("jobs", jobs, minimum=1)
    seeds, place = seed_values(seeds), path_of("out", out)
    if learning_rates is not None:
        learning_rates = values("learning_rates", learning_rates, such_as="[0.05, 0.1]")
        for rate in learning_rates:
            require_positive("learning_rates", rate)
    check(target, scale=scale, settings=changed, preset=preset, learning_rates=learning_rates)
    stand_ins = [] if scale == "link" else [
        choose_stand_in(each, scale=scale, overrides=changed, preset=preset, learning_rates=learning_rates)
        for each in _benchmarks(wanted, preset)
    ]  # fmt: skip
    folder = writable_folder(place)
    if scale == "link":
        notes = [MATCHED_NOTE if wanted.kind == "matched" else LINK_NOTE]
        results = _link(wanted, seeds, changed)
    else:
        notes = [_note(each) for each in stand_ins]
        results = _trained(wanted, stand_ins, seeds=seeds, jobs=jobs, out=folder / "runs", fresh=fresh, watch=watch)
    document: Reproduction = {
        "target": target,
        "title": _title(wanted, stand_ins),
        "scale": scale,
        "seeds": list(seeds),
        "command": command or f"pfels reproduce {target} --scale {scale}",
        "notes": notes,
        **results,  # type: ignore[typeddict-item]  # which has no `asked`
        "files": [],
    }
    asked = {
        "seeds": list(seeds), "settings": changed, "preset": preset,
        "learning_rates": learning_rates and list(learning_rates),
    }  # fmt: skip
    document["files"] = write_files(document, wanted.kind, folder / f"{target}-{scale}", asked=asked)
    return document


def _title(target: Target, stand_ins: Sequence[StandIn]) -> str:
    """What a target shows; of a table, also on which data. Without stand-ins, nothing was trained."""
    title = target.title if stand_ins else target.link_title
    data = stand_ins[0].name if stand_ins else target.benchmarks[0].title
    return f"{data}: {title}" if target.kind == "table" else title


def _benchmarks(target: Target, preset: str | None) -> Sequence[Benchmark]:
    """The benchmarks that a preset can stand in for: of several, the one with the preset's kind of partition."""
    if preset is None or len(target.benchmarks) == 1:
        return target.benchmarks
    iid = load_config(preset).data.partition == "iid"
    return target.benchmarks[:1] if iid else target.benchmarks[1:]


def _note(stand_in: StandIn) -> str:
    rates = ", ".join(f"{rate:g}" for rate in stand_in.learning_rates)
    chosen = f"η out of {rates}, by mean final test accuracy over seeds {TUNING_SEEDS[0]} and {TUNING_SEEDS[1]}"
    if len(stand_in.learning_rates) == 1:
        chosen = f"η = {rates}"
    return f"{stand_in.note}; ε is {stand_in.epsilon_scale:.3g} times the paper's; {chosen}"


def _link(target: Target, seeds: Sequence[int], changed: Mapping[str, Any]) -> Results:
    """A target without training."""
    if target.kind == "table":
        (benchmark,) = target.benchmarks
        rows = link.table(benchmark, seeds, changed)
        return _table(benchmark, rows, benchmark.title, same_size=True, full_scale=not changed)
    points: list[PaperPoint] = []
    verdicts: list[Claim] = []
    preferred: dict[str, float] = {}
    for benchmark in target.benchmarks:
        traces, where = draw_traces(benchmark, seeds, changed), benchmark.title
        if target.kind == "compression":
            points += link.compression(benchmark, traces)
            best = preferred[benchmark.title] = link.preferred_ratio(benchmark, traces)
            verdicts += claims.of_bounds(where, RATIOS, best, benchmark.ratio)
        elif target.kind == "privacy":
            levels = list(link.privacy(benchmark, traces))
            points += levels
            verdicts += claims.of_levels(where, levels, benchmark)
        elif target.kind == "matched":
            ratios = list(matched(benchmark, traces))
            points += ratios
            verdicts += claims.of_matched(where, ratios)
        else:
            curves = list(link.curves(benchmark, traces))
            ends = {point["scheme"]: Measured.of(point) for point in curves}  # the last round of each scheme
            beside = beside_printed(benchmark, ends, same_size=True)
            points += [_beside_end(point, beside, rounds=traces[0].config.rounds) for point in curves]
            verdicts += claims.of_table(where, ends, _printed(benchmark, full_scale=not changed))
    if target.kind == "compression":
        return {"points": points, "preferred_ratio": preferred, "claims": verdicts}
    return {"points": points, "claims": verdicts}


def _beside_end(point: LinkCurvePoint, beside: Mapping[str, BesidePrinted], *, rounds: int) -> LinkCurvePoint:
    return point if point["round"] < rounds else {**point, **beside[point["scheme"]]}


def _trained(
    target: Target,
    stand_ins: Sequence[StandIn],
    *,
    seeds: Sequence[int],
    jobs: int,
    out: Path,
    fresh: bool,
    watch: "Watch | None",
) -> Results:
    """A target with training."""
    from pfels.paper import trained  # not before it is needed: PyTorch takes seconds to import
    from pfels.paper.trials import run_tuned

    points: list[PaperPoint] = []
    verdicts: list[Claim] = []
    for each in stand_ins:
        settings = trained.settings(target.kind, each)
        tuned = run_tuned(each, settings, seeds=seeds, jobs=jobs, out=out, fresh=fresh, watch=watch)
        benchmark, where = each.benchmark, each.name
        if target.kind == "table":
            own = each.preset == benchmark.preset
            return _table(
                benchmark, trained.table(tuned), where, same_size=own, full_scale=own and not each.overrides
            )  # fmt: skip
        if target.kind == "compression":
            accuracies = trained.compression(each, tuned)
            points += accuracies
            verdicts += claims.of_compression(where, accuracies)
        elif target.kind == "privacy":
            accuracies = list(trained.privacy(each, tuned))
            points += accuracies
            verdicts += claims.of_privacy(where, accuracies, benchmark)
        else:
            curves = trained.curves(each, tuned)
            points += curves
            verdicts += of_curves(where, curves, CURVE_AXES[target.kind])
    return {"points": points, "claims": verdicts}


def _table(
    benchmark: Benchmark, rows: Mapping[str, SchemeFigures], where: str, *, same_size: bool, full_scale: bool
) -> Results:
    """A table with the printed values beside it, and its claims."""
    found = {name: Measured.of(row) for name, row in rows.items()}
    beside = beside_printed(benchmark, found, same_size=same_size)
    schemes: dict[str, SchemeRow] = {name: {**row, **beside[name]} for name, row in rows.items()}
    printed = _printed(benchmark, full_scale=full_scale)
    return {"schemes": schemes, "claims": list(claims.of_table(where, found, printed))}


def _printed(benchmark: Benchmark, *, full_scale: bool) -> Mapping[str, Printed] | None:
    """The values that results are held to: none, unless the settings are the paper's own."""
    return benchmark.printed if full_scale else None


def write_files(
    document: Mapping[str, Any], kind: str, stem: Path, *, asked: Mapping[str, Any] | None = None
) -> list[str]:
    """Write the document under this stem and return the names of the files; figures are drawn as well. Files of a
    document that was `asked` for otherwise are kept: the new ones have a number in their names."""
    if asked is not None:
        stem = stem.with_name(f"{stem.name}{number_beside(stem.parent, [stem.name], asked)}")
        document = {**document, "asked": dict(asked)}
    suffixes = [".json", ".csv", *((".png", ".pdf") if kind not in NOT_DRAWN else ())]
    files = [str(stem.with_suffix(suffix)) for suffix in suffixes]
    # First, since it says whose these names are: a command that was killed after it replaces its own files.
    write_atomically(stem.with_suffix(".json"), to_json({**document, "files": files}))
    rows = document.get("points") or [{"scheme": name, **row} for name, row in document["schemes"].items()]
    write_atomically(stem.with_suffix(".csv"), to_csv(rows, leaving_out=(*SENTENCES, *PER_SEED)))
    if kind not in NOT_DRAWN:
        from pfels.paper.pictures import draw

        heading = [document["title"], document["command"]]
        draw(document["points"], kind, stem, heading=heading, preferred=document.get("preferred_ratio", {}))
    return files
