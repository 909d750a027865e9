"""A stored run is taken for the run that is asked for only if the same code made it."""

import functools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pfels.config.load import stored_config
from pfels.errors import InputError
from pfels.experiment import loop, secret_seed
from pfels.experiment.code import difference
from pfels.experiment.loaded import load_run
from pfels.report.page import write_report
from pfels.runtime import source_files
from pfels.schemes import registry
from pfels.schemes.registry import AIR, SchemeEntry, register
from pfels.schemes.wfl_p import WflP
from pfels.studies.compare import compare
from pfels.studies.sweep import sweep
from tests.conftest import SMALL, small
from tests.experiment.test_directory import contents

Call = Callable[..., subprocess.CompletedProcess[str]]
CURE = r"choose another --out, or make it anew with --fresh"
OPTIONS = [word for key, value in SMALL.items() for word in ("-s", f"{key}={value}")]


@pytest.fixture
def mine() -> Iterator[Callable[[float], None]]:
    """Register the scheme `mine` of this process with an estimate scaled by a gain, in place of an earlier one."""

    def edit(gain: float) -> None:
        registry._SCHEMES.pop("mine", None)
        shell: dict[str, Any] = {"__name__": "shell", "WflP": WflP, "GAIN": gain}
        source = "class Mine(WflP):\n    def receive(self, *given):\n        return GAIN * super().receive(*given)\n"
        exec(compile(source, "<stdin>", "exec"), shell)
        register("mine", SchemeEntry(shell["Mine"], uses=AIR | {"clip"}))

    yield edit
    registry._SCHEMES.pop("mine", None)


def halved(experiment: Any, plan: Any, theta: Any, memory: Any) -> Any:
    result = loop.simulate(experiment, plan, theta, memory)
    return replace(result, estimate=0.5 * result.estimate)


def stop_after(rounds: int) -> Callable[[Any], None]:
    def progress(record: Any) -> None:
        if record["round"] + 1 == rounds:
            raise KeyboardInterrupt

    return progress


def test_a_run_says_which_code_from_outside_made_it(tmp_path: Path, mine: Callable[[float], None]):
    mine(1.0)
    loop.run(small(scheme="mine"), tmp_path / "a", play_round=halved)
    scheme, played = json.loads((tmp_path / "a" / "environment.json").read_text())["code"]
    assert (scheme["role"], scheme["name"], scheme["files"]) == ("scheme", "shell:Mine", {})
    assert {"shell:Mine.receive", "GAIN of shell", "uses"} <= set(scheme["values"])
    assert (played["role"], played["name"]) == ("play_round", f"{__name__}:halved")
    here = Path(__file__).relative_to(Path(__file__).parents[2]).as_posix()
    assert re.fullmatch(r"[0-9a-f]{64}", played["files"][here])


def test_a_scheme_of_this_package_has_nothing_to_say_and_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source_files, "_places", lambda module: pytest.fail(f"looked for {module}"))
    loop.run(small(), tmp_path / "a")
    assert "code" not in json.loads((tmp_path / "a" / "environment.json").read_text())
    loop.run(small(), tmp_path / "a", play_round=loop.simulate)


@pytest.mark.parametrize("rounds", [3, 6], ids=["unfinished", "finished"])
def test_what_other_code_made_is_neither_returned_nor_continued(
    rounds: int, tmp_path: Path, mine: Callable[[float], None]
):
    mine(1.0)
    unfinished, config, out = rounds < 6, small(scheme="mine"), tmp_path / "a"
    try:
        loop.run(config, out, progress=stop_after(rounds) if unfinished else lambda record: None)
    except KeyboardInterrupt:
        assert unfinished
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    mine(0.5)
    with pytest.raises(InputError, match=rf"other code of scheme shell:Mine: GAIN of shell differs now; {CURE}"):
        loop.run(config, out, resume=unfinished)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    mine(1.0)
    assert loop.run(config, out, resume=unfinished).summary["accuracy"] == loop.run(config).summary["accuracy"]


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (None, halved, "made without play_round .*:halved"),
        (halved, None, "made with play_round .*:halved"),
        (halved, functools.partial(halved), r"of play_round .*:halved: play_round differs now"),
        (lambda *a: halved(*a) or 1, lambda *a: loop.simulate(*a) or 1, r"<lambda>: .*:<lambda> differs now"),
    ],
)
def test_whatever_plays_the_rounds_sets_runs_apart(first: Any, then: Any, said: str, tmp_path: Path):
    given = [{} if each is None else {"play_round": each} for each in (first, then)]
    loop.run(small(), tmp_path / "a", **given[0])
    with pytest.raises(InputError, match=said):
        loop.run(small(), tmp_path / "a", **given[1])
    made = loop.run(small(), tmp_path / "a", fresh=True, **given[1])
    assert made.records == loop.run(small(), **given[1]).records
    assert loop.run(small(), tmp_path / "a", **given[1]).records == made.records


