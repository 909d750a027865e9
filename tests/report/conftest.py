"""The command, in this process."""

from pathlib import Path
from typing import Any

import pytest

from pfels.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command in this process, to spare the tests PyTorch's import; gives exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr("sys.argv", ["pfels", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    return call
