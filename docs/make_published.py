"""Write src/pfels/studies/published.json, the figures that `pfels verify` recomputes, and the tables of docs/verify.md:
python docs/make_published.py

Run it when a published figure is meant to change, and say in the changelog which one did and why: others test their
own software against this file.
"""

import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pfels.config.load import load_config
from pfels.config.scheme_settings import used_by
from pfels.config.tree import NEUTRAL_KEYS
from pfels.schemes.registry import scheme_names
from pfels.studies.published import KINDS, arithmetic, figure, flat_config, run_figures, training_energies

FILE = Path(__file__).parents[1] / "src" / "pfels" / "studies" / "published.json"
PAGE = Path(__file__).with_name("verify.md")
TOLERANCES = {
    "rounding": {
        "relative": 1e-9,
        "absolute": 1e-9,
        "because": "a formula in float64: a root is found to 1e-14, and sums of 1e5 terms lose a few digits more",
    },
    "grid": {
        "relative": 2e-3,
        "absolute": 0.0,
        "because": "an upper bound on a grid that is refined until ε changes by less than 0.2 %",
    },
    "search": {
        "relative": 2e-3,
        "absolute": 0.0,
        "because": "the search ends when ε is within 0.1 % of the budget, and ε is an upper bound on a grid",
    },
    "float32": {
        "relative": 1e-4,
        "absolute": 0.0,
        "because": "a dozen rounds of float32 training; with other instruction sets of x86 these figures moved by "
        "8e-8 at most, which leaves a factor of 1000 for processors that were not tried",
    },
    "one example": {
        "relative": 0.0,
        "absolute": 1 / 359,
        "because": "one of the 360 test images may fall on the other side of a decision that rounding made",
    },
}
SERVER = {"adversary": "server", "neighbours": "device-emptied"}
OUTSIDER = {"adversary": "outsider", "neighbours": "add-remove"}
GAUSSIAN = "δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) solved for ε"
KIND = {
    "claimed-noise-multiplier": {
        "gives": "z at which the paper claims ε for one round",
        "formula": "z = 2√2·q·√log(1.25·q/delta)/epsilon with q = cohort/devices",
        "computed_by": "pfels.privacy.claim.claimed_noise_multiplier",
        "tolerance": "rounding",
        "adversary": "server",
        "neighbours": "add-remove",
    },
    "exact-per-round": {
        "gives": "ε of one round with that z, by the paper's argument without its approximations",
        "formula": f"log(1 + q·(e^ε₀ − 1)), where ε₀ is {GAUSSIAN.replace('ε', 'ε₀')} at δ₀ = delta/q and μ = 1/z",
        "computed_by": "pfels.privacy.accountant.exact_per_round",
        "tolerance": "rounding",
        **OUTSIDER,
        "checked_with": "ε₀ = dp_accounting.get_epsilon_gaussian(z, delta/q)",
    },
    "server-epsilon": {
        "gives": "ε of the whole training for a device that took part n = participations times",
        "formula": f"{GAUSSIAN}, with μ = √n/noise_multiplier",
        "computed_by": "pfels.privacy.accountant.server_loss",
        "tolerance": "rounding",
        **SERVER,
        "checked_with": "dp_accounting.get_epsilon_gaussian(noise_multiplier/√n, delta)",
    },
    "server-epsilon-at-another-delta": {
        "gives": "the same training's ε at other_delta",
        "formula": f"{GAUSSIAN.replace('solved for ε', 'solved for μ')} at (epsilon, delta), then for ε at other_delta",
        "computed_by": "pfels.privacy.accountant.at_another_delta",
        "tolerance": "rounding",
        **SERVER,
        "checked_with": "dp_accounting.get_epsilon_gaussian and get_sigma_gaussian",
    },
    "outsider-epsilon-poisson": {
        "gives": "ε of the whole training; every device is in a round with probability cohort/devices, hidden",
        "formula": "rounds-fold composition of the Poisson-subsampled Gaussian mechanism with noise_multiplier",
        "computed_by": "pfels.privacy.outsider.poisson_epsilon",
        "tolerance": "grid",
        **OUTSIDER,
        "checked_with": "dp_accounting's PLD accountant on PoissonSampledDpEvent(q, GaussianDpEvent(noise_multiplier))",
    },
    "outsider-epsilon-fixed-size": {
        "gives": "ε of the whole training; exactly `cohort` devices per round, hidden",
        "formula": "RDP of the Gaussian mechanism sampled without replacement, sensitivity 2s: noise_multiplier/2",
        "computed_by": "pfels.privacy.outsider.fixed_size_epsilon",
        "tolerance": "rounding",
        "adversary": "outsider",
        "neighbours": "replace-one",
        "checked_with": "dp_accounting's RDP accountant on SampledWithoutReplacementDpEvent",
    },
    "noise-for-server": {
        "gives": "the minimum z, the same in every round, that meets the budget epsilon for n participations",
        "formula": f"z = √n/μ, with μ from {GAUSSIAN.replace('solved for ε', 'solved for μ')}",
        "computed_by": "pfels.privacy.calibration.calibrate",
        "tolerance": "rounding",
        **SERVER,
        "checked_with": "dp_accounting.get_sigma_gaussian(epsilon, delta)·√n",
    },
    "noise-for-outsider-poisson": {
        "gives": "the minimum z, the same in every round, that meets the budget epsilon",
        "formula": "the inverse of outsider-epsilon-poisson in noise_multiplier",
        "computed_by": "pfels.privacy.calibration.calibrate",
        "tolerance": "search",
        **OUTSIDER,
        "checked_with": "dp_accounting's PLD accountant: ε at the value found is within 0.3 % below epsilon",
    },
    "level": {
        "gives": "β, the level at which every device's signal arrives (Theorem 5)",
        "formula": "min(minᵢ gainᵢ·√powerᵢ/(bound·√share), epsilon/C₂), C₂ = z·bound/noise_std with z claimed at ε = 1",
        "computed_by": "pfels.uplink.power.align",
        "tolerance": "rounding",
    },
    "noise-of-round": {
        "gives": "z of the round",
        "formula": "z = noise_std/(β·bound)",
        "computed_by": "pfels.privacy.events.noise_multiplier_at",
        "tolerance": "rounding",
    },
    "energy-of-round": {
        "gives": "Σᵢ E‖xᵢ‖² in units of σ₀², every update at its norm bound (eq. (33))",
        "formula": "Σᵢ (β/gainᵢ)²·share·bound²",
        "computed_by": "pfels.uplink.power.expected_energy",
        "tolerance": "rounding",
    },
    "energy-of-training": {
        "gives": "energy-of-round summed over all rounds of a preset, mean over the seeds, in units of σ₀²",
        "formula": "Σ over rounds of energy-of-round, gains and power limits as the seeds draw them",
        "computed_by": "pfels.experiment.forecast.forecast_run",
        "tolerance": "rounding",
    },
}
PAPER = {"devices": 1000, "cohort": 32, "delta": 1e-3}
ROUND = {
    "gains": [0.02, 0.05, 0.08, 0.1], "powers": [2e4, 5e4, 1e5, 3e4], "bound": 0.25, "share": 0.3, "noise_std": 1.0,
    "delta": 0.01, "devices": 100, "cohort": 4,
}  # fmt: skip
SEEDS = [0, 1, 2, 3, 4]
TABLES = (
    ("cifar10", "CIFAR-10", {"compression.ratio": 0.3, "privacy.epsilon": 1.5}),
    ("femnist", "FEMNIST", {"compression.ratio": 0.5, "privacy.epsilon": 2.0}),
)
NO_MATTER = ("seed", "radio.", "run.", "data.alpha", "data.beta")  # have no part in the expected energy
RUN_TOLERANCES = {
    "accuracy": "one example", "loss": "float32", "energy": "float32", "channel uses": "rounding",
    "server ε": "rounding", "norm of the model": "float32",
}  # fmt: skip


