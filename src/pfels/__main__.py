"""The `pfels` command, and `python -m pfels`: signals come first, so that no early Ctrl-C ends in a traceback."""

import os
import sys

from pfels.runtime.signals import interrupt_once


def main() -> None:
    """Run the command."""
    interrupt_once()
    # NumPy and SciPy bring thread pools of their own. We give them little to do, and their idle threads use CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from pfels.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
