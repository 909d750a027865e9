"""A table or figure of the paper, made again: its points, the paper's values beside them, and which claims hold."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfels.paper import claims, documents, link
from pfels.paper.benchmarks import SEEDS, Benchmark
from pfels.paper.stand_ins import TUNING_SEEDS, Study, settle
from pfels.paper.targets import Target, check, find
from pfels.runtime import files

if TYPE_CHECKING:
    from pfels.paper.trials import Watch
    from pfels.runtime.processes import Report
    from pfels.studies.sweep import Point


def _unwatched(points: "Sequence[Point]") -> "AbstractContextManager[Report]":
    return nullcontext(lambda index, done: None)


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
    watch: "Watch" = _unwatched,
) -> dict[str, Any]:
    """The document of a target at a scale, which is also written to `out` as JSON and CSV, and figures as PNG and PDF.

    `link` trains nobody and has the paper's full size. `laptop` trains what is at hand in the paper's place, or
    `preset`; `paper` trains the paper's own settings. Trained points are found at their own best learning rate out of
    `learning_rates`, and finished runs under `out` are not run again.
    """
    wanted, changed = find(target), dict(overrides or {})
    check(target, scale=scale, settings=changed, preset=preset, learning_rates=learning_rates)
    studies = [] if scale == "link" else [
        settle(each, scale=scale, overrides=changed, preset=preset, learning_rates=learning_rates)
        for each in _meant(wanted, preset)
    ]  # fmt: skip
    place = files.folder(Path(out))
    document: dict[str, Any] = {
        "target": target,
        "title": wanted.link_title if scale == "link" else wanted.title,
        "scale": scale,
        "seeds": list(seeds),
        "command": command or f"pfels reproduce {target} --scale {scale}",
    }
    if scale == "link":
        document["notes"] = ["no training; energy in expectation, with every update at its norm bound"]
        document |= _link(wanted, seeds, changed)
    else:
        document["notes"] = [_told(study) for study in studies]
        document |= _trained(wanted, studies, seeds=seeds, jobs=jobs, out=place / "runs", watch=watch)
    document["files"] = documents.write(document, wanted.kind, place / f"{target}-{scale}")
    return document


def _meant(target: Target, preset: str | None) -> Sequence[Benchmark]:
    """The benchmarks that a preset can stand in for: of several, the one whose data are spread as the preset's are."""
    if preset is None or len(target.benchmarks) == 1:
        return target.benchmarks
    from pfels.config.load import load_config

    spread_evenly = load_config(preset).data.partition == "iid"
    return target.benchmarks[:1] if spread_evenly else target.benchmarks[1:]


def _told(study: Study) -> str:
    rates = ", ".join(f"{rate:g}" for rate in study.learning_rates)
    chosen = f"η from {rates} by mean final test accuracy over seeds {TUNING_SEEDS[0]} and {TUNING_SEEDS[1]}"
    if len(study.learning_rates) == 1:
        chosen = f"η = {rates}"
    return f"{study.note}; ε is {study.epsilon_scale:.3g} times the paper's; {chosen}"


def _link(target: Target, seeds: Sequence[int], changed: Mapping[str, Any]) -> dict[str, Any]:
    if target.kind == "table":
        (benchmark,) = target.benchmarks
        rows = _beside(benchmark, link.table(benchmark, seeds, changed), same_size=True)
        bench = claims.Bench(benchmark.title, len(seeds))
        return {"schemes": rows, "claims": list(claims.of_table(bench, rows, full_scale=not changed))}
    points: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    preferred: dict[str, float] = {}
    for benchmark in target.benchmarks:
        title, dealt = benchmark.title, link.deal(benchmark, seeds, changed)
        bench = claims.Bench(title, len(seeds))
        if target.kind == "compression":
            mine = list(link.compression(benchmark, dealt))
            preferred[title] = link.preferred_ratio(benchmark, dealt)
            verdicts += claims.of_bounds(bench, mine, preferred[title], benchmark.ratio)
        elif target.kind == "privacy":
            mine = list(link.privacy(benchmark, dealt))
            verdicts += claims.of_levels(bench, mine, benchmark)
        else:
            mine = list(link.curves(benchmark, dealt))
            last = _beside(benchmark, {point["scheme"]: point for point in mine}, same_size=True)
            mine = [p if p["round"] < dealt[0].config.rounds else last[p["scheme"]] for p in mine]
            verdicts += claims.of_table(bench, last, full_scale=not changed)
        points += mine
    extra = {"preferred_ratio": preferred} if preferred else {}
    return {"points": points, **extra, "claims": verdicts}


def _trained(
    target: Target, studies: Sequence[Study], *, seeds: Sequence[int], jobs: int, out: Path, watch: "Watch"
) -> dict[str, Any]:
    from pfels.paper import trained
    from pfels.paper.trials import run_trials

    points: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    for study in studies:
        settings = trained.settings(target.kind, study)
        trials = run_trials(study, settings, seeds=seeds, jobs=jobs, out=out, watch=watch)
        benchmark = study.benchmark
        bench = claims.Bench(f"{benchmark.title} ({study.preset})", len(seeds))
        if target.kind == "table":
            whole = study.preset == benchmark.preset
            rows = _beside(benchmark, trained.table(trials), same_size=whole)
            verdicts = list(claims.of_table(bench, rows, full_scale=whole and not study.overrides))
            return {"schemes": rows, "claims": verdicts}
        mine = trained.points(target.kind, study, trials)
        if target.kind == "compression":
            verdicts += claims.of_compression(bench, mine)
        elif target.kind == "privacy":
            verdicts += claims.of_privacy(bench, mine, benchmark)
        else:
            for axis in ("round", "subcarriers") if target.kind == "training" else ("energy",):
                verdicts += claims.of_curves(bench, mine, axis)
        points += mine
    return {"points": points, "claims": verdicts}


def _beside(
    benchmark: Benchmark, rows: Mapping[str, Mapping[str, Any]], *, same_size: bool
) -> dict[str, dict[str, Any]]:
    """The rows with the printed ones beside them, and each in relation to WFL-P's, which carries over to any size."""
    wfl_p, printed_wfl_p = rows["wfl-p"], benchmark.printed["wfl-p"]
    table = {}
    for name, row in rows.items():
        printed = benchmark.printed[name]
        accuracy, energy = row["accuracy"], row["energy"]["mean"]
        table[name] = {
            **row,
            "paper": vars(printed),
            "difference": {
                "accuracy": None if accuracy is None else accuracy["mean"] - printed.accuracy,
                "subcarriers": row["subcarriers"] - printed.subcarriers if same_size else None,
                "energy": energy / printed.energy - 1 if same_size else None,
            },
            "to_wfl_p": {
                "energy": energy / wfl_p["energy"]["mean"],
                "subcarriers": row["subcarriers"] / wfl_p["subcarriers"],
                "paper_energy": printed.energy / printed_wfl_p.energy,
                "paper_subcarriers": printed.subcarriers / printed_wfl_p.subcarriers,
            },
        }
    return table
