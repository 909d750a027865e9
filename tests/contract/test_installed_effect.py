"""An effect of the channel in a package of its own works everywhere once it is installed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pfels.schemes.registry import scheme_entry, scheme_names
from tests.contract.test_installed_scheme import ROOT, TINY

PACKAGE = Path(__file__).with_name("rain_package")
RAIN = ["-s", "rain.rate_mm_h=150", "-s", "rain.path_km=2.0", "-s", "rain.share=0.5"]
Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Python with the package installed beside everything else."""
    place, work = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("work")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(place), str(PACKAGE)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": f"{place}:{os.environ.get('PYTHONPATH', '')}", "COLUMNS": "100"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        done.cwd = work
        return done

    return run


def test_every_scheme_that_copes_with_it_runs_and_plans_with_it(call: Call):
    able = [name for name in scheme_names() if "channel" in scheme_entry(name).uses]
    names = ["--schemes", ",".join(able)]
    dry, wet = (json.loads(call("pfels", "plan", "demo", *TINY, *rain, *names, "--json").stdout) for rain in ([], RAIN))
    done = call("pfels", "compare", "demo", *TINY, *RAIN, *names, "--seeds", "0", "--out", "all", "--json")
    assert done.returncode == 0, done.stderr
    for name in able:
        planned, before = wet["schemes"][name], dry["schemes"][name]
        assert planned["energy"] != before["energy"], name
        summary = json.loads(Path(done.cwd, "all", f"scheme={name},seed=0", "summary.json").read_text())
        assert summary["energy_bound"] == pytest.approx(planned["energy"], rel=1e-9)


def test_it_is_reported_audited_and_priced(call: Call):
    rainy = [*TINY, *RAIN, "-s", "scheme=pfels-plus"]
    done = call("pfels", "run", "demo", *rainy, "--out", "run")
    assert done.returncode == 0, done.stderr
    (code,) = json.loads(Path(done.cwd, "run", "environment.json").read_text())["code"]
    assert (code["role"], code["name"], list(code["files"])) == ("effect", "pfels_rain:Rain", ["pfels_rain.py"])
    done = call("pfels", "report", "run")
    assert done.returncode == 0, done.stderr
    done = call("pfels", "audit", "demo", *rainy, "--canaries", "60", "--json")
    assert done.returncode == 0, done.stderr
    assert not json.loads(done.stdout)["rejected"]
    done = call("pfels", "privacy", "demo", *rainy, "--json")
    assert done.returncode == 0, done.stderr


def test_its_settings_are_part_of_the_config_and_of_its_hash(call: Call):
    program = (
        "from pfels import load_config; from pfels.config.load import load_config as load\n"
        "dry, wet = load('demo'), load('demo', {'rain.rate_mm_h': 10.0})\n"
        "import pathlib; p = pathlib.Path('wet.toml'); p.write_text(wet.to_toml())\n"
        "same = load('demo', {'rain.share': 0.1})\n"
        "print(dry.digest() == same.digest(), dry.digest() == wet.digest(), load(p) == wet)"
    )
    done = call("timeit", "-n1", "-r1", program)
    assert done.stdout.startswith("True False True"), done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["rain.rate_mm_h=-1"], "rain.rate_mm_h = -1: must be a finite number in [0, 200]"),
        (["rain.rate=1"], "rain.rate: unknown key; did you mean rain.rate_mm_h?"),
        (["rain.rate_mm_h=5", "scheme=fedavg"], "rain.rate_mm_h: fedavg does not use it"),
        (["rain=3"], "rain = 3: must be a table"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(call: Call, settings: list[str], message: str):
    done = call("pfels", "run", "demo", *[word for each in settings for word in ("-s", each)], "--out", "wrong")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert message in line


def test_its_public_law_is_that_of_its_draws(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PACKAGE / "src"))
    from pfels_rain import Rain

    rain = Rain(rate_mm_h=50.0, path_km=1.0, share=0.3)
    drawn = rain.losses(0, 3, np.arange(100_000))
    law = rain.typical_losses()
    assert set(np.unique(drawn)) == set(np.unique(law))
    share = (drawn > 1).mean()
    assert share == pytest.approx((law > 1).mean(), abs=5 * np.sqrt(0.3 * 0.7 / 100_000))
    assert np.array_equal(rain.losses(0, 3, np.array([2047, 5])), drawn[[2047, 5]])
    assert not np.array_equal(rain.losses(0, 4, np.arange(1000)), drawn[:1000])
    assert not Rain().active
    assert set(Rain(share=0.5).losses(0, 0, np.arange(100))) == {1.0}


def test_contributing_shows_this_very_effect():
    source = (PACKAGE / "src" / "pfels_rain.py").read_text("utf-8")
    assert source[source.index('"""Rain') :].strip() in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
