"""The tables of ε in docs are what the code computes, each ε and each required z rounded up."""

import csv
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


def rows(header: str, page: Path = PAGE) -> list[list[str]]:
    """The cells of the table with this header."""
    _, _, below = page.read_text("utf-8").partition(f"\n{header}\n")
    assert below, f"{page} has no table {header}"
    lines = below.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def up(value: float, like: str) -> str:
    """The value with as many decimals as `like`, rounded up."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-len(like.partition(".")[2])), ROUND_CEILING))


@pytest.mark.parametrize(
    ("file", "header"),
    [
        ("fig-privacy-laptop", "| ε here (the paper's) | PFELS | WFL-PDP | WFL-P | ε server: PFELS, WFL-PDP |"),
        ("fig-privacy-laptop-mnist-writers", "| ε here (the paper's) | PFELS | WFL-PDP | ε server: PFELS, WFL-PDP |"),
    ],
)
def test_the_servers_figure_beside_a_claim(file: str, header: str):
    with (PAGE.parent / "results" / f"{file}.csv").open(newline="") as text:
        found = {
            (row["scheme"], float(row["printed_epsilon"])): float(row["privacy.server.epsilon"])
            for row in csv.DictReader(text)
        }
    for claimed, *_, servers in rows(header, PAGE.with_name("results.md")):
        printed = float(claimed.partition("(")[2].rstrip(")"))
        for scheme, shown in zip(("pfels", "wfl-pdp"), servers.split(", "), strict=True):
            assert shown == up(found[scheme, printed], shown)


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
