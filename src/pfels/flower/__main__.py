"""Print the path of the app, for `flwr run $(python -m pfels.flower)`."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the current directory: nothing is imported from there

from pathlib import Path

print(Path(__file__).parent / "app")
