"""Many runs: the same files whatever the number of jobs, and nothing done twice."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pfels.errors import InputError
from pfels.experiment.directory import RunDirectory, point_name
from pfels.studies.aggregate import aggregate
from pfels.studies.compare import compare
from pfels.studies.sweep import grid, run_points
from tests.conftest import SMALL

TWO = {"schemes": ["pfels", "fedavg"], "seeds": [0, 1], "overrides": SMALL}


def tree(path: Path) -> dict[str, bytes]:
    skip = ("summary.json", "timing.json")  # these hold the seconds a run took
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and p.name not in skip}


def test_one_job_and_two_jobs_give_identical_files(tmp_path: Path):
    one = compare("demo", **TWO, jobs=1, out=tmp_path / "one")
    two = compare("demo", **TWO, jobs=2, out=tmp_path / "two")
    assert one == two
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_finished_points_are_skipped_and_unfinished_ones_continued(tmp_path: Path):
    points = grid("demo", {"seed": [0, 1, 2]}, out=tmp_path, overrides=SMALL)
    run_points(points[:2], jobs=1)
    before = (points[0].path / "summary.json").stat().st_mtime_ns
    seen = []
    run_points(points, jobs=1, report=lambda index, standing: seen.append((index, standing.rounds)))
    assert seen == [(0, 6), (1, 6), *((2, done) for done in range(7))], "from before the first round to the last"
    assert (points[0].path / "summary.json").stat().st_mtime_ns == before


def test_a_wrong_point_is_found_before_any_point_runs(tmp_path: Path):
    with pytest.raises(InputError, match="cohort"):
        grid("demo", {"cohort.size": [5, 500]}, out=tmp_path, overrides=SMALL)
    points = grid("demo", {"data.devices": [30, 3000]}, out=tmp_path, overrides=SMALL)
    with pytest.raises(InputError, match=r"data\.devices = 3000"):
        run_points(points, jobs=1)
    points = grid("demo", {"privacy.delta": [0.01, 0.9, 0.001]}, out=tmp_path, overrides=SMALL)
    with pytest.raises(InputError, match=r"delta = 0\.9"):
        run_points(points, jobs=1)
    assert not os.listdir(tmp_path)


def test_an_error_in_a_point_is_the_same_with_and_without_workers(tmp_path: Path):
    points = grid("demo", {"seed": [0, 1]}, out=tmp_path, overrides=SMALL)
    with (
        RunDirectory(points[1].path, points[1].config).opened(resume=False, environment={}),
        pytest.raises(InputError, match="another process is running in it"),
    ):
        run_points(points, jobs=2)


def test_a_point_is_named_by_its_settings_and_the_name_is_safe():
    assert (
        point_name({"scheme": "pfels", "compression.ratio": 0.1, "seed": 0})
        == "scheme=pfels,compression.ratio=0.1,seed=0"
    )
    names = {point_name({"data.path": text}) for text in ("../a", "__/a", "<script>", "x" * 300, "x" * 301)}
    assert len(names) == 5
    assert not any(set(name) & set("/<>") or len(name) > 200 for name in names)


def test_a_row_shows_mean_spread_and_the_worst_privacy():
    def summary(seed: int, accuracy: float, epsilon: float | None) -> dict:
        outsider = None if epsilon is None else 10.0 - epsilon
        privacy = {
            "server": {"epsilon": epsilon}, "outsider": {"epsilon": outsider}, "noise_multiplier_min": outsider,
            "claimed": {"epsilon": seed, "valid": seed < 2}, "exact_per_round": None,
        }  # fmt: skip
        common = {"rounds": 1, "dimension": 1, "loss": 1.0, "energy": None, "subcarriers": 1, "airtime_s": 1.0}
        return {"seed": seed, "accuracy": accuracy, "privacy": privacy, **common}

    row = aggregate([summary(0, 0.8, 1.0), summary(1, 0.9, 3.0), summary(2, 1.0, 2.0)])
    assert row["accuracy"] == pytest.approx({"mean": 0.9, "std": 0.1, "standard_error": 0.1 / 3**0.5})
    assert row["by_seed"]["accuracy"] == [0.8, 0.9, 1.0]
    assert row["energy"] is None
    assert row["subcarriers"] == 1
    assert row["privacy"]["server"]["epsilon"] == 3.0
    assert row["privacy"]["outsider"]["epsilon"] == 9.0, "the worst of each figure, from whichever seed it is"
    assert row["privacy"]["noise_multiplier_min"] == 7.0
    assert (row["privacy"]["claimed_epsilon"], row["privacy"]["claimed_valid"]) == (2, False)
    assert aggregate([summary(0, 0.8, 1.0)])["accuracy"]["standard_error"] is None
    assert aggregate([summary(0, 0.8, 1.0), summary(1, 0.9, None)])["privacy"]["server"]["epsilon"] is None
    poisson = [summary(0, 0.8, 1.0) | {"subcarriers": 4}, summary(1, 0.9, 1.0) | {"subcarriers": 7}]
    assert aggregate(poisson)["subcarriers"] == 5.5


def test_prices_are_compared_by_name_where_seeds_were_run_by_different_versions():
    def summary(seed: int, **prices: float) -> dict:
        privacy = {
            "server": {"epsilon": 1.0}, "outsider": {"epsilon": 1.0}, "noise_multiplier_min": 1.0, "claimed": None,
            "exact_per_round": None, "assumptions": [{"name": name, "epsilon": e} for name, e in prices.items()],
        }  # fmt: skip
        common = {"rounds": 1, "dimension": 1, "loss": 1.0, "energy": None, "subcarriers": 1, "airtime_s": 1.0}
        return {"seed": seed, "accuracy": 0.5, "privacy": privacy, **common}

    row = aggregate([summary(0, twice=2.0, gone=9.0, small=3.0), summary(1, twice=2.5, small=1.0, new=8.0)])
    assert row["privacy"]["assumptions"] == [{"name": "twice", "epsilon": 2.5}, {"name": "small", "epsilon": 3.0}]


def test_an_interrupted_sweep_saves_every_run_and_goes_on_from_there(tmp_path: Path):
    """Ctrl-C of a real sweep of two processes; the same command then finishes it, as if nothing had happened."""
    options = [
        word
        for key, value in (SMALL | {"rounds": 300, "run.eval_every": 100}).items()
        for word in ("-s", f"{key}={value}")
    ]
    command = [sys.executable, "-m", "pfels", "sweep", "demo", "-g", "scheme=pfels,wfl-p", *options, "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "cut")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    logs = [tmp_path / "cut" / f"scheme={name},seed=0" / "rounds.jsonl" for name in ("pfels", "wfl-p")]
    deadline = time.monotonic() + 180
    while not all(log.exists() and log.stat().st_size for log in logs) and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert all((log.parent / "checkpoint.safetensors").exists() for log in logs)
    for out in ("cut", "whole"):
        subprocess.run([*command, "--out", str(tmp_path / out)], check=True, capture_output=True, timeout=120)
    assert tree(tmp_path / "cut") == tree(tmp_path / "whole")


def test_the_workers_of_a_killed_sweep_stop_and_leave_what_can_be_resumed(tmp_path: Path):
    options = [word for key, value in (SMALL | {"rounds": 100_000}).items() for word in ("-s", f"{key}={value}")]
    command = [sys.executable, "-m", "pfels", "sweep", "demo", "-g", "scheme=pfels,wfl-p", *options, "--jobs", "2"]
    process = subprocess.Popen([*command, "--out", str(tmp_path)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    logs = [tmp_path / f"scheme={name},seed=0" / "rounds.jsonl" for name in ("pfels", "wfl-p")]
    deadline = time.monotonic() + 180
    while not all(log.exists() and log.stat().st_size for log in logs) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before, sizes = [], [log.stat().st_size for log in logs]
    while before != sizes and time.monotonic() < deadline:
        time.sleep(1)
        before, sizes = sizes, [log.stat().st_size for log in logs]
    assert before == sizes, "they go on without their parent"
    assert all((log.parent / "checkpoint.safetensors").exists() for log in logs)
