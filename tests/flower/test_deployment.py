"""The app on Flower's own engines: its simulation, and a SuperLink with SuperNodes as processes."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pfels.config.load import load_config
from pfels.experiment import loop
from pfels.experiment.state import delivered
from pfels.flower.loopback import APP, Loopback

GARBAGE = Path(__file__).parent / "garbage_app"
TIMEOUT_S = 180.0


def parameters(run: Path) -> torch.Tensor:
    return delivered(load_file(run / "checkpoint.safetensors"))


def records(run: Path) -> list[dict[str, Any]]:
    log = run / "rounds.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def wait_until(condition: Callable[[], bool], failure: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < until, failure
        time.sleep(0.2)


def listening(pids: list[int]) -> set[str]:
    """The addresses on which these processes listen, as the kernel lists them: 0100007F is 127.0.0.1."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed in the meantime
                inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # the state LISTEN
                found.add(fields[1].partition(":")[0])
    return found


def test_a_killed_node_is_silent_and_a_killed_server_continues(tmp_path: Path):
    out = tmp_path / "run"
    settings = {"scheme": "pfels", "rounds": 3, "out": str(out), "noise": "seed", "reply_timeout_s": 40}
    with Loopback.up(tmp_path / "flower", nodes=2) as deployment:
        with deployment.started(settings):
            wait_until(lambda: len(records(out)) >= 1, "no round was finished")
            wait_until(lambda: bool(deployment.pids("flwr-clientapp")), "no node trains")  # in the middle of a round
            servers = [*deployment.pids("flower-superlink"), *deployment.pids("pfels.flower.node")]
            assert listening(servers) == {"0100007F"}, "something listens beyond loopback"
            os.killpg(deployment.nodes[1].pid, signal.SIGKILL)
            wait_until(lambda: any(r["replies"]["short"] for r in records(out)), "no round without the killed node")
            done = len(records(out))
            for pid in deployment.pids("flwr-serverapp"):
                os.kill(pid, signal.SIGKILL)
        output = deployment.run(settings)
        assert (out / "summary.json").exists(), output
        assert deployment.pids()
    assert deployment.pids() == []
    rounds = records(out)
    assert [r["round"] for r in rounds] == list(range(3))
    assert done < 3
    assert f"round {done}:" not in output, "finished rounds are not played again"
    for record in rounds[done:]:
        replies = record["replies"]
        assert replies["used"] == sum(device % 2 == 0 for device in record["cohort"])
        assert replies["short"]
    assert torch.isfinite(parameters(out)).all()


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    with Loopback.up(tmp_path_factory.mktemp("flower"), nodes=4, simulated=True) as deployment:
        yield deployment


@pytest.mark.parametrize(
    "changes",
    [{"scheme": "pfels"}, {"scheme": "pfels-plus"}, {"scheme": "pfels-echo", "compression.ratio": 1.0}],
    ids=lambda changes: changes["scheme"],
)
def test_a_model_from_flowers_simulation_is_the_simulators(
    simulation: Loopback, tmp_path: Path, changes: dict[str, Any]
):
    out, settings = tmp_path / "run", {**changes, "rounds": 10}
    output = simulation.run({**settings, "out": str(out), "noise": "seed"}, federation={"num-supernodes": 4})
    assert (out / "summary.json").exists(), output
    own = loop.run(load_config("demo", settings)).parameters
    assert float((parameters(out) - own).norm() / own.norm()) < 1e-6
    k = records(out)[0]["subcarriers"]
    assert 4 * k <= fmean(r["replies"]["bytes_per_device"] for r in records(out)) <= 1.05 * 4 * k
    assert "FedAvg would upload 9,640" in output


def test_a_client_that_sends_nan_is_counted_and_harmless(simulation: Loopback, tmp_path: Path):
    app = tmp_path / "garbage-app"
    shutil.copytree(GARBAGE, app, ignore=shutil.ignore_patterns("__pycache__"))
    manifest = (APP / "pyproject.toml").read_text()
    (app / "pyproject.toml").write_text(
        manifest.replace("pfels.flower.client_app:app", "garbage:app").replace('"pfels-app"', '"garbage-app"')
    )
    out = tmp_path / "run"
    output = simulation.run(
        {"scheme": "wfl-pdp", "rounds": 3, "out": str(out), "noise": "seed"}, federation={"num-supernodes": 4}, app=app
    )
    assert (out / "summary.json").exists(), output
    for record in records(out):
        unusable = sum(device % 4 == 3 for device in record["cohort"])
        assert record["replies"]["dropped"] == ({"not finite": unusable} if unusable else {})
    assert torch.isfinite(parameters(out)).all()


def test_a_wrong_key_is_refused_in_one_line(tmp_path: Path):
    with Loopback.up(tmp_path / "flower", nodes=0) as deployment:
        output = deployment.run({"rounds": 0, "out": str(tmp_path / "run")})
    assert "error: rounds = 0: must be a whole number in [1, 1000000000]" in output, output
    assert not (tmp_path / "run").exists()


def test_a_run_continues_after_its_superlink_was_killed_with_all_that_it_held(tmp_path: Path):
    """Flower's state is in memory, the run's own in its run directory. Nodes are started again, one of them wrongly."""
    out = tmp_path / "run"
    settings = {"scheme": "pfels", "rounds": 3, "out": str(out), "noise": "seed", "reply_timeout_s": 40}
    with Loopback.up(tmp_path / "flower", nodes=2) as deployment:
        with deployment.started(settings):
            wait_until(lambda: len(records(out)) >= 1, "no round was finished")
            for pid in deployment.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        done = len(records(out))
        wait_until(lambda: all(process.poll() is not None for process in deployment.processes), "a process is left")
        deployment.start_link()
        deployment.start_node(0, 2)
        deployment.start_node(1, 2, **{"privacy.epsilon": 0.1})
        output = deployment.run({**settings, "reply_timeout_s": 15})
        assert (out / "summary.json").exists(), output
    assert "privacy.epsilon = 0.1 on the node, 0.5 at the server" in output
    rounds = records(out)
    assert [r["round"] for r in rounds] == list(range(3))
    assert 1 <= done < 3
    for record in rounds[done:]:
        assert record["replies"]["used"] == sum(device % 2 == 0 for device in record["cohort"])
