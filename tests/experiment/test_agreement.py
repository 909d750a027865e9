"""A summary says what the run's own log and checkpoint say, or it is refused, by whoever reads it."""

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pfels.errors import InputError
from pfels.experiment import loop, reader
from pfels.experiment.directory import RunDirectory
from pfels.report.page import write_report
from pfels.studies.compare import compare
from pfels.studies.stored_privacy import stored_privacy
from pfels.studies.sweep import sweep
from tests.conftest import SMALL, small
from tests.experiment.test_damaged_runs import resealed
from tests.experiment.test_directory import contents, interrupted

# What neither the log nor the checkpoint determines: words, and the time taken.
WORDS = {"why", "reason", "accountant", "name", "seconds"}


@pytest.fixture(scope="module", params=["pfels", "dp-fedavg", "pfels-plus", "pfels-echo", "fedavg"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / str(request.param)
    loop.run(small(scheme=request.param, server__average=0.9, channel__antennas=2), path)
    return path


def altered(source: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a run whose summary somebody changed."""
    if path != source:
        shutil.copytree(source, path, dirs_exist_ok=True)
    content = json.loads((source / "summary.json").read_text())
    change(content)
    (path / "summary.json").write_text(json.dumps(content))
    return path


def places(content: Any, *at: Any) -> Iterator[tuple[Any, ...]]:
    """Every value in a document, by its path."""
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield from places(content[key], *at, key)
    elif not WORDS.intersection(map(str, at)):
        yield at


def test_every_value_that_is_changed_is_noticed_by_every_reader(finished: Path, tmp_path: Path):
    summary = json.loads((finished / "summary.json").read_text())
    unnoticed = []
    for at in places(summary):
        value: Any = summary
        for key in at:
            value = value[key]
        for other in others(value):
            changed = deepcopy(summary)
            target: Any = changed
            for key in at[:-1]:
                target = target[key]
            target[at[-1]] = other
            path = altered(finished, tmp_path / "run", lambda content, changed=changed: content.update(changed))
            if not refused(path):
                unnoticed.append((at, value, other))
    assert unnoticed == []


def others(value: Any) -> list[Any]:
    """Other values in place of one, of its type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(0, value - 1)] if value else [value + 1]
    if isinstance(value, float) and value < 1e-9:
        return [0.25]
    if isinstance(value, float):
        return [value / 2, 0.9 * value, 0.01 * value]
    return ["0.01" if value else "x"] if isinstance(value, str) else [0.01]


def refused(path: Path) -> bool:
    """Whether the readers refuse a run: a report, and whoever asks for a finished one; the price of several antennas,
    which takes all rounds to work out, `pfels privacy`."""
    config = reader.read_config(path)
    found = [refusal(lambda: RunDirectory(path, config).finished()), refusal(lambda: reader.read(path))]
    assert bool(found[0]) == bool(found[1])
    said = found[0] or refusal(lambda: stored_privacy(path))
    assert not said or "summary.json: " in said
    return bool(said)


def refusal(read: Callable[[], object]) -> str:
    try:
        read()
    except InputError as error:
        return str(error)
    return ""


def better(content: dict[str, Any]) -> None:
    """As a hand would change a summary."""
    content["accuracy"] = content["accuracy_last"] = 0.99
    content["privacy"]["server"] |= {"epsilon": 0.01, "display": "0.01"}


def test_a_summary_changed_by_hand_is_refused_by_every_command(tmp_path: Path):
    found = compare("demo", schemes=["pfels"], seeds=[0], overrides=SMALL, out=tmp_path / "compare")
    sweep("demo", {"compression.ratio": [0.3]}, overrides=SMALL, out=tmp_path / "sweep")
    (compared,), (swept,) = (
        [each.parent for each in (tmp_path / name).rglob("summary.json")] for name in ("compare", "sweep")
    )
    for path in (compared, swept):
        altered(path, path, better)
    config, line = reader.read_config(compared), r"summary\.json: altered: accuracy = 0\.99 is not what the log"
    for read in (
        lambda: loop.run(config, compared),
        lambda: loop.run(config, compared, resume=True),
        lambda: write_report(compared),
        lambda: stored_privacy(compared),
        lambda: compare("demo", schemes=["pfels"], seeds=[0], overrides=SMALL, out=tmp_path / "compare"),
        lambda: sweep("demo", {"compression.ratio": [0.3]}, overrides=SMALL, out=tmp_path / "sweep"),
    ):
        with pytest.raises(InputError, match=line):
            read()
    (compared / "summary.json").unlink()
    again = loop.run(config, compared, resume=True).summary
    assert again["accuracy"] == found["schemes"]["pfels"]["accuracy"]["mean"], "and the cure works"


def test_the_scores_of_a_summary_are_those_of_the_last_record(tmp_path: Path):
    result = loop.run(small(server__average=0.9), tmp_path / "a")
    last, summary = result.records[-1], result.summary
    assert (last["test_accuracy"], last["test_loss"]) == (summary["accuracy"], summary["loss"])
    assert last["test_accuracy_last"] == summary["accuracy_last"]
    assert "test_accuracy_last" not in loop.run(small()).records[-1]


def test_a_finished_run_without_its_checkpoint_is_refused_and_an_unfinished_one_is_not(tmp_path: Path):
    loop.run(small(), tmp_path / "a")
    (tmp_path / "a" / "checkpoint.safetensors").unlink()
    with pytest.raises(InputError, match=r"checkpoint\.safetensors: is missing, and with it what the summary must"):
        reader.read(tmp_path / "a")
    (tmp_path / "a" / "summary.json").unlink()
    assert reader.read(tmp_path / "a").rounds == 6


TOTALS = ("energy", "energy_bound", "subcarriers", "slots", "silent", "privacy_limited_rounds", "claimed_epsilon")


@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("whole", [True, False])
def test_totals_that_are_not_those_of_the_log_are_refused_though_the_hash_is_right(
    tmp_path: Path, name: str, whole: bool
):
    begin = loop.run if whole else interrupted
    begin(*((small(), tmp_path / "a") if whole else (tmp_path / "a",)))

    def change(about: Any, tensors: Any) -> None:
        about["totals"][name] = 0 if about["totals"][name] else 3

    resealed(tmp_path / "a" / "checkpoint.safetensors", change)
    before = contents(tmp_path / "a")
    with pytest.raises(InputError, match=f"do not add up to the checkpoint's {name}"):
        loop.run(small(), tmp_path / "a", resume=not whole)
    with pytest.raises(InputError, match=f"do not add up to the checkpoint's {name}"):
        reader.read(tmp_path / "a")
    assert contents(tmp_path / "a") == before


def test_a_ledger_that_is_not_that_of_the_log_is_refused_though_the_hash_is_right(tmp_path: Path):
    interrupted(tmp_path / "a")

    def change(about: Any, tensors: Any) -> None:
        tensors["server.mu_squared"] /= 100

    resealed(tmp_path / "a" / "checkpoint.safetensors", change)
    with pytest.raises(InputError, match=r"rounds do not add up to the checkpoint's server\.mu_squared"):
        loop.run(small(), tmp_path / "a", resume=True)
