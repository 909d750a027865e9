"""`pfels plan`: the link budget."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from pfels.cli.options import Against, Json, Preset, Schemes, Set, TotalEpsilon, budget_of, overrides, scheme_list, stem
from pfels.documents.privacy import ExplainedFigure
from pfels.documents.studies import Plan, SchemePlan, Theory
from pfels.privacy.events import rounded_up
from pfels.report.terminal import PROVEN, budget_notes, marked, number, print_json, print_notes, print_table
from pfels.report.text import claimed_epsilon, counted, epsilon, listed, seconds

Smoothness = Annotated[
    float | None, typer.Option(help="L of the convergence bound; by default the maximum that it covers.")
]
GradientVariance = Annotated[
    float | None, typer.Option(help="ζ², the variance of a stochastic gradient; C₁² by default.")
]
GammaSquared = Annotated[float | None, typer.Option(help="γ² ≥ 1, by which devices' gradients differ; 1 by default.")]
KappaSquared = Annotated[
    float | None, typer.Option(help="κ² ≥ 0, by which they differ; by default 0 if IID, else C₁².")
]
ABREAST = 4  # schemes side by side on 80 columns
InitialGap = Annotated[
    float | None, typer.Option(help="f(θ⁰) − f_inf, the loss at the start; log(classes) by default.")
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
    json: Json = False,
) -> None:
    """Show the link budget before any training: levels, noise, privacy, energy, spectrum, the best k.

    Everything is drawn as the run itself would draw it, and no data are needed.

    Examples:

        pfels plan demo

        pfels plan demo -s compression.ratio=0.1 -s privacy.epsilon=0.2

        pfels plan demo --total-epsilon 8 --adversary server

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
    planned = plan(preset, schemes=names, overrides=changed, losses=losses, budget=budget)
    if json:
        print_json(planned)
    else:
        _show(planned, stem(preset), budget_notes(budget, planned["schemes"]))


def _show(planned: Plan, name: str, notes: Sequence[str]) -> None:
    title = (
        f"{name}: d = {planned['dimension']:,}, k = {planned['kept']:,}, {planned['rounds']} rounds, "
        f"{planned['cohort']} of {planned['devices']} devices per round, seed {planned['seed']}"
    )
    columns = {marked(scheme, row): _column(row) for scheme, row in planned["schemes"].items()}
    labels, names = list(next(iter(columns.values()))), list(columns)
    for some in (names[i : i + ABREAST] for i in range(0, len(names), ABREAST)):
        rows = [(label, *[columns[name][label] for name in some]) for label in labels]
        print_table(("", *some), rows, title=title if some[0] == names[0] else "")
    print_notes([*_drowned(planned), *notes, *_echo(planned), *_notes(planned), *_theory(planned["theory"])])


def _drowned(planned: Plan) -> list[str]:
    """The schemes whose noise outweighs any signal, and what that has meant where it was tried (docs/echo.md)."""
    names = [name for name, row in planned["schemes"].items() if (row["noise_ratio_sum"] or 0.0) > 1]
    if not names:
        return []
    return [
        f"Too much noise: {listed(names)}. The noise in the sum of all updates outweighs the largest possible signal "
        "(noise ratio, sum: above 1). Expect far less accuracy than without noise (docs/results.md: how many devices). "
        "Where privacy limits β, fewer parameters, more devices or a larger ε lower the ratio; where power does, "
        "better channels."
    ]


def _echo(planned: Plan) -> list[str]:
    """What echo does, for each scheme whose devices repeat what they sent."""
    lines = []
    for name, row in planned["schemes"].items():
        if "echo" not in row:
            continue
        echo = row["echo"]
        noise = f"{echo['noise_in_models']:.2f} (optimised weights: {echo['noise_in_models_optimised']:.2f})"
        if echo["noise_in_average"] is not None and echo["noise_in_average_optimised"] is not None:
            noise += (
                f", and in the average that is delivered {echo['noise_in_average']:.2f} "
                f"({echo['noise_in_average_optimised']:.2f}),"
            )
        lines.append(
            f"{name}: a device has a turn every {echo['rounds_between_turns']} rounds, at most {echo['turns']} in all, "
            f"and sends what it learned in {counted(echo['bands'], 'round')} ({counted(echo['blocks'], 'block')} of "
            f"coordinates). Noise in the models: {noise} of what it would be without echo. A simulation keeps "
            f"{echo['memory_bytes'] / 1e6:,.0f} MB for it."
        )
    return lines


def _column(row: SchemePlan) -> dict[str, str]:
    """One scheme's figures, by label."""
    beta, privacy = row["beta"], row["privacy"]
    limits = {name: f"{share:.0%}" for name, share in row["limits"].items()}
    return {
        "β, median": number(beta and beta["median"]),
        "β, minimum": number(beta and beta["min"]),
        "β, maximum": number(beta and beta["max"]),
        "privacy-limited rounds": limits.get("privacy", "0%") if limits else "–",
        "power-limited rounds": limits.get("power", "0%") if limits else "–",
        "z, minimum": number(row["noise_multiplier_min"]),
        "z, median": number(row["noise_multiplier_median"]),
        "noise ratio, round": number(row["noise_ratio_round"]),
        "noise ratio, sum": number(row["noise_ratio_sum"]),
        "per coordinate": number(row["noise_ratio_coordinate"]),
        "energy": number(row["energy"], ".2e"),
        "energy per round": number(row["energy_per_round"], ".2e"),
        "channel uses": f"{row['subcarriers']:,}",
        "channel uses per round": f"{row['subcarriers_per_round']:,.0f}",
        "airtime": seconds(row["airtime_s"]),
        "ε claimed per round": claimed_epsilon(privacy["claimed"]),
        "ε exact per round": _epsilon(privacy["exact_per_round"]),
        "ε server": epsilon(privacy["server"]),
        "ε outsider": epsilon(privacy["outsider"]),
    }


