"""Progress: on the screen at once, with accuracy and ε; in a log one line a minute; never on stdout."""

import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from pfels.cli.progress_bars import Bars
from pfels.cli.progress_lines import Lines, legend, standing_text
from pfels.experiment.standing import Standing
from tests.conftest import SMALL

FAST = [word for key, value in SMALL.items() for word in ("-s", f"{key}={value}")]


class Log:
    """Lines of progress at times that a test sets."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = 1000.0
        self.display = Lines(self.lines.append, clock=lambda: self.now)


def test_a_log_has_a_line_at_the_beginning_one_a_minute_and_one_at_the_end():
    log = Log()
    with log.display.runs(["pfels,seed=0"], [300], [0.01]) as report:
        assert log.lines == [], "nothing before it is known that the run begins"
        report(0, Standing(0))
        for t in range(1, 301):  # a round a second
            log.now += 1
            report(0, Standing(t, 0.5 + t / 1000 if t % 10 == 0 else None, t / 100))
    about, *lines = log.lines
    assert "against the server by the worst device, at δ = 0.01; neighbours: one device's data emptied" in about
    assert lines == [
        "progress: pfels,seed=0: 0 of 300; after 0 s",
        "progress: pfels,seed=0: 60 of 300, accuracy 0.560, ε 0.60; after 1 min 0 s, about 4 min 0 s left",
        "progress: pfels,seed=0: 120 of 300, accuracy 0.620, ε 1.20; after 2 min 0 s, about 3 min 0 s left",
        "progress: pfels,seed=0: 180 of 300, accuracy 0.680, ε 1.80; after 3 min 0 s, about 2 min 0 s left",
        "progress: pfels,seed=0: 240 of 300, accuracy 0.740, ε 2.40; after 4 min 0 s, about 1 min 0 s left",
        "progress: pfels,seed=0: 300 of 300, accuracy 0.800, ε 3.00; after 5 min 0 s",
    ]


def test_rounds_done_before_do_not_count_as_work_done_now():
    log = Log()
    with log.display.runs(["a", "b", "c"], [100, 100, 100], [0.01]) as report:
        report(0, Standing(100, 0.9, 4.0))  # finished earlier
        report(1, Standing(50))  # resumed
        log.now += 60
        report(1, Standing(75, 0.8, 3.0))  # 25 rounds a minute, 125 left
    assert log.lines[1] == "progress: 1 of 3 runs, 100 of 300 rounds; after 0 s"
    assert log.lines[2] == (
        "progress: 1 of 3 runs, 175 of 300 rounds; b: 75 of 100, accuracy 0.800, ε 3.00; after 1 min 0 s, about "
        "5 min 0 s left"
    )


def test_a_run_that_fails_has_no_line_of_its_end_and_a_command_that_runs_nothing_has_none():
    log = Log()

    def fail() -> None:
        with log.display.runs(["a"], [10], [0.01]) as report:
            report(0, Standing(3))
            log.now += 5
            report(0, Standing(4))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert log.lines[1:] == ["progress: a: 3 of 10; after 0 s"]
    with log.display.runs(["a"], [10], []):
        pass
    assert len(log.lines) == 2


def test_what_is_not_known_is_not_shown_and_epsilon_is_rounded_up():
    assert standing_text(Standing(0), 300) == "0 of 300"
    assert standing_text(Standing(1000, None, 1.2301), 2000) == "1,000 of 2,000, ε 1.24"
    assert standing_text(Standing(5, 0.25, 1e6), 9) == "5 of 9, accuracy 0.250, ε > 100"
    assert Standing(9, None, 2.0).since(Standing(5, 0.5, 1.0)) == Standing(9, 0.5, 2.0)
    assert "δ from 0.001 to 0.01" in legend([0.01, 0.001, 0.01])


def test_the_bars_fit_a_terminal_of_80_columns_and_show_accuracy_and_epsilon():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, legacy_windows=False, color_system=None)
    labels = ["pfels,privacy.total_epsilon=16,training.learning_rate=0.1,seed=0", "wfl-pdp,seed=1"]
    with Bars(console) as bars:
        assert "loading" in screen.getvalue(), "at once"
        with bars.runs(labels, [20_000, 20_000], [0.01]) as report:
            report(0, Standing(0))
            report(0, Standing(12_345, 0.8731, 15.2301))
            report(1, Standing(20_000, 0.9, 4.0))
            bars.refresh()
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n")
    assert max(map(len, text.splitlines())) <= 80
    assert re.search(r"all rounds +[━╸╺ ]+ 32,345 of 40,000 ", text)
    assert re.search(r"pfels,\S*… +[━╸╺ ]+ 12,345 of 20,000, accuracy 0.873, ε 15.24 ", text)
    assert "at δ = 0.01; neighbours: one" in text


def test_a_command_without_a_terminal_logs_its_progress_and_keeps_stdout_clean(pfels):
    done = pfels("run", "demo", *FAST, "--json")
    assert json.loads(done.stdout)["rounds"] == 6
    begin, first, last, where = done.stderr.splitlines()
    assert "ε spent so far against the server" in begin
    assert re.fullmatch(r"progress: pfels,\S+,seed=0: 0 of 6; after \d+ s", first)
    assert re.fullmatch(r"progress: pfels,\S+,seed=0: 6 of 6, accuracy 0\.\d{3}, ε \d+\.\d\d; after \d+ s", last)
    assert where.startswith("run directory: runs/run/demo/scheme=pfels,")
    done = pfels("sweep", "demo", *FAST, "-g", "scheme=pfels,fedavg", "--seeds", "0,1", "--jobs", "2", "--json")
    assert len(json.loads(done.stdout)["points"]) == 2
    assert re.search(r"^progress: 4 of 4 runs, 24 of 24 rounds; after \d+ s$", done.stderr, re.MULTILINE)


@pytest.mark.parametrize("command", [["run"], ["compare"], ["sweep", "-g", "seed.x=1"]])
def test_something_is_on_the_screen_before_pytorch_is_loaded(tmp_path: Path, command: list[str]):
    """A PyTorch that takes for ever to load stands in for one that takes seconds."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import time\ntime.sleep(600)\n")
    search = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pfels", command[0], "demo", *command[1:]], cwd=tmp_path, stderr=theirs,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": search, "TERM": "xterm", "COLUMNS": "80"},
    )  # fmt: skip
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60
    try:
        while b"loading" not in shown and time.monotonic() < deadline:
            if select.select([ours], [], [], 1.0)[0]:
                shown += os.read(ours, 4096)
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
    assert b"loading" in shown