def test_code_that_is_not_recorded_or_not_known_is_never_taken_for_the_same(
    tmp_path: Path, mine: Callable[[float], None]
):
    mine(1.0)
    loop.run(small(scheme="mine"), tmp_path / "a")
    path = tmp_path / "a" / "environment.json"
    about = json.loads(path.read_text())
    del about["code"]  # as earlier versions wrote it
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match=rf"code of scheme mine that its environment.json does not describe; {CURE}"):
        loop.run(small(scheme="mine"), tmp_path / "a")
    locked = functools.partial(halved)
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    loop.run(small(), tmp_path / "b", play_round=locked)
    with pytest.raises(InputError, match=r"play_round .*:halved, of which play_round \(a lock\) cannot be compared"):
        loop.run(small(), tmp_path / "b", play_round=locked)


def test_a_run_is_loaded_where_its_scheme_is_not_known(tmp_path: Path, mine: Callable[[float], None]):
    mine(1.0)
    result = loop.run(small(scheme="mine"), tmp_path / "a")
    registry._SCHEMES.pop("mine")
    loaded = load_run(tmp_path / "a")
    assert (loaded.summary, loaded.records) == (result.summary, result.records)
    with pytest.raises(InputError, match="scheme = 'mine': unknown scheme"):
        stored_config(tmp_path / "a" / "config.toml")


def test_runs_of_several_versions_are_not_averaged(tmp_path: Path, mine: Callable[[float], None]):
    given: dict[str, Any] = {"schemes": ["mine"], "overrides": SMALL, "out": tmp_path / "a"}
    mine(1.0)
    compare("demo", seeds=[0], **given)
    mine(0.5)
    with pytest.raises(InputError, match=rf"scheme=mine,seed=0: made with other code .*; {CURE}"):
        compare("demo", seeds=[0, 1], **given)
    with pytest.raises(InputError, match="made with other code"):
        sweep("demo", {"scheme": ["mine"]}, seeds=[1, 0], overrides=SMALL, out=tmp_path / "a")
    assert not (tmp_path / "a" / "scheme=mine,seed=1").exists()
    fresh = compare("demo", seeds=[0, 1], fresh=True, **given)
    assert fresh == compare("demo", seeds=[0, 1], **{**given, "out": tmp_path / "b"})


def test_a_report_shows_them_as_groups_of_their_own(tmp_path: Path, mine: Callable[[float], None]):
    for seed, gain in ((0, 1.0), (1, 0.5), (2, 0.5), (0, 0.5)):
        mine(gain)
        loop.run(small(scheme="mine", seed=seed), tmp_path / f"{seed}-{gain}")
    loop.run(small(), tmp_path / "pfels")
    report = write_report(tmp_path)
    groups = report["studies"][0]["groups"]
    assert sorted((group["scheme"], group["seeds"]) for group in groups) == [
        ("mine", [0]), ("mine", [0, 1, 2]), ("pfels", [0])
    ]  # fmt: skip
    labels = {group["label"] for group in groups}
    assert len(labels) == 3
    assert sum(bool(re.fullmatch(r"mine, code=[0-9a-f]{8}", label)) for label in labels) == 2
    assert (report["copies"], report["unknown_code"]) == ([], [])
    path = tmp_path / "1-0.5" / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "code": []}).replace(', "code": []', ""))
    assert write_report(tmp_path)["unknown_code"] == [str(tmp_path / "1-0.5")]


def test_what_is_made_anew_replaces_what_is_the_runs_and_nothing_else(tmp_path: Path):
    out = tmp_path / "a"
    loop.run(small(), out, play_round=halved)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="another config"):
        loop.run(small(seed=1), out, fresh=True)
    assert (out / "summary.json").exists()
    with pytest.raises(KeyboardInterrupt):  # a kill leaves a run that goes on
        loop.run(small(), out, fresh=True, progress=stop_after(3))
    assert not (out / "summary.json").exists()
    with pytest.raises(InputError, match="unfinished run; add --resume"):
        loop.run(small(), out)
    loop.run(small(), out, resume=True)
    loop.run(small(), tmp_path / "b")
    for name in ("config.toml", "rounds.jsonl", "checkpoint.safetensors"):
        assert (out / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (out / "notes.txt").read_text() == "mine"
    with pytest.raises(InputError, match="fresh: needs the directory"):
        loop.run(small(), fresh=True)
    with pytest.raises(InputError, match="leave one of them out"):
        loop.run(small(), out, fresh=True, resume=True)


@pytest.mark.parametrize("name", ["begun.json", secret_seed.NAME])
def test_a_run_of_a_deployment_is_not_made_anew(tmp_path: Path, name: str):
    """What its devices sent was charged to them; they would send and be charged again."""
    loop.run(small(), tmp_path / "a")
    (tmp_path / "a" / name).write_text("{}")
    before = contents(tmp_path / "a")
    with pytest.raises(InputError, match="a deployment's run cannot be made anew; choose another --out"):
        loop.run(small(), tmp_path / "a", fresh=True)
    assert contents(tmp_path / "a") == before


CODE: Any = {
    "role": "scheme", "name": "lab:Mine", "distribution": "lab", "version": "1.0", "files": {"lab.py": "a"},
    "values": {"x of lab": "b"}, "unknown": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"role": "play_round"}, "made with scheme lab:Mine"),
        ({"name": "lab:Other"}, "made with scheme lab:Mine, not lab:Other"),
        ({"unknown": ["y of lab (a Lock)"]}, "of which y of lab (a Lock) cannot be compared"),
        ({"files": {"lab.py": "c"}}, "lab.py differs now"),
        ({"files": {"lab.py": "a", "more.py": "a"}}, "more.py is new"),
        ({"files": {}}, "lab.py is gone"),
        ({"values": {"x of lab": "c"}}, "x of lab differs now"),
        ({"values": {}}, "x of lab is gone"),
    ],
)
def test_code_differs_in_any_of_what_is_known_of_it(change: dict[str, Any], said: str):
    assert difference([CODE], [CODE]) == ""
    assert said in difference([CODE], [{**CODE, **change}])
    assert difference([{**CODE, **change}], [CODE])
    assert difference([CODE], []).startswith("made with scheme")
    assert difference([], [CODE]).startswith("made without scheme")


