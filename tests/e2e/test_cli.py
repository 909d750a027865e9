"""The command as a user meets it: real processes, exit codes, one line for what is wrong."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from pfels.config.load import load_config
from pfels.experiment.loop import run
from pfels.runtime.memory import available_memory
from tests.conftest import SMALL

FAST = [word for key, value in SMALL.items() for word in ("-s", f"{key}={value}")]


def bad_npz(path: Path, **changes) -> str:
    x, y = np.zeros((40, 4), np.float32), np.zeros(40, np.int64)
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "demo", "-s", "compression.ration=1"], "did you mean compression.ratio?"),
        (["run", "demo", "-s", "scheme=pfel"], "did you mean pfels?"),
        (["run", "nosuch"], "neither a preset"),
        (["run", "demo", "--resume", "--out", "none"], "nothing to resume"),
        (["run", "demo", "--out", "/proc/none"], "cannot be written"),
        (["run", "demo", "-s", "data.name=file", "-s", "data.path=none.npz"], "no such file"),
        (["run", "demo", "-s", "privacy.delta=0.5"], "delta = 0.5: must be below"),
        (["run", "demo", "-s", "data.devices=2000", "-s", "privacy.delta=0.001"], "the data hold 1437"),
        (["run", "demo", "-s", "privacy.total_epsilon=1"], "pfels does not use it, only pfels-plus"),
        (["privacy", "demo", "-s", "privacy.adversary=outsider"], "pfels does not use it, only pfels-plus"),
        (
            ["sweep", "demo", "-g", "scheme=pfels,pfels-plus", "-g", "privacy.total_epsilon=2,4"],
            "pfels does not use it, only pfels-plus",
        ),
        (
            ["run", "demo", "-s", "scheme=pfels-plus", "-s", "cohort.sampling=without-replacement"],
            "pfels-plus always uses poisson sampling",
        ),
        (["run", "demo", "-s", "compresion.ratio=0.1"], "compresion: unknown table; did you mean compression?"),
        (
            ["privacy", "--target-epsilon", "2", "--adversary", "outsider", "--participations", "9"],
            "against the server",
        ),
        (["plan", "demo", "--adversary", "outsider"], "--adversary: says against whom --total-epsilon must hold"),
        (["privacy", "demo", "--adversary", "server"], "--adversary: says against whom --target-epsilon must hold"),
        (["run", "--bogus"], "No such option"),
        (["frobnicate"], "No such command"),
        (["compare", "demo", "--schemes", "pfels,foo"], "unknown scheme"),
        (
            ["plan", "demo", "-s", "pfels-echo.bands=9"],
            "pfels-echo.bands = 9: a device's echo would overlap its next turn",
        ),
        (
            ["run", "demo", "-s", "scheme=pfels-echo", "-s", "compression.ratio=0.7"],
            "within 20 % of some 1/m; use 1 or 0.5",
        ),
        (["run", "demo", "-s", "scheme=pfels-echo", "-s", "cohort.size=51"], "at most half of data.devices = 100"),
        (["run", "demo", "-s", "cohort.sampling=turns", "-s", "cohort.size=51"], "at most half of data.devices = 100"),
        (["run", "demo", "-s", "data.name=synthetic", "-s", "data.features=hog"], "needs images"),
        (["run", "demo", "-s", "server.average=1"], "server.average = 1"),
        (["run", "demo", "-s", "pfels-echo.bands=2"], "pfels-echo.bands: pfels does not use it"),
        (["compare", "demo", "--seeds", "0,0"], "distinct values"),
        (["compare", "demo", "--seeds", "a"], "whole numbers"),
        (["compare", "demo", "--jobs", "0"], "--jobs"),
        (["sweep", "demo"], "--grid: needed"),
        (["sweep", "demo", "-g", "rounds"], "must read key=v1,v2"),
        (["sweep", "demo", "-g", "rounds=1,x"], "rounds = 'x'"),
        (["compare", "demo", "--seeds", "0,00"], "must be distinct"),
        (["compare", "demo", "--seeds", "9" * 5000], "whole numbers"),
        (["compare", "demo", "-s", "seed=5"], "use --seeds"),
        (["plan", "demo", "-s", "scheme=pfels"], "use --schemes"),
        (["plan", "demo", "-s", "rounds=" + "[" * 3000], "must be a whole number"),
        (["plan", "demo", "-s", "rounds=" + "9" * 5000], "must be a whole number"),
        (["plan", "demo", "-s", "channel.snr_max_db=10000"], "in [-300, 300]"),
        (["plan", "demo", "-s", "training.clip=1e308"], "in [1e-20, 1e+20]"),
        (["plan", "demo", "-s", "privacy.delta=1e-320"], "in [1e-300, 1)"),
        (["plan", "a" * 300], "cannot be read"),
        (["run", "demo", "--out", "a" * 300], "File name too long"),
        (["run", "demo", "--out", os.fsdecode(b"bad\xffname")], "not valid UTF-8"),
        (["privacy", "--noise-multiplier", "1e300"], "from 1e-12 to 1e+100"),
        (["sweep", "demo", "-g", "compression.ratio=0.3,0.30"], "must be distinct"),
        (["sweep", "demo", "-g", "rounds=1", "-g", "rounds=2"], "has an axis already"),
        (["reproduce", "fig-privacy", "--scale", "laptop", "--preset", "nosuch"], "neither a preset"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2_and_touches_nothing(pfels, tmp_path: Path, arguments, message):
    done = pfels(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "lacks y_test"),
        ({"x_train": np.zeros((40, 4, 4, 4, 4), np.float32)}, "x_train: 5 axes; must be 1 to 4"),
        ({"x_test": np.zeros((40, 5), np.float32)}, "x_test has shape"),
        ({"x_train": np.zeros((40, 4), np.int32)}, "x_train is int32"),
        (
            {"x_train": np.full((40, 4), np.nan, np.float32)},
            "x_train holds NaN, infinity, or a number that is one in float32",
        ),
        ({"y_train": np.zeros(39, np.int64)}, "y_train is int64 of shape (39,)"),
        ({"y_train": np.full(40, -1)}, "integer labels from 0"),
        ({"y_train": np.full(40, 10**12)}, "must be below 1000000"),
        ({"writer_train": np.zeros(3)}, "writer_train has shape"),
        (
            {"x_train": np.array([{}] * 40)},
            "x_train: an array of Python objects, as pandas keeps text and mixed columns",
        ),
    ],
)
def test_a_wrong_data_file_is_refused_by_the_array_that_is_wrong(tmp_path: Path, changes, message):
    from pfels.errors import InputError

    path = bad_npz(tmp_path / "data.npz", **changes)
    with pytest.raises(InputError) as caught:
        run(load_config("demo", {"data.name": "file", "data.path": path, "data.devices": 20}))
    assert message in str(caught.value)
    assert path in str(caught.value)


def test_a_file_that_is_no_archive_is_refused(pfels, tmp_path: Path):
    (tmp_path / "x.npz").write_bytes(b"not a zip")
    done = pfels("run", "demo", "-s", "data.name=file", "-s", "data.path=x.npz")
    assert (done.returncode, "not a readable .npz" in done.stderr) == (2, True)
    assert os.listdir(tmp_path) == ["x.npz"]


def test_run_gives_one_json_document_and_everything_else_on_stderr(pfels, tmp_path: Path):
    done = pfels("run", "demo", *FAST, "--out", "here", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "here" / "summary.json").read_text())
    assert "run directory: here" in done.stderr


def test_run_prints_every_privacy_figure_with_its_adversary_and_delta(pfels):
    done = pfels("run", "demo", *FAST)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "server: ε = " in text
    assert text.count("δ = ") >= 2
    assert "neighbours" in text
    assert "outsider: no ε (" in text


def test_compare_gives_the_promised_json(pfels):
    done = pfels("compare", "demo", *FAST, "--schemes", "pfels,fedavg", "--seeds", "0,1", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["schemes"]
    assert list(rows) == ["pfels", "fedavg"]
    assert rows["pfels"]["energy"].keys() == rows["pfels"]["accuracy"].keys() == {"mean", "std", "standard_error"}
    assert rows["fedavg"]["energy"] is None
    assert rows["pfels"]["privacy"]["server"]["epsilon"] > 0


def test_no_privacy_figure_of_a_table_stands_without_adversary_neighbours_and_delta(pfels):
    done = pfels(
        "compare",
        "demo",
        *FAST,
        "--schemes",
        "pfels,pfels-plus,wfl-p",
        "-s",
        "privacy.delta=0.02",
        "-s",
        "privacy.epsilon=0.6",
    )
    said = " ".join(done.stdout.split())
    assert (
        "server ε: against the server, over the whole training, for the worst device of the worst seed, at "
        "δ = 0.02, and beside it at δ = 1e-5; neighbours: one" in said
    )
    assert (
        "claimed ε: the paper's, against the server, for one round, at δ = 0.02; neighbours: one device added" in said
    )
    assert re.search(r"pfels-plus against an outsider .* ε = [\d.]+ at δ = 0.02, add-remove neighbours \(pld\)", said)
    assert "pfels against an outsider" not in said
    assert re.search(r"^ *pfels .* 0\.6\* ", done.stdout, re.MULTILINE), "outside the range of the paper's proof"


def test_compare_shows_one_row_per_scheme_and_a_dash_for_no_energy(pfels):
    done = pfels("compare", "demo", *FAST, "--schemes", "pfels,fedavg", "--seeds", "0")
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "–" in rows["fedavg"]
    assert "e" in rows["pfels"]
    assert "δ = 0.0333333" in done.stdout


def test_one_seed_has_no_spread_and_what_only_pfels_plus_uses_goes_to_it_alone(pfels):
    options = ["--schemes", "pfels,pfels-plus", "--seeds", "0", "-s", "channel.silent_below=0.01"]
    done = pfels("compare", "demo", *FAST, *options, "--total-epsilon", "4")
    assert done.returncode == 0, done.stderr
    assert "±" not in done.stdout
    said = " ".join(done.stdout.split())
    assert "Budget: ε = 4 for the whole training, against the server." in said
    floor = next(path for path in done.stderr.split() if path.startswith("runs/"))
    assert "channel.silent_below=0.01" in floor


def test_the_version_is_shown(pfels):
    done = pfels("--version")
    assert (done.returncode, done.stdout) == (0, f"pfels {version('pfels')}\n")


def test_sweep_gives_one_row_per_point(pfels):
    done = pfels("sweep", "demo", *FAST, "-g", "compression.ratio=0.1,1.0", "--seeds", "0,1", "--json")
    points = json.loads(done.stdout)["points"]
    assert [point["settings"] for point in points] == [{"compression.ratio": 0.1}, {"compression.ratio": 1.0}]
    assert all(point["seeds"] == [0, 1] for point in points)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_saves_and_exits_130(tmp_path: Path, how: signal.Signals):
    """However often it comes: a second one must not interrupt the saving."""
    out = tmp_path / "a"
    command = [sys.executable, "-m", "pfels", "run", "demo", *FAST, "-s", "rounds=100000", "--out", str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(how, signal.SIG_DFL),  # noqa: PLW1509 - under nohup SIGHUP is ignored
    )  # fmt: skip
    deadline = time.monotonic() + 180
    while (
        not ((out / "rounds.jsonl").exists() and (out / "rounds.jsonl").stat().st_size) and time.monotonic() < deadline
    ):
        time.sleep(0.002)
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(how)
        time.sleep(0.002)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "saved" in stderr
    assert "Traceback" not in stderr
    assert (out / "checkpoint.safetensors").exists()


def test_an_interrupt_while_the_command_loads_is_no_traceback(tmp_path: Path):
    """The first thing it imports on the way to its commands interrupts it."""
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    command = [sys.executable, "-m", "pfels", "plan", "demo"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False, cwd="/"
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_what_a_terminal_cannot_show_is_no_reason_to_fail(tmp_path: Path):
    command = [sys.executable, "-m", "pfels", "plan", "demo", "-s", "rounds=2", "--schemes", "pfels"]
    plain = os.environ | {"PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, env=plain, capture_output=True, cwd=tmp_path, check=True)
    assert b"privacy-limited" in shown.stdout
    given = subprocess.run([*command, "--json"], env=plain, capture_output=True, cwd=tmp_path, check=True)
    assert json.loads(given.stdout)["schemes"].keys() == {"pfels"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()) == (1, [b"error: output: No space left on device"])


@pytest.mark.parametrize(
    ("hidden", "code", "message"),
    [(4_000_000, 1, "not enough memory; choose a smaller network"), (1_000_000_000, 2, "at least 3000.0 GB")],
)
def test_too_large_a_network_ends_in_one_line(pfels, hidden: int, code: int, message: str):
    """The first is refused by PyTorch, under a limit of 4 GB; the second, the largest that a config takes, by us."""
    if code == 1 and (available_memory() or 0) < 13e9:
        pytest.skip("so little memory is free that both are refused by us")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)

    done = pfels("run", "demo", "-s", f"model.hidden={hidden}", preexec_fn=limited)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert message in done.stderr


def test_help_teaches_by_example(pfels):
    assert "pfels compare demo" in pfels("--help").stdout
    for command in ("run", "compare", "sweep", "audit"):
        assert f"pfels {command} demo" in pfels(command, "--help").stdout


def test_help_does_not_wait_for_torch():
    code = "import sys, pfels.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("given", "kept"), [(None, "1"), ("3", "3")])
def test_the_command_keeps_openblas_to_one_thread_unless_told_otherwise(given: str | None, kept: str):
    code = """
