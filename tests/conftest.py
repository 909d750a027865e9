"""What many tests share: small configs, and the real command in a real process."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pfels.config.load import load_config
from pfels.config.scheme_settings import used_by
from pfels.config.tree import Config
from pfels.schemes.registry import scheme_names

SMALL = {"rounds": 6, "data.devices": 30, "cohort.size": 8, "model.hidden": 8, "run.eval_every": 3}


# These tests have environments of their own.
ELSEWHERE = {"flower": ("Flower", "flwr"), "sionna": ("Sionna", "sionna")}
ABSENT = {folder: name for folder, (name, module) in ELSEWHERE.items() if find_spec(module) is None}
collect_ignore = list(ABSENT)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was left out, and why."""
    for folder, name in ABSENT.items():
        cure = f"`make test-{folder}` installs it and runs them"
        terminalreporter.write_line(f"left out: tests/{folder}, since {name} is not installed here; {cure}")


def pytest_configure() -> None:
    """A shell's background job ignores SIGINT, and so would the commands that the tests interrupt."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def small(**changes: Any) -> Config:
    """The demo cut down to a fraction of a second; keys are given with `__` for a dot.

    One set of changes serves all schemes: each takes what it uses.
    """
    changed = {key.replace("__", "."): value for key, value in changes.items()}
    return load_config("demo", SMALL | used_by(changed.get("scheme", "pfels"), changed), tuned=False)


class WholeCohort:
    """Stands in for local training in tests that give `cohort` alone: all devices are one chunk, on this thread."""

    def chunks(self, cohort: int) -> list[slice]:
        return [slice(0, cohort)]

    def map(self, theta: Any, devices: list[int], orders: object, work: Callable[[Any], Any]) -> Iterator[Any]:
        yield from map(work, self.cohort(theta, devices, orders))


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data of the machine's own: a test must not depend on what was once downloaded there."""
    monkeypatch.setenv("PFELS_DATA", str(tmp_path_factory.getbasetemp() / "no-data"))


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """PyTorch's own generator starts alike in each test, whatever ran before it in this process."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(params=scheme_names())
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pfels(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command, run in an empty directory."""

    def call(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pfels", *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "COLUMNS": "100"}, **options,
        )  # fmt: skip

    return call


@pytest.fixture
def pfels_command(pfels: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., Any]:
    """The command, for tests that use the package by its own name."""
    return pfels
