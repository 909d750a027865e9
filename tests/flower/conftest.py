"""What the tests on Flower share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.supercore.task_identity import TaskIdentity

from pfels.flower import nodes
from tests.flower import in_process


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower's processes know of themselves and put into every message; no long pauses between polls."""
    for name, value in {"_run_id": 1, "_task_id": 1, "_node_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)
    monkeypatch.setattr(nodes, "POLL_S", 0.01)


@pytest.fixture
def flower(tmp_path: Path) -> Callable[..., Any]:
    """Run the app on nodes in this process, see `in_process.play`; the result, and the grid."""

    def play(*, out: str = "run", **options: Any) -> Any:
        return in_process.play(tmp_path / out, **options)

    return play
