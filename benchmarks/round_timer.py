"""The timer inside a measured process: reports the time of each round, then waits until the next may begin."""

import json
import resource
import sys
import time


class RoundTimer:
    """Times rounds, the first from when the timer is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def next_round(self) -> None:
        """End a round; returns when the next one may begin, and exits the process if there is none."""
        seconds = time.perf_counter() - self._began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "peak_bytes": peak}), flush=True)
        if not sys.stdin.readline():
            raise SystemExit
        self._began = time.perf_counter()
