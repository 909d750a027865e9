"""A scheme in a package of its own, with a setting of its own, works everywhere once it is installed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).with_name("backoff_package")
ROOT = Path(__file__).parents[2]
TINY = ["-s", "rounds=4", "-s", "data.devices=30", "-s", "cohort.size=8", "-s", "model.hidden=8"]
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Python with the package installed beside everything else."""
    place, work = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("work")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(place), str(PACKAGE)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(place), "COLUMNS": "100"}

    def run(*arguments: str, cwd: Path = work) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    return run


def test_it_runs_with_its_own_setting_and_is_reported(call: Call):
    done = call("pfels", "run", "demo", *TINY, "-s", "scheme=backoff", "-s", "backoff.fraction=0.25", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "NOT AUDITED: backoff, from outside pfels" in done.stdout
    done = call("pfels", "report", "run", "--json")
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["studies"]
    assert comparison["groups"][0]["scheme"] == "backoff"
    read = "from pfels import load_config; c = load_config('run/config.toml'); print(c.own.fraction, c.scheme)"
    assert call("timeit", "-n1", "-r1", read).stdout.startswith("0.25 backoff")


def test_its_setting_counts_and_sets_runs_apart(call: Call):
    grid = ["-g", "scheme=backoff", "-g", "backoff.fraction=0.25,1.0", "--out", "grid", "--json"]
    done = call("pfels", "sweep", "demo", *TINY, *grid)
    assert done.returncode == 0, done.stderr
    quarter, whole = json.loads(done.stdout)["points"]
    assert quarter["energy"]["mean"] < whole["energy"]["mean"] / 2
    done = call("pfels", "report", "grid", "--json")
    labels = [group["label"] for group in json.loads(done.stdout)["studies"][0]["groups"]]
    assert labels == ["backoff, fraction=0.25", "backoff, fraction=1"]


def test_it_stands_beside_the_others_in_compare_and_plan_and_meets_a_budget(call: Call):
    done = call("pfels", "compare", "demo", *TINY, "--seeds", "0", "--total-epsilon", "3", "--json", "--out", "all")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["schemes"]
    assert list(rows)[-1] == "backoff"
    assert (rows["backoff"]["on_budget"], rows["fedavg"]["on_budget"]) == (True, False)
    assert 0 < rows["backoff"]["privacy"]["server"]["epsilon"] <= 3
    done = call("pfels", "plan", "demo", *TINY)
    assert done.returncode == 0, done.stderr
    assert "backoff" in done.stdout
    planned = {}
    for fraction in ("0.25", "1.0"):
        done = call("pfels", "plan", "demo", "--schemes", "backoff", "-s", f"backoff.fraction={fraction}", "--json")
        planned[fraction] = json.loads(done.stdout)["schemes"]["backoff"]["energy"]
    assert planned["0.25"] == pytest.approx(planned["1.0"] / 16)


def test_its_claim_is_audited_as_those_of_the_others_are(call: Call):
    done = call("pfels", "audit", "demo", *TINY, "-s", "scheme=backoff", "--canaries", "60", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["scheme"], found["rejected"]) == ("backoff", False)
    assert found["alone"]["epsilon"] == pytest.approx(found["alone"]["booked"], rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["scheme=backoff", "backoff.fraction=2.0"], "backoff.fraction = 2.0: must be a finite number in (0, 1]"),
        (["scheme=backoff", "backoff.fractoin=0.5"], "backoff.fractoin: unknown key; did you mean backoff.fraction?"),
        (["backoff.fraction=0.5"], "backoff.fraction: pfels does not use it"),
        (["scheme=backoff", "compression.ratio=0.5"], "compression.ratio: backoff does not use it"),
        (["scheme=backof"], "did you mean backoff?"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(call: Call, settings: list[str], message: str):
    done = call("pfels", "run", "demo", *[word for each in settings for word in ("-s", each)], "--out", "wrong")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert message in line


def test_without_the_package_its_runs_are_damaged_and_named(call: Call, tmp_path: Path):
    done = call("pfels", "run", "demo", *TINY, "-s", "scheme=backoff", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    alone = subprocess.run(
        [sys.executable, "-m", "pfels", "report", str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert alone.returncode == 2
    assert "scheme = 'backoff': unknown scheme" in alone.stderr


def test_the_contract_runs_over_it(call: Call):
    tests = ["tests/contract/test_schemes.py", "tests/contract/test_release.py"]
    done = call("pytest", "-q", "-p", "no:cacheprovider", "-k", "backoff", *tests, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout.splitlines()[-1]
    assert "failed" not in done.stdout.splitlines()[-1]


def test_contributing_shows_this_very_scheme():
    source = (PACKAGE / "src" / "pfels_backoff.py").read_text("utf-8")
    shown = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    classes = source[source.index("class BackoffSettings") : source.index("\n\nENTRY = ")]
    assert classes in shown
    for trait in source[source.index("    uses=") : source.index("\n)\n", source.index("ENTRY"))].splitlines():
        assert trait.strip() in shown
