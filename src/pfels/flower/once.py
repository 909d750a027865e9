"""A round is asked for once: its noise is drawn anew whenever it is played, so playing it twice would cost twice."""

from pathlib import Path

from pfels.store import read_json, to_json, write_atomically


class Begun:
    """The last round that a run directory has begun to ask for, kept in `begun.json`, which outlives the process."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "begun.json"

    def claim(self, t: int) -> bool:
        """Whether round t is begun only now; it is on disk before any node is asked."""
        if t <= (read_json(self._path) or {"round": -1})["round"]:
            return False
        write_atomically(self._path, to_json({"round": t}))
        return True
