"""A grid cut into parts: every point in one of them, and results that merge by themselves."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfels.errors import InputError
from pfels.studies.sweep import GridPart, Point, grid

SWEEP = (
    "sweep", "demo", "-g", "compression.ratio=0.1,1.0", "--seeds", "0,1,2", "--out", "shared", "--json",
    "-s", "rounds=3", "-s", "data.devices=30", "-s", "cohort.size=8", "-s", "model.hidden=8",
)  # fmt: skip


def points(ratios: int, seeds: int) -> list[Point]:
    axes = {"compression.ratio": [(i + 1) / ratios for i in range(ratios)], "seed": list(range(seeds))}
    return grid("demo", axes, out=Path("x"))


@given(ratios=st.integers(1, 4), seeds=st.integers(1, 4), count=st.integers(1, 20))
def test_parts_share_no_point_and_leave_none_out(ratios: int, seeds: int, count: int):
    everything = points(ratios, seeds)
    parts = [GridPart(index, count).of(everything) for index in range(1, count + 1)]
    assert sorted(p.path for part in parts for p in part) == sorted(p.path for p in everything)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/8", "9/8", "2", "2/", "/8", "a/b", "-1/8", "1.5/2", "2/8/3", "", "²/8"])
def test_an_impossible_part_is_refused(text: str):
    with pytest.raises(InputError, match="--shard"):
        GridPart.parse(text)


def test_parts_merge_by_themselves(pfels: Callable[..., CompletedProcess[str]], tmp_path: Path):
    second = pfels(*SWEEP, "--shard", "2/2")
    assert second.returncode == 0, second.stderr
    part = json.loads(second.stdout)
    assert part["shard"] == {"index": 2, "count": 2, "runs": 3, "of_runs": 6}
    assert [group["seeds"] for group in part["points"]] == [[1], [0, 2]]
    assert "part 2/2 alone: 3 of 6 runs" in second.stderr
    assert len(list((tmp_path / "shared").iterdir())) == 3
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "shared").glob("*/summary.json")}
    whole = pfels(*SWEEP)
    assert whole.returncode == 0, whole.stderr
    assert [group["seeds"] for group in json.loads(whole.stdout)["points"]] == [[0, 1, 2], [0, 1, 2]]
    assert "shard" not in json.loads(whole.stdout)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def test_a_wrong_part_ends_in_one_line_and_exit_code_two(pfels: Callable[..., CompletedProcess[str]]):
    answer = pfels(*SWEEP, "--shard", "9/8")
    assert answer.returncode == 2
    assert answer.stderr == "error: --shard = '9/8': must read i/n with 1 ≤ i ≤ n, such as 2/8\n"


def test_a_part_beyond_the_grid_has_nothing_to_do(pfels: Callable[..., CompletedProcess[str]]):
    answer = pfels(*SWEEP, "--shard", "8/8")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["points"] == []
