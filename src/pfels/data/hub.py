"""Rows of a data set on the Hugging Face hub, through its own client, which resumes interrupted downloads."""

import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfels.data.cache import Progress
from pfels.data.packages import REASON, SourceError
from pfels.errors import shown

ENDPOINT = "https://huggingface.co"
TIMEOUT_S = 10


def rows(repository: str, split: str, progress: Progress, *, revision: str | None) -> Iterator[Mapping[str, Any]]:
    """The rows of one split of a revision, the latest if None, in the order of the hub; images are Pillow images."""
    if importlib.util.find_spec("datasets") is None:
        raise SourceError("the datasets package is not installed; pip install 'pfels[hub]'")
    if not _reachable():
        os.environ["HF_HUB_OFFLINE"] = "1"  # its client then answers at once, from its own cache or with an error
    import datasets

    datasets.logging.set_verbosity_error()
    try:
        table = datasets.load_dataset(repository, split=split, revision=revision)
    except Exception as error:  # on any error of the client, the next source is tried
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise SourceError(f"could not load {repository} from the hub: {reason[0][:REASON]}") from None
    total = len(table)
    for done, row in enumerate(table, start=1):
        yield row
        if done % 500 == 0 or done == total:
            progress(f"{repository}, {split}", done, total)


def pixels(image: Any, mode: str) -> NDArray[np.uint8]:
    """A Pillow image as bytes: (height, width) for mode L, (height, width, 3) for RGB."""
    return np.asarray(image.convert(mode), dtype=np.uint8)


def _reachable() -> bool:
    """Whether the hub answers; its own client would take half a minute to give up."""
    endpoint = os.environ.get("HF_ENDPOINT") or ENDPOINT
    if not endpoint.lower().startswith("https://"):
        raise SourceError(f"HF_ENDPOINT = {shown(endpoint, maximum=REASON)}: must begin with https://")
    try:
        request = urllib.request.Request(endpoint, method="HEAD")
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True
