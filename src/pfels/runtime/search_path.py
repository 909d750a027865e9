"""Where Python looks for modules: not in the current directory, which may hold what somebody else wrote."""

import os
import sys

SAFE = "PYTHONSAFEPATH"  # set: `python -c`, with which multiprocessing starts its helpers, leaves the directory out


def leave_out_current_directory() -> None:
    """Import nothing from the current directory, here or in processes that are started from now on, unless PYTHONPATH
    names it. An empty entry, as in PYTHONPATH=$UNSET:/my/modules, names nothing."""
    os.environ[SAFE] = "1"
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = [entry for entry in entries if entry]
    if len(named) == len(entries) or sys.flags.ignore_environment:
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(named)
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was deleted, and nothing can be imported from it
        return
    if here not in map(os.path.abspath, named):
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
