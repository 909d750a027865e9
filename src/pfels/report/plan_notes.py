"""What the figures of a plan mean: too much noise, echo, against whom each ε is, and the convergence bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfels.report.terminal import PROVEN, data_sentences, not_audited, print_notes, print_table
from pfels.report.text import counted, listed, short

if TYPE_CHECKING:
    from pfels.documents.studies import Plan, Theory


def drowned(planned: Plan) -> list[str]:
    """The schemes whose noise outweighs any signal, and what that has meant where it was tried (docs/echo.md)."""
    names = [name for name, row in planned["schemes"].items() if (row["noise_ratio_sum"] or 0.0) > 1]
    if not names:
        return []
    return [
        f"Too much noise: {listed(names)}. The noise in the sum of all updates outweighs the largest possible signal "
        "(sum: above 1). Expect far less accuracy than without noise (docs/results.md: how many devices)."
    ]


def echo_notes(planned: Plan) -> list[str]:
    """What echo does, for each scheme whose devices repeat what they sent."""
    lines = []
    for name, row in planned["schemes"].items():
        if "echo" not in row:
            continue
        echo = row["echo"]
        noise = f"{echo['noise_in_models']:.2f} (optimised weights: {echo['noise_in_models_optimised']:.2f})"
        if echo["noise_in_average"] is not None and echo["noise_in_average_optimised"] is not None:
            noise += f", in their average {echo['noise_in_average']:.2f} ({echo['noise_in_average_optimised']:.2f}),"
        lines.append(
            f"{name}: a turn every {echo['rounds_between_turns']} rounds, at most {echo['turns']} per device, each "
            f"sent in {counted(echo['bands'], 'round')} ({counted(echo['blocks'], 'block')} of coordinates). Noise in "
            f"the models: {noise} of that without echo. A simulation keeps {echo['memory_bytes'] / 1e6:,.0f} MB."
        )
    return lines


def privacy_notes(planned: Plan) -> list[str]:
    """Against whom each ε is, for which neighbours, and on what it rests."""
    figures = [row["privacy"] for row in planned["schemes"].values()]
    outsiders = {name: row["privacy"]["outsider"] for name, row in planned["schemes"].items()}
    known = {name: figure["neighbours"] for name, figure in outsiders.items() if figure["epsilon"] is not None}
    neighbours = "; ".join(f"{name}: {relation} neighbours" for name, relation in known.items()) or "none has one"
    return [
        f"Every ε is at δ = {figures[0]['server']['delta']:g}. * marks what is not a guarantee, or a claim outside "
        "the range of its proof (--json says why).",
        "Claimed: the paper's, per round, against the server. Exact: its argument without approximations, for the "
        "round with the least noise, against an outsider. Neighbours of both: one device added or removed.",
        "Server: the whole training, worst device, against the server, which knows who was drawn; neighbours: one "
        f"device's data emptied; {PROVEN}. On ideal links (dp-fedavg) it sees each update by itself.",
        f"Outsider: the whole training, against those who see only the models ({neighbours}). None where the noise "
        "level depends on who was drawn: then the server's figure holds.",
        *(f"{line}." for line in data_sentences(figures)),
        *not_audited(planned["schemes"]),
    ]


def show_theory(theory: Theory) -> None:
    """The convergence bounds for PFELS, at this k and at the one that each prefers."""
    rows = []
    for name, bound in theory["bounds"].items():
        here, best = bound["here"], bound["best"]
        terms = (here["optimisation"], here["compression"], here["privacy"], here["total"])
        rows.append((name, *[short(term, ".3g") for term in terms], f"{best['ratio']:.3g}", f"{best['total']:.3g}"))
    ratio = theory["bounds"]["exact"]["here"]["ratio"]
    columns = ("", "optimisation", "compression", "privacy", "total", "best p", "total there")
    print_notes([""])
    print_table(columns, rows, title=f"Convergence of PFELS: bounds on the mean of E‖∇f‖² at p = {ratio:.3g}")
    print_notes([*_assumed(theory), *_reach(theory), *_vacuous(theory)])
    print_notes(
        [
            "Advice: at matched progress (pη fixed) p = 1 never has more noise; where power limits β, a smaller p has "
            "the same noise and saves spectrum."
        ]
    )


def _assumed(theory: Theory) -> list[str]:
    assumed, covered = theory["assumed"], "within" if theory["learning_rate_covered"] else "above"
    return [
        f"L = {assumed['smoothness']:.3g}, ζ² = {assumed['gradient_variance']:.3g}, "
        f"γ² = {assumed['gamma_squared']:.3g}, κ² = {assumed['kappa_squared']:.3g}, "
        f"f(θ⁰) − f_inf = {assumed['initial_gap']:.3g}; η = {theory['learning_rate']:g} is {covered} Theorem 4's limit "
        f"{theory['learning_rate_limit']:.3g}. Printed: Theorem 4; corrected: as its proof has it; exact: with "
        "E⟨∇f, AᵀAΔ⟩ = p⟨∇f, Δ⟩."
    ]


def _reach(theory: Theory) -> list[str]:
    """Where a proof does not reach, or a bound gives no advice."""
    bounds, lines = theory["bounds"], []
    if any(bound["best"]["kept"] == 1 for bound in bounds.values()):
        lines.append("A best p of one coordinate: the bound grows with every further one, so it gives no advice.")
    if not all(bounds[name][at]["proven"] for name in ("printed", "corrected") for at in ("here", "best")):
        lines.append("The theorem's proof does not reach below p = 2/3.")
    if not bounds["exact"]["here"]["proven"]:
        lines.append("The proof of the exact bound needs ητL ≤ 1/(12γ²), which is not met.")
    return lines


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
