"""What the server's figure becomes where one of its assumptions fails: every one of them has a price.

A device that is μ-GDP stays so with a larger μ where the receiver is quieter, a signal arrives stronger, is sent twice,
or is heard by more antennas; the choice of the best of several runs is priced by Rényi divergence.
"""

import math

import numpy as np
from scipy.special import lambertw

from pfels.documents.privacy import Assumption, Figure
from pfels.privacy.gaussian import gaussian_epsilon, gaussian_mu

SMALL_DELTA = 1e-5
TRIALS = (6, 16, 32, 64)
# The prefix repeats the end of an OFDM symbol. Of real coordinates the end mirrors the beginning, x(T − u) = x(u)*, so
# that it holds at most half of the symbol's energy.
PREFIX_FACTOR = 1.5


def priced_assumptions(*, mu_squared: float, delta: float, over_air: bool, flat: bool = True) -> list[Assumption]:
    """ε against the server for the worst device with each assumption broken by itself; `over_air`: those about the
    radio too. `flat`: the channel is the same on all subcarriers. No price where there is no ε.

    >>> priced_assumptions(mu_squared=4.0, delta=1e-3, over_air=False)[0]["name"]
    'everything is sent twice'
    """
    if math.isinf(mu_squared):
        return []
    mu, rows = math.sqrt(mu_squared), list[tuple[str, float]]()
    if over_air:
        rows += [(f"receiver noise {db:g} dB below σ₀", mu * 10 ** (db / 20)) for db in (0.5, 1.0, 3.0)]
        rows += [(f"gains estimated {share:.0%} too low", mu * (1 + share)) for share in (0.06, 0.12)]
    if over_air and flat:  # with fading no bound is known
        rows.append(("the server keeps the cyclic prefix", mu * math.sqrt(PREFIX_FACTOR)))
    rows += [("everything is sent twice", mu * math.sqrt(2)), ("one device replaced, not emptied", 2 * mu)]
    found: list[Assumption] = [{"name": name, "epsilon": gaussian_epsilon(mu=each, delta=delta)} for name, each in rows]
    for trials in TRIALS:
        epsilon = best_of_runs_epsilon(mu=mu, mean_runs=trials, delta=delta)
        found.append({"name": f"the best of {trials} runs is released", "epsilon": epsilon})
    return [*found, {"name": "δ = 1e-5", "epsilon": gaussian_epsilon(mu=mu, delta=SMALL_DELTA)}]


def tuned_epsilon(figure: Figure, *, trials: int) -> float | None:
    """What the server's figure would be had the settings been chosen on the same private data: the best of a random
    number of trials, this many on average, each of which costs the figure."""
    if figure["epsilon"] is None:
        return None
    mu = gaussian_mu(epsilon=max(figure["epsilon"], 1e-9), delta=figure["delta"])
    return best_of_runs_epsilon(mu=mu, mean_runs=trials, delta=figure["delta"])


def best_of_runs_epsilon(*, mu: float, mean_runs: float, delta: float) -> float:
    """An upper bound on ε where several μ-GDP runs are made and only the best one is released.

    The number of runs is drawn first, from the logarithmic distribution with this mean (Papernot and Steinke, ICLR
    2022, Theorem 2, with η = 0); for a number that is fixed no such bound is known.

    >>> round(best_of_runs_epsilon(mu=gaussian_mu(epsilon=8, delta=1e-3), mean_runs=16, delta=1e-3), 1)
    14.3
    """
    if mu == 0:
        return 0.0
    if mean_runs == 1:
        return gaussian_epsilon(mu=mu, delta=delta)
    # The mean (1/γ − 1)/log(1/γ), solved for γ by the other real branch of Lambert's W
    gamma = math.exp(1 / mean_runs + float(lambertw(-math.exp(-1 / mean_runs) / mean_runs, -1).real))
    order = 1 + np.geomspace(1e-3, 1e5, 4000)
    other = 1 + np.geomspace(1e-6, 1e5, 4000)
    # ε(λ) = λμ²/2; the two orders are chosen independently of each other
    shared = np.min((1 - 1 / other) * other * mu**2 / 2 + math.log(1 / gamma) / other)
    renyi = order * mu**2 / 2 + shared + math.log(mean_runs) / (order - 1)
    bounds = renyi + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)
    return max(float(bounds.min()), 0.0)
