"""How a cohort's training is carried out. Every engine gives the same updates, but for the rounding of its sums.

`batched` trains many devices as one tensor program, `threaded` one device after another in each thread. Both cut the
cohort along lines that depend on the cohort and the model alone, so the number of workers changes no bit.
"""

import itertools

from pfels.models import Network

ENGINES = ("batched", "threaded")

# A chunk of devices trained together holds about so many parameters: enough to keep Python's share of the time
# small, few enough to stay near a core's cache and to leave work for every core.
CHUNK_PARAMETERS = 2**20


def resolve(engine: str, network: Network) -> str:
    """The engine that a name stands for: `auto` is a fixed rule, found by the measurements in docs/performance.md.

    Products of many small matrices gain from being stacked; convolutions are large enough one device at a time.
    """
    if engine != "auto":
        return engine
    return "batched" if network.head is not None else "threaded"


def chunks(engine: str, *, cohort: int, dimension: int) -> list[slice]:
    """The cohort cut into parts that are trained together: device by device, or the fewest even chunks that fit."""
    count = cohort if engine == "threaded" else min(cohort, -(-cohort * dimension // CHUNK_PARAMETERS))
    edges = [cohort * i // count for i in range(count + 1)] if cohort else []
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
