"""Local training of the demo's cohort: our engine against a plain PyTorch loop over devices, in one run.

`make bench` prints a table and, with --json, one JSON document. The two take turns, so that a noisy machine
disturbs both alike; each is given by its fastest turn.
"""

import argparse
import json
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from pfels import load_config
from pfels.assembly import Experiment, build
from pfels.seeding import Purpose, generator


def plain_loop(experiment: Experiment, theta: Tensor, cohort: list[int]) -> Tensor:
    """What one would write first: a module and an optimiser a device, one device after the other."""
    training, hidden = experiment.config.training, experiment.config.model.hidden
    features, classes = experiment.network.layers[0].fan_in, experiment.dataset.classes
    updates = []
    for device in cohort:
        model = nn.Sequential(nn.Flatten(), nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, classes))
        w1, b1, w2, b2 = experiment.network.unflatten(theta.unsqueeze(0))
        start = {"1.weight": w1[0].T, "1.bias": b1[0], "3.weight": w2[0].T, "3.bias": b2[0]}
        model.load_state_dict(start)
        optimiser = torch.optim.SGD(model.parameters(), lr=training.learning_rate, momentum=training.momentum)
        shard = experiment.system.training.federation.examples([device])
        n = int(shard.counts[0])
        for _ in range(training.local_epochs):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(shard.x[0, :n]), shard.y[0, :n]).backward()
            optimiser.step()
        end = dict(model.named_parameters())
        parts = [(end[name].detach() - start[name]) for name in start]
        updates.append(torch.cat([(p.T if p.dim() == 2 else p).flatten() for p in parts]))
    return torch.stack(updates)


def ours(experiment: Experiment, theta: Tensor, cohort: list[int]) -> Tensor:
    """The same work by the package's engine."""
    orders = lambda device: generator(0, Purpose.BATCHES, device=device)  # noqa: E731
    parts = experiment.system.training.cohort(theta, cohort, orders, workers=experiment.system.workers)
    return torch.cat([part.updates for part in parts])


def fastest(work: dict[str, Callable[[], Tensor]], turns: int) -> dict[str, float]:
    """The least seconds of each piece of work over so many turns, taken in alternation."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(turns):
        for name, call in work.items():
            began = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


def main() -> None:
    """Measure, check that both learn the same, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--turns", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    experiment = build(load_config("demo"))
    theta = experiment.network.initial(generator(0, Purpose.MODEL))
    cohort = experiment.system.cohort(0).tolist()
    difference = float((plain_loop(experiment, theta, cohort) - ours(experiment, theta, cohort)).abs().max())
    assert difference < 1e-5, f"the two disagree by {difference}"
    work = {
        "plain loop": lambda: plain_loop(experiment, theta, cohort),
        "pfels": lambda: ours(experiment, theta, cohort),
    }
    seconds = fastest(work, options.turns)
    ratio = seconds["plain loop"] / seconds["pfels"]
    if options.json:
        print(json.dumps({"seconds_a_round": seconds, "ratio": ratio, "largest_difference": difference}))
        return
    print(
        f"local training of the demo's cohort ({len(cohort)} devices, d = {len(theta):,}), fastest of {options.turns}"
    )
    for name, taken in seconds.items():
        print(f"  {name:<12}{1000 * taken:8.2f} ms a round")
    print(f"  pfels is {ratio:.1f} times as fast; largest difference of an update's coordinate {difference:.1e}")


if __name__ == "__main__":
    main()
