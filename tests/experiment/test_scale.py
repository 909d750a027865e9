import itertools
import resource
import time

from pfels.config.load import load_config
from pfels.experiment import loop

SETTINGS = {"data.name": "synthetic", "data.per_device": 20, "cohort.size": 16, "run.workers": 1, "run.eval_every": 50}


def rounds(devices: int) -> tuple[float, int]:
    """The shortest of 30 rounds in seconds of this process's time, and how high its memory has been, in bytes."""
    marks = []
    config = load_config("demo", {**SETTINGS, "data.devices": devices, "rounds": 30})
    loop.run(config, progress=lambda record: marks.append(time.process_time()))
    shortest = min(after - before for before, after in itertools.pairwise(marks))
    return shortest, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_million_devices_cost_a_round_little_more_than_a_thousand():
    few, before = rounds(1_000)
    many, after = rounds(1_000_000)
    assert after - before < 200e6
    # The benchmark holds it to 1.2 times; here a round is much smaller, and other work may be going on beside it.
    assert many < 2.5 * few
