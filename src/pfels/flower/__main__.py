"""Print the path of the app, for `flwr run $(python -m pfels.flower)`."""

from pathlib import Path

print(Path(__file__).parent / "app")