import os, sys
sys.argv = ["pfels", "privacy", "demo", "-s", "rounds=3"]
from pfels.__main__ import main
try:
    main()
finally:
    print(os.environ["OPENBLAS_NUM_THREADS"], len(os.listdir("/proc/self/task")))
"""
    clean = {key: value for key, value in os.environ.items() if key not in {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}}
    clean |= {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True)
    limit, threads = done.stdout.split("\n")[-2].split()
    assert limit == kept
    if given is None:
        assert threads == "1", "it is set before NumPy is loaded"


def test_init_writes_a_config_that_runs_and_never_overwrites_one(pfels, tmp_path: Path):
    done = pfels("init", "my config.toml")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "wrote 'my config.toml'; run it: pfels run 'my config.toml'\n"
    path = tmp_path / "my config.toml"
    assert "pfels run 'my config.toml'" in path.read_text("utf-8")
    made = json.loads(pfels("run", path.name, "-s", "rounds=3", "--json").stdout)
    demo = json.loads(pfels("run", "demo", "-s", "rounds=3", "--json").stdout)
    assert {**made, "seconds": 0} == {**demo, "seconds": 0}
    path.write_text("rounds = 7")
    for name, message in ((path.name, "exists"), ("no/such.toml", "no such directory")):
        done = pfels("init", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
    assert path.read_text("utf-8") == "rounds = 7"
