"""The same FedAvg work on Flower's simulation: a client app with the plain loop's training, and Flower's FedAvg.

python peer_flower.py WORK DATA [--load-each-call]

A client that keeps data and network from call to call is the fastest way to use Flower; `--load-each-call` measures a
client that loads its data and builds its network at every call.
"""

import logging
import os
import sys
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from plain_loop import model_for, train_device
from round_timer import RoundTimer
from work import WORKS, Work, cores, examples

logging.disable(logging.INFO)

client, server = ClientApp(), ServerApp()


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


def main() -> None:
    """Run the simulation with one client per core at a time."""
    os.environ["BENCH_WORK"], os.environ["BENCH_DATA"] = sys.argv[1:3]
    if "--load-each-call" in sys.argv:
        os.environ["BENCH_LOAD"] = "1"
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    import peer_flower  # by its name, as the workers import it

    run_simulation(
        server_app=peer_flower.server,
        client_app=peer_flower.client,
        num_supernodes=WORKS[sys.argv[1]].devices,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": cores(), "include_dashboard": False},
        },
    )


if __name__ == "__main__":
    main()
