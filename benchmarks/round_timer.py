"""The timer inside a measured process: reports the time of each round, then waits until the next may begin."""

import json
import os
import resource
import socket
import time


class RoundTimer:
    """Times rounds, the first from when the timer is made, for the process that listens at BENCH_PORT."""

    def __init__(self) -> None:
        self._lines = socket.create_connection(("127.0.0.1", int(os.environ["BENCH_PORT"]))).makefile("rw")
        self._began = time.perf_counter()

    def next_round(self) -> None:
        """End a round; returns when the next one may begin, and exits the process if there is none."""
        seconds = time.perf_counter() - self._began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self._lines.write(json.dumps({"seconds": seconds, "peak_bytes": peak}) + "\n")
        self._lines.flush()
        if not self._lines.readline():
            raise SystemExit
        self._began = time.perf_counter()
