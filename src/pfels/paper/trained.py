"""The paper's tables and figures with real training, each point at its own best learning rate."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pfels.paper.benchmarks import RATIOS, SCHEMES
from pfels.paper.stand_ins import Study
from pfels.paper.trials import Trial, curve
from pfels.studies.aggregate import aggregate


def settings(kind: str, study: Study) -> list[dict[str, Any]]:
    """What the points of a target set, each once: WFL-P knows no ε, so one point serves all."""
    benchmark = study.benchmark
    if kind == "compression":
        epsilon = study.epsilon(benchmark.compression_epsilon)
        return [{"scheme": "pfels", "compression.ratio": p, "privacy.epsilon": epsilon} for p in RATIOS]
    epsilons = {name: [study.epsilon(benchmark.epsilon)] for name in SCHEMES}
    if kind == "privacy":
        epsilons |= {name: [study.epsilon(e) for e in benchmark.epsilons] for name in ("pfels", "wfl-pdp")}
    return [
        {"scheme": name, "compression.ratio": study.ratio, "privacy.epsilon": epsilon}
        for name in SCHEMES
        for epsilon in epsilons[name]
    ]


def table(trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """A row for each scheme, over the seeds."""
    rows = {}
    for trial in trials:
        whole, row = aggregate(trial.summaries), _point(trial)
        rows[row.pop("scheme")] = row | {"subcarriers_total": whole["subcarriers"], "airtime_s": whole["airtime_s"]}
    return rows


def points(kind: str, study: Study, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """The points of a figure."""
    about = {"benchmark": study.benchmark.title, "preset": study.preset}
    if kind in ("training", "energy"):
        return [
            {**about, "scheme": trial.settings["scheme"], "learning_rate": trial.learning_rate, **point}
            for trial in trials
            for point in curve(trial, dimension=trial.summaries[0]["dimension"])
        ]
    found = [{**about, **_point(trial)} for trial in trials]
    return found if kind == "compression" else list(_over_grid(study, found))


def _over_grid(study: Study, found: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The points of accuracy against ε, with the paper's ε whose place each has; WFL-P's stands at every ε."""
    for printed in study.benchmark.epsilons:
        epsilon = study.epsilon(printed)
        for point in found:
            if point["scheme"] == "wfl-p" or point["epsilon"] == epsilon:
                yield {**point, "epsilon": epsilon, "printed_epsilon": printed}


def _point(trial: Trial) -> dict[str, Any]:
    row = aggregate(trial.summaries)
    return {
        "scheme": trial.settings["scheme"],
        "ratio": trial.settings["compression.ratio"],
        "epsilon": trial.settings["privacy.epsilon"],
        "learning_rate": trial.learning_rate,
        "learning_rate_at_edge": trial.at_edge,
        "accuracy": row["accuracy"],
        "loss": row["loss"],
        "energy": row["energy"],
        "subcarriers": round(row["subcarriers"] / row["dimension"], 3),
        "privacy": row["privacy"],
    }
