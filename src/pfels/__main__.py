"""The `pfels` command, and `python -m pfels`: signals come first, so that no early Ctrl-C ends in a traceback."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the current directory, which `python -m` puts first: nothing is imported from there

from pfels.runtime.search_path import leave_out_current_directory

SMALL = {"--help", "--version"}  # what takes hardly any memory


def main() -> None:
    """Run the command."""
    leave_out_current_directory()

    # Not before: they import modules of Python.
    from pfels.runtime.short_memory import LINE, short_of_memory, too_low_a_limit
    from pfels.runtime.signals import interrupt_once

    interrupt_once()
    if not SMALL & set(sys.argv) and (line := too_low_a_limit()):
        sys.exit(_failed(line))
    # NumPy and SciPy bring thread pools of their own. We give them little to do, and their idle threads use CPU time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from pfels.cli import main as command
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not short_of_memory(error):
            raise
        sys.exit(_failed(LINE))
    command()


def _failed(line: str) -> int:
    print(f"error: {line}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
