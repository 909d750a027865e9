"""Run directories and node ledgers, also with their hashes made right again: as an attacker would leave them."""

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

from pfels.config.load import load_config
from pfels.errors import InputError
from pfels.experiment import loop, reader
from pfels.experiment.checkpoint import UNTYPED, digest
from pfels.privacy import device_ledger
from pfels.privacy.device_ledger import DeviceLedger, OwnerBudget
from pfels.report.groups import comparisons
from pfels.report.page import write_report
from pfels.report.sections import section
from tests.fuzz.target import Target, part, require

SMALL = {
    "rounds": 4,
    "data.devices": 12,
    "cohort.size": 4,
    "model.hidden": 2,
    "training.local_epochs": 1,
    "run.workers": 1,
}
CONFIG = load_config(
    "demo", SMALL | {"scheme": "pfels-echo", "pfels-echo.bands": 2, "compression.ratio": 1.0}, tuned=False
)
FILES = ("config.toml", "environment.json", "rounds.jsonl", "summary.json", "timing.json", "checkpoint.safetensors")
# A checkpoint with its hash made right; a log with its checkpoint; the privacy card
RESEALED, RELOGGED, CARD = len(FILES), len(FILES) + 1, len(FILES) + 2


def _stop(record: Any) -> None:
    if record["round"] == 1:
        raise KeyboardInterrupt


@cache
def _valid(folder: Path) -> tuple[Path, Path]:
    """A finished run and an unfinished one."""
    whole, cut = folder.parent / "valid-whole", folder.parent / "valid-cut"
    if not (whole / "summary.json").exists():
        loop.run(CONFIG, whole)
    if not cut.exists():
        with suppress(KeyboardInterrupt):
            loop.run(CONFIG, cut, progress=_stop)
    return whole, cut


def _corpus(folder: Path) -> Sequence[bytes]:
    whole, cut = _valid(folder)
    found = [part(i, (whole / name).read_bytes()) for i, name in enumerate(FILES)]
    found += [part(100 + i, (cut / name).read_bytes()) for i, name in enumerate(FILES) if (cut / name).exists()]
    found.append(part(RESEALED, (whole / FILES[-1]).read_bytes()))
    found.append(part(100 + RESEALED, (cut / FILES[-1]).read_bytes()))
    found.append(part(100 + RELOGGED, (cut / "rounds.jsonl").read_bytes()))
    found.append(part(CARD, (whole / "model.privacy.json").read_bytes()))
    return [*found, part(RELOGGED, (whole / "rounds.jsonl").read_bytes())]


def _reseal(path: Path, **changes: Any) -> None:
    """Make the hash of a checkpoint right again, if it can be read at all."""
    with suppress(Exception):  # then it stays as damaged as it is
        with safe_open(path, framework="pt") as file:
            text = file.metadata()["pfels"].partition(" ")[2]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(text)
        if changes:
            text = json.dumps(about | changes, sort_keys=True)
        hashed = digest(tensors, text, typed=about["format"] != UNTYPED)
        save_file(tensors, path, {"pfels": f"{hashed} {text}"})


def _run_directory(data: bytes, folder: Path) -> None:
    finished, kind = data[0] < 100, data[0] % 100 % (len(FILES) + 3)
    run = folder / "run"
    shutil.copytree(_valid(folder)[not finished], run)
    if kind == RELOGGED:
        (run / "rounds.jsonl").write_bytes(data[1:])
        _reseal(run / FILES[-1], log_size=len(data) - 1, log_sha256=hashlib.sha256(data[1:]).hexdigest())
    elif kind == CARD:
        (run / "model.privacy.json").write_bytes(data[1:])
    else:
        (run / FILES[min(kind, len(FILES) - 1)]).write_bytes(data[1:])
        if kind == RESEALED:
            _reseal(run / FILES[-1])
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    shutil.copytree(_valid(folder)[0], folder / "other")
    runs, damaged = reader.find([folder])
    require(len(runs) + len(damaged) == 2 and any(each.path.name == "other" for each in runs), "a run is missing")
    require(all(each.reason.isprintable() and len(each.reason) < 2000 for each in damaged), "a reason of many lines")
    for each in runs:
        _require_sound(each)
    for i, comparison in enumerate(comparisons(runs)[0]):
        section(comparison, f"s{i}")
    if hashlib.sha256(data).digest()[0] < 8:  # the page itself takes longer
        page = Path(write_report(folder)["report"])
        require(page.read_bytes().endswith(b"</html>\n") or b"</html>" in page.read_bytes()[-50:], "half a page")
        page.unlink()
    require(before == {path.name: path.read_bytes() for path in run.iterdir()}, "reading changed a run")
    try:
        loop.run(CONFIG, run, resume=not finished)
    except InputError:
        require(before == {path.name: path.read_bytes() for path in run.iterdir()}, "a refused run was touched")
        raise


def _require_sound(run: reader.StoredRun) -> None:
    if run.summary is not None:
        require(0 <= run.summary["accuracy"] <= 1 and run.summary["subcarriers"] >= 0, "an impossible summary")
    accuracies = run.columns["test_accuracy"]
    require(all(math.isnan(each) or 0 <= each <= 1 for each in accuracies.tolist()), "an impossible accuracy")
    require(run.rounds <= run.config.rounds, "too many rounds")


BUDGET = OwnerBudget(8.0, 1e-5)


def _ledger_corpus(folder: Path) -> Sequence[bytes]:
    path = folder / "ledger.json"
    ledger = DeviceLedger(path)
    ledger.create(devices=20, partition=1, partitions=4)
    empty = path.read_bytes()
    ledger.charge({1: 0.25, 5: 0.5, 17: 0.01}, BUDGET)
    ledger.charge({1: 0.25}, BUDGET)
    return [part(kind, each) for each in (empty, path.read_bytes()) for kind in (0, 1)]


def _ledger(data: bytes, folder: Path) -> None:
    path = folder / "ledger.json"
    content = data[1:]
    if data[0] % 2:
        with suppress(Exception):  # then it stays as damaged as it is
            found = json.loads(content)
            found["sha256"] = device_ledger._digest(found)
            content = json.dumps(found).encode()
    path.write_bytes(content)
    ledger = DeviceLedger(path)
    before = ledger.read()
    for device, entry in before["spent"].items():
        require(int(device) % before["partitions"] == before["partition"], "a device of another node")
        require(entry["mu_squared"] >= 0 and math.isfinite(entry["mu_squared"]), "an impossible cost")
    ledger.check(BUDGET, devices=20, partition=1, partitions=4)
    refused = ledger.charge({1: 0.3, 9: 0.1}, BUDGET)
    after = ledger.read()["spent"]
    for device, cost in ((1, 0.3), (9, 0.1)):
        spent = before["spent"].get(str(device), {"mu_squared": 0.0})["mu_squared"]
        if device not in refused:
            require(after[str(device)]["mu_squared"] >= spent + cost, "a charge was lost")
            require(after[str(device)]["mu_squared"] <= BUDGET.mu_squared, "beyond the budget")


TARGETS = (Target("run", _corpus, _run_directory, every=40), Target("ledger", _ledger_corpus, _ledger))
