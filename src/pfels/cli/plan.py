"""`pfels plan`: the link budget."""

from dataclasses import replace
from typing import Annotated

import typer

from pfels.cli.options import Against, Json, Preset, Schemes, Set, TotalEpsilon, budget_of, overrides, scheme_list, stem
from pfels.report.plan_terminal import show_plan
from pfels.report.terminal import budget_notes, print_json

Smoothness = Annotated[
    float | None, typer.Option(metavar="L", help="L of the convergence bound; by default the maximum that it covers.")
]
GradientVariance = Annotated[
    float | None, typer.Option(metavar="ζ²", help="ζ², the variance of a stochastic gradient; C₁² by default.")
]
GammaSquared = Annotated[
    float | None, typer.Option(metavar="γ²", help="γ² ≥ 1, by which devices' gradients differ; 1 by default.")
]
KappaSquared = Annotated[
    float | None, typer.Option(metavar="κ²", help="κ² ≥ 0, by which they differ; by default 0 if IID, else C₁².")
]
InitialGap = Annotated[
    float | None, typer.Option(metavar="GAP", help="f(θ⁰) − f_inf, the loss at the start; log(classes) by default.")
]
Measure = Annotated[
    bool, typer.Option("--measure", help="Train one device here and use the time it takes; not reproducible.")
]


def command(
    preset: Preset = "demo",
    settings: Set = None,
    total_epsilon: TotalEpsilon = None,
    adversary: Against = None,
    schemes: Schemes = None,
    smoothness: Smoothness = None,
    gradient_variance: GradientVariance = None,
    gamma_squared: GammaSquared = None,
    kappa_squared: KappaSquared = None,
    initial_gap: InitialGap = None,
    measure: Measure = False,
    json: Json = False,
) -> None:
    """Show the link budget before any training: levels, noise, power, energy, spectrum, privacy, the best k.

    Everything is drawn as the run itself would draw it, and no data are needed except for --measure.

    Examples:

        pfels plan demo

        pfels plan demo -s compression.ratio=0.1 -s privacy.epsilon=0.2

        pfels plan demo --total-epsilon 8 --adversary server

        pfels plan demo -s radio.scenario=umi-nlos -s radio.distance_m=200

        pfels plan demo --smoothness 0.5 --gradient-variance 0.1
    """
    from pfels.config.load import load_config
    from pfels.config.scheme_settings import used_by
    from pfels.studies.plan import assumed_losses, plan

    names = scheme_list(schemes)
    changed = overrides(settings, scheme="--schemes")
    for name in names:
        load_config(preset, {**used_by(name, changed), "scheme": name})  # refuses what is wrong before anything else
    config = load_config(preset, {**used_by("pfels", changed), "scheme": "pfels"})  # whose convergence is bounded
    given = {
        "smoothness": smoothness, "gradient_variance": gradient_variance, "gamma_squared": gamma_squared,
        "kappa_squared": kappa_squared, "initial_gap": initial_gap,
    }  # fmt: skip
    losses = replace(assumed_losses(config), **{key: value for key, value in given.items() if value is not None})
    budget = budget_of(total_epsilon, adversary)
    planned = plan(preset, schemes=names, overrides=changed, losses=losses, budget=budget, measure=measure)
    if json:
        print_json(planned)
    else:
        show_plan(planned, stem(preset), budget_notes(budget, planned["schemes"]))