def _epsilon(figure: ExplainedFigure | None) -> str:
    if figure is None or figure["epsilon"] is None:
        return "none"
    return f"{rounded_up(figure['epsilon'], digits=3):.3g}{'' if figure['valid'] else '*'}"


def _notes(planned: Plan) -> list[str]:
    """What the figures mean, and against whom each ε is."""
    figures = [row["privacy"] for row in planned["schemes"].values()]
    outsiders = {name: row["privacy"]["outsider"] for name, row in planned["schemes"].items()}
    known = {name: figure["neighbours"] for name, figure in outsiders.items() if figure["epsilon"] is not None}
    neighbours = "; ".join(f"{name}: {relation} neighbours" for name, relation in known.items()) or "none has one"
    return [
        "z: the noise multiplier, the noise's standard deviation over β and the norm bound of an update.",
        "Noise ratio, round: the norm of the noise in the server's estimate over the norm bound ητC₁ of an update, "
        "median over the rounds. Sum: the norm of the noise in the sum of all estimates over the largest possible "
        "signal, T·p·ητC₁, if all updates have that norm and one direction; per coordinate: the noise in one "
        "coordinate over the same. After decoding. Real updates differ, so the real ratio is higher.",
        "Energy is in expectation, with every update at its norm bound; ideal links have none.",
        f"Every ε is at δ = {figures[0]['server']['delta']:g}. * marks what is not a guarantee, or a claim outside "
        "the range of its proof (--json says why).",
        "ε claimed: the paper's, against the server; neighbours: one device added or removed.",
        "ε exact: the claim's own argument without approximations, for the round with the least noise, against an "
        "outsider; neighbours: one device added or removed.",
        "ε server: the whole training, for the worst device of the drawn cohorts, against the server, which knows who "
        f"was drawn; neighbours: one device's data emptied; {PROVEN}. On ideal links (dp-fedavg) the server sees each "
        "update by itself, with less noise than the sum has.",
        f"ε outsider: the whole training, against those who see only the models ({neighbours}). "
        "There is none where the noise level depends on who was drawn: then the server's figure holds.",
    ]


def _theory(theory: Theory) -> list[str]:
    assumed = theory["assumed"]
    covered = "within" if theory["learning_rate_covered"] else "above"
    lines = [
        "",
        f"Convergence of PFELS: bounds on the mean of E‖∇f‖², for L = {assumed['smoothness']:.3g}, "
        f"ζ² = {assumed['gradient_variance']:.3g}, γ² = {assumed['gamma_squared']:.3g}, "
        f"κ² = {assumed['kappa_squared']:.3g}, f(θ⁰) − f_inf = {assumed['initial_gap']:.3g}; "
        f"η = {theory['learning_rate']:g} is {covered} Theorem 4's limit {theory['learning_rate_limit']:.3g}. Printed: "
        "Theorem 4; corrected: as its proof has it; exact: with E⟨∇f, AᵀAΔ⟩ = p⟨∇f, Δ⟩ (studies/theory.py).",
    ]
    for name, bound in theory["bounds"].items():
        here, best = bound["here"], bound["best"]
        lines.append(
            f"{name} bound at p = {here['ratio']:.3g}: optimisation {here['optimisation']:.3g} + compression "
            f"{here['compression']:.3g} + privacy {here['privacy']:.3g} = {here['total']:.3g}; "
            f"at this η it prefers p = {best['ratio']:.3g}, which gives {best['total']:.3g}"
            + (" (one coordinate: it grows with every further one, so it gives no advice)" * (best["kept"] == 1))
        )
    bounds = theory["bounds"]
    if not all(bounds[name][at]["proven"] for name in ("printed", "corrected") for at in ("here", "best")):
        lines.append("The theorem's proof does not reach below p = 2/3.")
    if not bounds["exact"]["here"]["proven"]:
        lines.append("The proof of the exact bound needs ητL ≤ 1/(12γ²), which is not met.")
    return [
        *lines,
        *_vacuous(theory),
        "Advice: at matched progress (pη fixed) p = 1 never has more noise; where power limits β, a smaller p has the "
        "same noise and saves spectrum.",
    ]


def _vacuous(theory: Theory) -> list[str]:
    """Which bounds say nothing, since they are above what Assumption 1 gives already."""
    bounds = theory["bounds"]
    everywhere = [name for name, bound in bounds.items() if bound["best"]["vacuous"]]
    here = [name for name, bound in bounds.items() if bound["here"]["vacuous"] and name not in everywhere]
    where = [(everywhere, "at every p"), (here, "at this p")]
    said = [f"{listed(names)} {at}" for names, at in where if names]
    if not said:
        return []
    known = f"Assumption 1 alone gives ‖∇f‖² ≤ C₁² = {theory['gradient_bound_squared']:.3g}"
    return [f"Vacuous bounds: {'; '.join(said)}. {known}, so a bound above that says nothing, nor does its best p."]
