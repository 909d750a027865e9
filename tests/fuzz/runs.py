"""Run directories and node ledgers, also with their hashes made right again: as an attacker would leave them."""

import hashlib
import json
import math
import os
import random
import re
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch
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
from tests.fuzz.mutate import LEAVES
from tests.fuzz.target import Target, part, require

SMALL = {
    "rounds": 4,
    "data.devices": 12,
    "cohort.size": 4,
    "model.hidden": 2,
    "training.local_epochs": 1,
    "run.workers": 1,
}
ECHO = {"scheme": "pfels-echo", "pfels-echo.bands": 2, "compression.ratio": 1.0, "server.average": 0.9}
CONFIG = load_config("demo", SMALL | ECHO, tuned=False)
FILES = ("config.toml", "environment.json", "rounds.jsonl", "summary.json", "timing.json", "checkpoint.safetensors")
TAMPERED = 30  # an input that names what is done to single values of a checkpoint whose hash is right
STAND_IN = 40  # an input that names what stands in place of a file
VALUES = (math.nan, math.inf, -math.inf, -1, 0, 1, 2, 11, 12, 13, 1e308, 2**31, 2**62, -(2**62), 0.5)
STAND_INS = ("link", "dangling", "hard link", "pipe", "folder", "zero", "sparse", "holes", "empty", "socket")
PLACES = (*FILES, "tensorboard", ".summary.json.1.partial", "secret.json")
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
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
    draw = random.Random(0)
    found += [
        part(100 * cut + kind, draw.randbytes(12)) for kind in (TAMPERED, STAND_IN) for cut in (0, 1) for _ in "ab"
    ]
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


def _tamper(path: Path, draw: random.Random) -> None:
    """Replace values of a checkpoint's tensors and of its description, and make its hash right again."""
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["pfels"].partition(" ")[2])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for _ in range(draw.choice((1, 1, 2, 3))):
        name = draw.choice([*tensors, "totals", "notes"])
        if name in tensors:
            tensors[name] = _changed(tensors[name], draw)
        else:
            place = about["totals"] if name == "totals" else about
            place[draw.choice(list(place))] = deepcopy(draw.choice((*LEAVES, *VALUES)))
    text = json.dumps(about, sort_keys=True)
    save_file(tensors, path, {"pfels": f"{digest(tensors, text, typed=about.get('format') != UNTYPED)} {text}"})


def _changed(tensor: torch.Tensor, draw: random.Random) -> torch.Tensor:
    changed = tensor.clone()
    if not len(changed):
        return torch.zeros(draw.choice((1, 4)), dtype=tensor.dtype)
    match draw.randrange(6):
        case 0:
            return changed.flip(0)
        case 1:
            return changed[:-1].clone()
        case 2:
            return torch.cat([changed, changed[-1:]])
        case 3:
            changed[:] = changed[draw.randrange(len(changed))].clone()
        case _:
            value = draw.choice(VALUES)
            if changed.dtype == torch.float32 and abs(value) > 3e38:
                value = math.inf
            if changed.dtype == torch.int64:
                value = int(value) if math.isfinite(value) and abs(value) < 2**63 else -1
            for _ in range(draw.choice((1, 1, 3, len(changed)))):
                changed[draw.randrange(len(changed))] = value
    return changed


def _stand_in(run: Path, outside: Path, draw: random.Random) -> None:
    """Put something else in place of a file; what a link leads to lies outside."""
    path, kind = run / draw.choice(PLACES), draw.choice(STAND_INS)
    victim = outside / "victim"
    outside.mkdir()
    victim.write_bytes(path.read_bytes() if path.exists() else b"precious")
    path.unlink(missing_ok=True)
    match kind:
        case "link":
            path.symlink_to(victim)
        case "dangling":
            path.symlink_to(outside / "nowhere")
        case "hard link":
            os.link(victim, path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "zero":
            path.symlink_to("/dev/zero")
        case "socket":
            os.mknod(path, stat.S_IFSOCK | 0o600)
        case "empty":
            path.touch()
        case _:
            path.write_bytes(b"" if kind == "sparse" else victim.read_bytes())
            os.truncate(path, 3 * 10**9)


def _contents(folder: Path) -> dict[str, object]:
    """Everything in a folder, without following a link or reading a hole."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        small = stat.S_ISREG(about.st_mode) and about.st_size < 10**8
        found[str(path)] = (about.st_mode, about.st_size, path.read_bytes() if small else about.st_mtime_ns)
    return found


def _run_directory(data: bytes, folder: Path) -> None:
    finished, kind = data[0] < 100, data[0] % 100
    run, outside = folder / "run", folder / "outside"
    shutil.copytree(_valid(folder)[not finished], run)
    draw = random.Random(data[1:])
    if kind == TAMPERED:
        _tamper(run / FILES[-1], draw)
    elif kind == STAND_IN:
        _stand_in(run, outside, draw)
    elif kind % (len(FILES) + 3) == CARD:
        (run / "model.privacy.json").write_bytes(data[1:])
    elif kind % (len(FILES) + 3) == RELOGGED:
        (run / "rounds.jsonl").write_bytes(data[1:])
        _reseal(run / FILES[-1], log_size=len(data) - 1, log_sha256=hashlib.sha256(data[1:]).hexdigest())
    elif kind == CARD:
        (run / "model.privacy.json").write_bytes(data[1:])
    else:
        kind %= len(FILES) + 3
        (run / FILES[min(kind, len(FILES) - 1)]).write_bytes(data[1:])
        if kind == RESEALED:
            _reseal(run / FILES[-1])
    before = _contents(folder)
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
        foreign = re.sub(r"<script>.*?</script>", "", page.read_text(), flags=re.DOTALL)
        require(not CONTROLS.search(foreign), "a control character on the page")
        page.unlink()
    shutil.rmtree(folder / "other")
    require(before == _contents(folder), "reading changed a run")
    victims = _contents(outside)
    try:
        result = loop.run(CONFIG, run, resume=not finished)
    except InputError:
        require(before == _contents(folder), "a refused run was touched")
        raise
    require(victims == _contents(outside), "a file outside was touched")
    require(bool(torch.isfinite(result.parameters).all()), "a model that is not finite")
    require(0 <= result.summary["accuracy"] <= 1, "an impossible accuracy")


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
