"""δ(ε) of the Gaussian mechanism and its inverse."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from pfels.privacy.gaussian import gaussian_delta, gaussian_epsilon, log_delta

DELTAS = (0.1, 1e-3, 1e-5, 1e-10, 1e-100)


@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_is_where_a_bracketing_search_finds_it(delta: float):
    for mu in np.geomspace(1e-5, 1e6, 67).tolist():

        def excess(epsilon: float, mu: float = mu) -> float:
            return log_delta(epsilon=epsilon, mu=np.array(mu)).item() - math.log(delta)

        found, most = gaussian_epsilon(mu=mu, delta=delta), mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta))
        assert found == pytest.approx(
            float(brentq(excess, 0.0, most, xtol=1e-300)) if excess(0.0) > 0 else 0.0, rel=1e-8
        )


@pytest.mark.parametrize("delta", DELTAS[:4])
def test_no_epsilon_is_below_the_one_that_its_delta_asks_for(delta: float):
    for mu in np.geomspace(1e-3, 1e3, 61).tolist():
        assert gaussian_delta(epsilon=gaussian_epsilon(mu=mu, delta=delta), mu=mu) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0, 40.0])
def test_log_delta_is_concave_so_that_newton_s_method_comes_from_above(mu: float):
    epsilon = np.linspace(0, mu**2 / 2 + 6 * mu, 400)
    values = np.array([log_delta(epsilon=e, mu=np.array(mu)).item() for e in epsilon])
    assert np.diff(values, 2).max() <= 1e-9
