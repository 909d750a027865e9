"""Run directories, named by what sets them apart."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any


def point_name(settings: Mapping[str, Any]) -> str:
    """A directory name that reads like the settings: `scheme=pfels,seed=0`."""
    name = ",".join(f"{key}={value}" for key, value in settings.items())
    safe = re.sub(r"[^A-Za-z0-9=,._+-]", "_", name)[:150]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