def without_training() -> list[tuple[str, str, dict[str, Any]]]:
    """Name, kind and inputs of every figure without training."""
    claims = [{"epsilon": e, **PAPER} for e in (0.05, 0.5, 1.5)]
    found: list[tuple[str, str, dict[str, Any]]] = [
        (f"z of a claimed ε = {each['epsilon']:g}", "claimed-noise-multiplier", each) for each in claims
    ]
    found += [
        (f"exact ε of a claimed ε = {e:g}", "exact-per-round", {"claimed_epsilon": e, **PAPER})
        for e in (0.05, 0.5, 1.5)
    ]
    for z, n, delta in ((1.0, 1, 1e-5), (1.5, 10, 1e-3), (1.5, 10, 1e-5), (0.5, 65, 1e-3)):
        inputs = {"noise_multiplier": z, "participations": n, "delta": delta}
        found.append((f"server ε: z = {z:g}, n = {n}, δ = {delta:g}", "server-epsilon", inputs))
    inputs = {"epsilon": 16.0, "delta": 0.01, "other_delta": 1e-5}
    found.append(("server ε = 16 at δ = 0.01, at δ = 1e-05", "server-epsilon-at-another-delta", inputs))
    for z, rounds, delta in ((2.0, 300, 1e-3), (1.0, 300, 1e-5), (0.7, 2000, 1e-3)):
        inputs = {**PAPER, "noise_multiplier": z, "rounds": rounds, "delta": delta}
        found.append(
            (f"outsider ε: z = {z:g}, T = {rounds}, δ = {delta:g}, Poisson", "outsider-epsilon-poisson", inputs)
        )
    inputs = {**PAPER, "noise_multiplier": 4.0, "rounds": 300}
    found.append(("outsider ε: z = 4, T = 300, δ = 0.001, fixed size", "outsider-epsilon-fixed-size", inputs))
    budget = {**PAPER, "rounds": 300}
    found.append(
        ("z for server ε = 8, n = 10, δ = 0.001", "noise-for-server", {**budget, "epsilon": 8.0, "participations": 10})
    )
    found.append(("z for outsider ε = 2, T = 300, Poisson", "noise-for-outsider-poisson", {**budget, "epsilon": 2.0}))
    for title, epsilon in (("privacy-limited", 0.05), ("power-limited", 5.0)):
        inputs = {**ROUND, "epsilon": epsilon}
        found.append((f"β of a {title} round", "level", inputs))
        found.append((f"z of a {title} round", "noise-of-round", inputs))
        found.append((f"energy of a {title} round", "energy-of-round", inputs))
    for preset, title, settings in TABLES:
        for scheme in ("pfels", "wfl-p", "wfl-pdp"):
            flat = load_config(preset, {"scheme": scheme, **used_by(scheme, settings)}).flat()
            config = {key: value for key, value in flat.items() if not key.startswith(NO_MATTER)}
            inputs = {"config": config, "seeds": SEEDS}
            found.append((f"energy: {scheme} on {title}", "energy-of-training", inputs))
    return found


