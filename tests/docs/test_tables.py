"""The tables of docs/privacy.md are what the code computes, each ε and each required z rounded up."""

from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import pytest

from pfels.privacy.accountant import exact_per_round
from pfels.privacy.calibration import calibrate
from pfels.privacy.claim import claimed_noise_multiplier
from pfels.privacy.events import Adversary, Sampling
from pfels.privacy.gaussian import gaussian_epsilon
from pfels.privacy.outsider import fixed_size_epsilon, poisson_epsilon

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"
PAPER = {"devices": 1000, "cohort": 32, "delta": 1e-3}
SAMPLING = {"Poisson": Sampling.POISSON, "fixed size": Sampling.WITHOUT_REPLACEMENT, "any": Sampling.POISSON}


def rows(header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    _, _, below = PAGE.read_text().partition(f"\n{header}\n")
    assert below, f"docs/privacy.md has no table {header}"
    lines = below.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def up(value: float, like: str) -> str:
    """The value with as many decimals as `like`, rounded up."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-len(like.partition(".")[2])), ROUND_CEILING))


def test_the_claims_of_the_paper():
    for claimed, z, exact, *_ in rows(
        "| claimed ε per round | noise multiplier z | exact ε per round | claim in the range of its proof | command |"
    ):
        needed = claimed_noise_multiplier(epsilon=float(claimed), **PAPER)
        assert (z, exact) == (up(needed, z), up(exact_per_round(noise_multiplier=needed, **PAPER), exact))


def test_the_server():
    for times, z, delta, epsilon in rows("| participations | z | δ | ε against the server |"):
        assert epsilon == up(gaussian_epsilon(mu=int(times) ** 0.5 / float(z), delta=float(delta)), epsilon)


def test_the_outsider():
    for z, rounds, poisson, fixed in rows("| z | rounds | Poisson, add-remove | fixed size, replace-one |"):
        events = {float(z): int(rounds)}
        assert poisson == up(poisson_epsilon(events, **PAPER)[0], poisson)
        value = fixed_size_epsilon(events, **PAPER)[0]
        assert fixed == (up(value, fixed) if value <= 100 else f"no bound below 100 (at most {up(value, '1')})")


@pytest.mark.parametrize("row", rows("| adversary | sampling | assumption | z |"), ids=" ".join)
def test_the_noise_that_a_budget_requires(row: list[str]):
    adversary, sampling, assumption, z = row
    found = calibrate(
        adversary=Adversary(adversary), epsilon=2.0, rounds=300, sampling=SAMPLING[sampling],
        participations=10 if "10 rounds" in assumption else None, **PAPER,
    )  # fmt: skip
    assert z == up(found.noise_multiplier, z)
