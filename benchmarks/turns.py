"""A side's part in a contest: say how long the round took, and wait for the next turn."""

import json
import resource
import sys
import time


class Turns:
    """Counts from the moment it is made, or from the last turn on."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def next(self) -> None:
        """End a round; returns when the next one may begin, and ends the process when there is none."""
        seconds = time.perf_counter() - self._began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "peak_bytes": peak}), flush=True)
        if not sys.stdin.readline():
            raise SystemExit
        self._began = time.perf_counter()
