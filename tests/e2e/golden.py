"""What results must stay the same from version to version, as hashes: `python -m tests.e2e.golden` writes them anew.

Runs are pinned to the bit: the log and the checkpoint of variants of the schemes over a dozen rounds of the demo. The
schemes themselves are pinned by what `pfels verify` recomputes (docs/make_published.py). Of JSON documents the figures
are pinned, without the sentences: words may be improved, and numbers may not change.
"""

import hashlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pfels
from pfels.studies.published import arithmetic, run_figures

PINNED = Path(__file__).with_name("golden.json")
RUNS: dict[str, dict[str, Any]] = {
    "pfels-plus, error feedback": {"scheme": "pfels-plus", "compression.error_feedback": True},
    "pfels-plus, public-top-k": {"scheme": "pfels-plus", "compression.kind": "public-top-k"},
    "pfels-plus, outsider": {"scheme": "pfels-plus", "privacy.adversary": "outsider", "privacy.total_epsilon": 2.0},
    "pfels, Poisson, momentum": {"scheme": "pfels", "cohort.sampling": "poisson", "server.momentum": 0.5},
}
SHORT = ("-s", "rounds=12")
LINK = ("--seeds", "0,1", "-s", "rounds=100", "--json")
COMMANDS = {
    "plan": ("plan", "demo", *SHORT, "--json"),
    "plan, budget": ("plan", "demo", *SHORT, "--total-epsilon", "8", "--json"),
    "plan, outsider": ("plan", "demo", *SHORT, "--total-epsilon", "2", "--adversary", "outsider", "--json"),
    "privacy": ("privacy", "demo", *SHORT, "--json"),
    "privacy, numbers": ("privacy", "--claimed-epsilon", "1.5", "--rounds", "2000", "--json"),
    "privacy, target": ("privacy", "demo", "-s", "scheme=pfels-plus", *SHORT, "--target-epsilon", "2", "--json"),
    "compare": ("compare", "demo", *SHORT, "--seeds", "0,1", "--json"),
    "compare, budget": ("compare", "demo", *SHORT, "--seeds", "0", "--total-epsilon", "8", "--json"),
    **{
        target: ("reproduce", target, *LINK)
        for target in ("table-cifar10", "table-femnist", "fig-compression", "fig-privacy", "fig-training", "fig-energy")
    },
}
SENTENCES = {"why", "reason", "display", "notes", "title", "claim", "where", "unit", "command"}
LATER = {"by_seed"}  # fields that were added since


def of_run(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The hashes of a run's log and checkpoint, and figures for machines that compute otherwise."""
    figures, hashes = run_figures(pfels.load_config("demo", {**settings, "rounds": 12}), folder)
    return {**hashes, "near": figures}


def document(name: str, folder: Path) -> Any:
    """The JSON that a command prints."""
    command = [sys.executable, "-m", "pfels", *COMMANDS[name]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


def of_document(content: Any) -> dict[str, Any]:
    """The hash of a document's figures, and their mean size for machines that compute otherwise."""
    figures = _without_sentences(content)
    sizes = [math.log1p(abs(value)) for value in _numbers(figures)]
    return {"figures": _sha256(figures), "near": statistics.fmean(sizes)}


def _numbers(content: Any) -> Iterator[float]:
    for value in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield from _numbers(value)
    if isinstance(content, int | float) and not isinstance(content, bool):
        yield content


def _without_sentences(content: Any) -> Any:
    if isinstance(content, dict):
        later = LATER | ({"standard_error"} if "std" in content else set())
        return {key: _without_sentences(value) for key, value in content.items() if key not in SENTENCES | later}
    return [_without_sentences(value) for value in content] if isinstance(content, list) else content


def _sha256(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write() -> None:
    pinned: dict[str, Any] = {"arithmetic": arithmetic(), "runs": {}, "documents": {}}
    with tempfile.TemporaryDirectory() as home:
        for name, settings in RUNS.items():
            pinned["runs"][name] = of_run(settings, Path(home) / name)
        for name in COMMANDS:
            pinned["documents"][name] = of_document(document(name, _made(Path(home) / f"{name} document")))
    PINNED.write_text(json.dumps(pinned, indent=1) + "\n")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    _write()