def test_a_version_tells_code_apart_where_there_is_no_file_to_tell():
    other = {**CODE, "version": "2.0"}
    assert difference([CODE], [other]) == "", "the same files are the same code"
    bare, later = ({**each, "files": {}} for each in (CODE, other))
    assert difference([bare], [later]) == "made with version 1.0 of scheme lab:Mine, not 2.0"


def test_a_kill_between_deleting_and_beginning_leaves_a_run_that_can_begin(
    tmp_path: Path, mine: Callable[[float], None]
):
    mine(1.0)
    loop.run(small(scheme="mine"), tmp_path / "a")
    mine(0.5)
    assert loop.RunDirectory(tmp_path / "a", small(scheme="mine")).discard()
    again = loop.run(small(scheme="mine"), tmp_path / "a", resume=True)
    assert again.records == loop.run(small(scheme="mine")).records


@pytest.fixture
def installed(tmp_path: Path) -> Call:
    """The command, with a package that has a scheme in one file and what it uses in another."""
    lab = tmp_path / "lab"
    about = lab / "lab-1.2.dist-info"
    about.mkdir(parents=True)
    (lab / "lab.py").write_text(
        "import lab_gains\n"
        "from pfels.schemes.registry import AIR, SchemeEntry\n"
        "from pfels.schemes.wfl_p import WflP\n\n\n"
        "class Lab(WflP):\n"
        "    def receive(self, plan, y, A):\n"
        "        return lab_gains.of(y) * super().receive(plan, y, A)\n\n\n"
        'ENTRY = SchemeEntry(Lab, uses=AIR | {"clip"})\n'
    )
    (lab / "lab_gains.py").write_text("def of(y):\n    return 1.0\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text("[pfels.schemes]\nlab = lab:ENTRY\n")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pfels", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(lab), "COLUMNS": "200"}, timeout=300,
        )  # fmt: skip

    return call


def test_an_edited_scheme_is_not_answered_with_its_old_result(installed: Call, tmp_path: Path):
    """The command with and without --out, in two processes, and over seeds; and what it says of what it read."""
    one = ("run", "demo", "-s", "scheme=lab", *OPTIONS, "--json")
    two = ("sweep", "demo", "-g", "scheme=lab", *OPTIONS, "--jobs", "2", "--out", "s", "--json")
    first = installed(*one)
    assert first.returncode == 0, first.stderr
    assert "read from" not in first.stderr
    again = installed(*one)
    assert json.loads(again.stdout) == json.loads(first.stdout)
    where = "runs/run/demo/scheme=lab,.*seed=0"
    assert re.search(rf"^read from {where}, finished \d{{4}}-\d\d-\d\d \d\d:\d\d$", again.stderr, re.M)
    swept = installed(*two, "--seeds", "0,1")
    assert swept.returncode == 0, swept.stderr
    more = installed(*two, "--seeds", "0,1,2")
    assert re.search(r"^2 of 3 runs read from s, finished \d{4}-", more.stderr, re.M)

    (tmp_path / "lab" / "lab_gains.py").write_text("def of(y):\n    return 0.2\n")
    said = rf"error: {{}}: made with other code of scheme lab:ENTRY: lab_gains.py differs now; {CURE}"
    for command, place in (
        (one, where),
        ((*one, "--resume"), where),
        ((*two, "--seeds", "0,1,2,3"), "s/scheme=lab,.*"),
    ):
        refused = installed(*command)
        assert (refused.returncode, refused.stdout) == (2, "")
        (line,) = refused.stderr.splitlines()
        assert re.match(said.format(place), line)
    anew = installed(*one, "--fresh")
    assert "read from" not in anew.stderr
    elsewhere = installed(*one, "--out", "new")
    same = [{**json.loads(each.stdout), "seconds": 0} for each in (anew, elsewhere)]
    assert same[0] == same[1]
    assert same[0]["loss"] != json.loads(first.stdout)["loss"]
    code = json.loads((tmp_path / "new" / "environment.json").read_text())["code"][0]
    assert (code["distribution"], code["version"], list(code["files"])) == ("lab", "1.2", ["lab.py", "lab_gains.py"])
