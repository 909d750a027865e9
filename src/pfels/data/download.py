"""One small file over HTTPS, verified by its published checksum."""

import urllib.request
from pathlib import Path

from pfels.data.cache import BLOCK, Progress, Workspace, digest
from pfels.data.packages import REASON, SourceError

TIMEOUT_S = 30
MAXIMUM_BYTES = 2**26  # QMNIST's labels, 60,000 rows of 8 integers, have 1.9 MB


def download(url: str, checksum: str, work: Workspace, progress: Progress) -> Path:
    """The file at an address, as `algorithm:hex` says; one that arrived completely before a kill is used again."""
    target = work.download / url.rpartition("/")[2]
    algorithm = checksum.partition(":")[0]
    if not (target.exists() and digest(target, algorithm) == checksum):
        try:
            _fetch(url, target, progress)
        except (OSError, ValueError) as error:
            raise SourceError(f"could not download {target.name} ({str(error)[:REASON]})") from None
        if digest(target, algorithm) != checksum:
            target.unlink()
            raise SourceError(f"the {target.name} that was downloaded is another: its {algorithm} is not the published")
    return target


def _fetch(url: str, target: Path, progress: Progress) -> None:
    done = 0
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer, open(target, "wb") as file:
        total = int(answer.headers.get("Content-Length") or 0)
        while block := answer.read(BLOCK):
            done += len(block)
            if done > MAXIMUM_BYTES:
                raise ValueError(f"more than {MAXIMUM_BYTES} bytes")
            file.write(block)
            progress(target.name, done, total)