def _runs() -> dict[str, Any]:
    configs = {name: load_config("demo", {"scheme": name, "rounds": 12}).flat() for name in scheme_names()}
    first = {key: value for key, value in configs["pfels"].items() if key not in NEUTRAL_KEYS}
    shared = {key: value for key, value in first.items() if all(each.get(key) == value for each in configs.values())}
    schemes = {}
    with tempfile.TemporaryDirectory() as home:
        for name, flat in configs.items():
            settings = {key: value for key, value in flat.items() if key not in shared and key not in NEUTRAL_KEYS}
            figures, hashes = run_figures(flat_config({**shared, **settings}), Path(home) / name)
            schemes[name] = {"settings": settings, "figures": figures, "sha256": hashes}
    return {"arithmetic": arithmetic(), "tolerances": RUN_TOLERANCES, "config": shared, "schemes": schemes}


def content() -> dict[str, Any]:
    """All of the file."""
    assert list(KIND) == list(KINDS)
    figures: list[dict[str, Any]] = []
    for name, kind, inputs in without_training():
        figures.append({"name": name, "kind": kind, "inputs": inputs, "value": figure(kind, inputs)})
        if kind == "energy-of-training":
            figures[-1]["spread"] = statistics.stdev(training_energies(**inputs))
    return {"tolerances": TOLERANCES, "kinds": KIND, "figures": figures, "runs": _runs()}


def page(text: str, known: Mapping[str, Any]) -> str:
    """The page of verify, with its tables of figures and tolerances as in the file."""
    blocks = []
    for name, kind in known["kinds"].items():
        against = f" Against the {kind['adversary']}; neighbours: {kind['neighbours']}." if "adversary" in kind else ""
        also = f" Independently: `{kind['checked_with']}`." if "checked_with" in kind else ""
        rows = [f"| {_inputs(each)} | {_value(each)} |" for each in known["figures"] if each["kind"] == name]
        blocks.append(
            f"**{name}**: {kind['gives']}.{against}\n`{kind['formula']}`.\nComputed by `{kind['computed_by']}`; "
            f"tolerance: {kind['tolerance']}.{also}\n\n| inputs | published |\n|---|---|\n" + "\n".join(rows)
        )
    tolerances = [
        f"| {name} | {each['relative']:g} | {each['absolute']:.2g} | {each['because']} |"
        for name, each in known["tolerances"].items()
    ]
    head = "| tolerance | relative | absolute | because |\n|---|---|---|---|\n"
    text = _between(text, "figures", "\n\n".join(blocks))
    return _between(text, "tolerances", head + "\n".join(tolerances))


def _inputs(each: Mapping[str, Any]) -> str:
    if each["kind"] == "energy-of-training":
        return f"{each['name'].removeprefix('energy: ')}; seeds 0 to 4; the whole config is in the file"
    return ", ".join(f"{name} = {_plain(value)}" for name, value in each["inputs"].items())


def _plain(value: Any) -> str:
    return "[" + ", ".join(f"{item:g}" for item in value) + "]" if isinstance(value, list) else f"{value:g}"


def _value(each: Mapping[str, Any]) -> str:
    return f"{each['value']:.10g}" + (f" (spread {each['spread']:.2g})" if "spread" in each else "")


def _between(text: str, name: str, content: str) -> str:
    before, _, rest = text.partition(f"<!-- {name}: written by docs/make_published.py -->\n")
    after = rest.partition(f"<!-- end of {name} -->")[2]
    return f"{before}<!-- {name}: written by docs/make_published.py -->\n\n{content}\n\n<!-- end of {name} -->{after}"


if __name__ == "__main__":
    made = content()
    FILE.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8"), made), "utf-8")
