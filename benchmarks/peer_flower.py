"""The same FedAvg work on Flower's simulation: a client app with the plain loop's training, and Flower's FedAvg.

python peer_flower.py WORK DATA [--load-each-call]

It is started as Flower says, by `flwr run` with a SuperLink in simulation mode.

A client that keeps data and network from call to call is the fastest way to use Flower; `--load-each-call` measures a
client that loads its data and builds its network at every call.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from machine import cores
from plain_loop import model_for, train_device
from round_timer import RoundTimer
from work import WORKS, Work, examples

logging.disable(logging.INFO)

client = ClientApp()
server = ServerApp()


@cache
def setting() -> tuple[Work, torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The work, a network and the data, loaded once per process."""
    work = WORKS[os.environ["BENCH_WORK"]]
    torch.set_num_threads(1)  # one client per core
    return work, model_for(work), *examples(work, Path(os.environ["BENCH_DATA"]))


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train one device."""
    if "BENCH_LOAD" in os.environ:
        setting.cache_clear()
    _, model, x, y = setting()
    device = int(context.node_config["partition-id"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    train_device(model, x[device], y[device])
    arrays = ArrayRecord(model.state_dict())
    metrics = MetricRecord({"num-examples": len(y[device])})
    return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@server.main()
def serve(grid: Grid, context: Context) -> None:
    """Rounds until the timer exits."""
    work, model, _, _ = setting()
    timer = RoundTimer()

    def after_round(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        if server_round:  # round 0 is the initial model
            timer.next_round()
        return MetricRecord()

    strategy = FedAvg(
        fraction_train=work.cohort / work.devices,
        fraction_evaluate=0.0,
        min_train_nodes=work.cohort,
        min_available_nodes=work.devices,
    )
    strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10**6, evaluate_fn=after_round)


LINK = """\
[superlink]
default = "here"
[superlink.here]
address = "127.0.0.1:{port}"
insecure = true
"""
APP = """\
[project]
name = "bench"
version = "0.1.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "bench"
[tool.flwr.app.components]
serverapp = "peer_flower:server"
clientapp = "peer_flower:client"
[tool.flwr.app.config]
"""


def main() -> None:
    """Run the simulation with one client per core at a time."""
    os.environ["BENCH_WORK"], os.environ["BENCH_DATA"] = sys.argv[1:3]
    if "--load-each-call" in sys.argv:
        os.environ["BENCH_LOAD"] = "1"
    os.environ["PYTHONPATH"], tools = str(Path(__file__).parent.absolute()), Path(sys.executable).parent
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        home, port = Path(folder), free.getsockname()[1]
        free.close()
        os.environ |= {"FLWR_HOME": folder, "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
        os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  (else its workers wait for everybody else here)
        (home / "config.toml").write_text(LINK.format(port=port))
        (home / "app").mkdir()
        (home / "app" / "pyproject.toml").write_text(APP)
        link = ["flower-superlink", "--insecure", "--simulation", "--host", "127.0.0.1", "--port", str(port)]
        subprocess.Popen([*link, "--disable-runtime-dependency-installation"])  # the one who timed ends it
        nodes, per_client = f"num-supernodes={WORKS[sys.argv[1]].devices}", "client-resources-num-cpus=1"
        federation = f"{nodes} {per_client} init-args-num-cpus={cores()}"
        while urlopen_fails(f"http://127.0.0.1:{port}/health"):
            time.sleep(0.2)
        command = ["flwr", "run", str(home / "app"), "here", "--stream", "--federation-config", federation]
        subprocess.run(command, check=True)


def urlopen_fails(address: str) -> bool:
    """Whether nobody answers there yet."""
    try:
        with urllib.request.urlopen(address, timeout=1):
            return False
    except (urllib.error.URLError, OSError):
        return True


if __name__ == "__main__":
    main()
