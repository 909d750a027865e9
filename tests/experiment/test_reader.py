"""Stored runs as they are read: the figures of whole ones add up, and all damage is noticed."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pfels.experiment.log import limits
from pfels.experiment.reader import find, read
from tests.conftest import small
from tests.report.stored_runs import damage, finish, interrupt


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("runs") / "good")


def test_a_line_that_a_kill_cut_in_two_does_not_count(tmp_path: Path):
    path = interrupt(tmp_path / "run", after=4)
    with (path / "rounds.jsonl").open("ab") as log:
        log.write(b'{"round": 4, "coh')
    assert read(path).rounds == 4


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("config.toml", lambda text: "", "config.toml: is empty"),
        ("config.toml", lambda text: text + "\nnonsense = 1\n", "config.toml: run.nonsense: unknown key"),
        ("config.toml", lambda text: text[:40] + "[", "config.toml: not valid TOML"),
        ("config.toml", lambda text: text.replace('"pfels"', '"gone"'), "config.toml: scheme = 'gone': unknown scheme"),
        ("environment.json", lambda text: "[]", "environment.json: must hold a JSON object"),
        ("summary.json", lambda text: text.replace('"accuracy"', '"acc"'), "summary.json: accuracy: Field required"),
        ("summary.json", lambda text: re.sub('"loss": [0-9.]+', '"loss": NaN', text), "summary.json: loss: "),
        ("summary.json", lambda text: text.replace('"seed": 0', '"seed": 7'), "summary.json: seed = 7"),
        ("rounds.jsonl", lambda text: text.replace('"round": 2', '"round": 9'), "rounds.jsonl: truncated or altered"),
        ("rounds.jsonl", lambda text: text[: len(text) // 2], "rounds.jsonl: truncated or altered"),
        ("checkpoint.safetensors", lambda text: "nothing", "checkpoint.safetensors: truncated or altered"),
    ],
)
def test_every_kind_of_damage_is_described_in_one_line(
    good: Path, tmp_path: Path, file: str, change: Callable[[str], str], reason: str
):
    content = change((good / file).read_bytes().decode("utf-8", "ignore")).encode()
    _, (damaged,) = find([damage(good, tmp_path / "run", file, content)])
    assert damaged.reason.startswith(reason)
    assert "\n" not in damaged.reason


LONGEST = limits(small()).size  # bytes of a line


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: [*lines[:2], b"not JSON", *lines[3:]], "rounds.jsonl, line 3: "),
        (lambda lines: [*lines[:2], *lines[3:]], "rounds.jsonl, line 3: is round 3, must be round 2"),
        (lambda lines: lines[:-1], "rounds.jsonl: holds 5 rounds of a run of 6"),
        (lambda lines: [*lines, lines[-1].replace(b'"round": 5', b'"round": 6')],
         "rounds.jsonl: holds 7 rounds of a run of 6"),
        (lambda lines: [lines[0].replace(b'"device_energy": [', b'"device_energy": [1.0, '), *lines[1:]],
         "rounds.jsonl, line 1: device_energy does not fit the cohort"),
        (lambda lines: [re.sub(rb'"cohort": \[\d+', b'"cohort": [30', lines[0]), *lines[1:]],
         "rounds.jsonl, line 1: cohort: must be devices from 0 to 29"),
        (lambda lines: [lines[0], b" " * (LONGEST + 1) + lines[1], *lines[2:]],
         f"rounds.jsonl, line 2: more than {LONGEST} bytes"),
    ],
)  # fmt: skip
def test_a_log_is_checked_even_where_the_checkpoint_is_gone(
    good: Path, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], reason: str
):
    lines = change((good / "rounds.jsonl").read_bytes().splitlines())
    path = damage(good, tmp_path / "run", "rounds.jsonl", b"".join(line + b"\n" for line in lines))
    (path / "checkpoint.safetensors").unlink()
    _, (damaged,) = find([path])
    assert damaged.reason.startswith(reason)


def test_device_energies_add_up_to_the_energy_of_the_run(good: Path, tmp_path: Path):
    run = read(good)
    assert run.summary is not None
    assert run.device_energy is not None
    assert sum(run.device_energy.values()) == pytest.approx(run.summary["energy"])
    assert read(finish(tmp_path / "ideal", scheme="fedavg")).device_energy is None
