"""Which cheats does an audit reject? Schemes whose noise, or whose server, is not what they say, audited on many seeds.

python docs/studies/audit_cheats.py --seeds 20
python docs/studies/audit_cheats.py --seeds 20 --noise-alone

Every cheat changes one thing in the code of this process and leaves what the scheme says of itself as it is. Honest
schemes stand first. Audits are those of the demo at its own size, with few canaries, since these cheats are not for
canaries to find. Each is a line in runs/audit-cheats: the same command continues where it stopped.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from cheats_noise import (
    DEVICE,
    DIMENSION,
    OVER_AIR,
    ROUNDS,
    Receive,
    by_coordinate,
    fixed,
    honest,
    of_honest,
    without_coordinate,
)
from cheats_server import MODEL, SCHEMES, STORE
from torch import Tensor

import pfels
from pfels.experiment.link import link_of
from pfels.privacy.noise_batch import RECEIVER, NoiseBatch
from pfels.privacy.noise_checks import NoiseRecord
from pfels.schemes import registry, round
from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.registry import scheme_entry, scheme_names
from pfels.studies.audit_verdict import ERROR_RATE


def some_receiver(kind: Receive) -> Any:
    """A method in place of Draws.receiver_noise."""

    def receiver_noise(self: Draws, t: int, width: int) -> Tensor:
        return kind(self, t, width)

    return receiver_noise


Cheat = tuple[str, str, Callable[[], Any]]  # the scheme, what is done, and what does it


def cheats() -> Iterator[Cheat]:
    """All of them; the first are none."""
    for scheme in scheme_names()[:10]:
        if scheme != "fedavg":
            yield scheme, "honest", lambda: patch.object(Draws, "receiver_noise", honest)
    for name, kind in OVER_AIR.items():
        yield "pfels-plus", name, partial(patch.object, Draws, "receiver_noise", some_receiver(kind))
    yield "pfels-plus", "not on one coordinate", partial(patch.object, round, "listen", without_coordinate)
    yield "pfels-plus", "the same on a coordinate in every round", partial(patch.object, round, "listen", by_coordinate)
    for scheme in ("dp-fedavg", "artificial-noise"):
        for name, device in DEVICE.items():
            yield scheme, name, partial(patch.object, Draws, "device_noise", device)
    yield (
        "artificial-noise",
        "no receiver noise",
        partial(patch.object, Draws, "receiver_noise", some_receiver(of_honest(lambda n, t: 0 * n))),
    )
    for name, (scheme, create) in SCHEMES.items():
        entry = replace(scheme_entry(scheme), create=create)
        yield scheme, name, partial(patch.dict, registry._SCHEMES, {scheme: entry})


def audit(cheat: Cheat, seed: int, canaries: int) -> list[str]:
    """What rejects a cheat in an audit."""
    scheme, _, cheating = cheat
    STORE.clear()
    MODEL.clear()
    config = pfels.load_config("demo", {"scheme": scheme, "seed": seed})
    with cheating():
        return pfels.audit(config, canaries=canaries, workers=1)["rejected_by"]


def noise_alone(cheat: Cheat, seed: int) -> list[str]:
    """What rejects the noise of a cheat, given to the checks as an audit's draws make it, without a training."""
    scheme, _, cheating = cheat
    link = link_of(pfels.load_config("demo", {"scheme": scheme, "seed": seed}))
    draws, other, signals = link.draws, replace(link.draws, seed=10**6 + seed), fixed(seed)
    plan, on_devices = link.scheme.prepare(draws, 0), scheme == "dp-fedavg"
    record = NoiseRecord(ROUNDS * (draws.setting.cohort_size if on_devices else 1), DIMENSION)
    with cheating():
        for t in range(ROUNDS):
            A = link.scheme.indices(draws, torch.zeros(DIMENSION), t)
            owners = draws.cohort(t) if on_devices else np.array([RECEIVER])
            rows = [_rows(each, replace(plan, round=t), A, owners) for each in (draws, other)]
            hidden = signals.standard_normal(rows[0].shape, dtype=np.float32)
            columns = None if A is None else A.numpy()
            rounding = np.full(len(owners), 1.5e-6)  # as in an audit, in which noise is a difference
            record.add(NoiseBatch(t, owners, rows[0], rows[1], hidden, None, rounding, columns))
    return [f"noise ({each.check}): {each.saw}" for each in record.findings() if each.p < ERROR_RATE]


def _rows(draws: Draws, plan: RoundPlan, A: Tensor | None, owners: Any) -> Any:
    """The noise of a round in units of its standard deviation: of its devices, or of the receiver."""
    if plan.air is not None:
        return (round.listen(draws, plan, A) / draws.setting.noise_std).numpy()[None]
    rows = [draws.device_noise(plan.round, i, width=DIMENSION, std=1.0) for i in owners.tolist()]
    return torch.stack(rows).numpy()


def main() -> None:
    """Audit, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--canaries", type=int, default=4)
    parser.add_argument(
        "--noise-alone", action="store_true", help="the noise without the training: in a tenth of the time"
    )
    parser.add_argument("--part", default="0/1", help="i/n: every n-th audit, from the i-th on, for n such commands")
    parser.add_argument("--out", type=Path, default=Path("runs/audit-cheats"))
    parser.add_argument("--only", default="", help="cheats whose name has this in it")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    how = "noise" if options.noise_alone else "audit"
    done = {(row["scheme"], row["cheat"], row["seed"], row["how"]) for row in read(options.out)}
    i, n = map(int, options.part.split("/"))
    wanted = [(cheat, seed) for seed in range(options.seeds) for cheat in cheats() if options.only in cheat[1]]
    if options.noise_alone:
        wanted = [
            (cheat, seed)
            for cheat, seed in wanted
            if cheat[0] in ("pfels-plus", "dp-fedavg") and cheat[1] not in SCHEMES
        ]
    for cheat, seed in wanted[i::n]:
        if (cheat[0], cheat[1], seed, how) in done:
            continue
        saw = noise_alone(cheat, seed) if options.noise_alone else audit(cheat, seed, options.canaries)
        by = sorted({_short(each) for each in saw})
        row = {"scheme": cheat[0], "cheat": cheat[1], "seed": seed, "how": how, "by": by, "saw": saw}
        with (options.out / f"{how}-{i}.jsonl").open("a") as log:
            log.write(json.dumps(row) + "\n")
        print(f"{cheat[0]:17} {cheat[1]:55} {seed:3} {', '.join(by) or '-'}", flush=True)
    table(read(options.out))


def _short(by: str) -> str:
    check, found, _ = by.partition("): ")
    return check.partition("(")[2] if found else by.partition(": in round")[0]


def read(folder: Path) -> list[dict[str, Any]]:
    """What is done so far."""
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def table(rows: list[dict[str, Any]]) -> None:
    """One line per cheat: how many audits, and how many trainings' noise alone, were rejected, and by which checks."""
    print("| scheme | cheat | audits rejected | noise alone | by |\n|---|---|---|---|---|")
    for scheme, name, _ in cheats():
        mine = [row for row in rows if (row["scheme"], row["cheat"]) == (scheme, name)]
        by = Counter(each for row in mine for each in row["by"])
        said = ", ".join(f"{check}" for check, count in by.most_common() if count > len(mine) / 2)
        counts = [_rejected([row for row in mine if row["how"] == how]) for how in ("audit", "noise")]
        print(f"| {scheme} | {name} | {counts[0]} | {counts[1]} | {said or '-'} |")


def _rejected(rows: list[dict[str, Any]]) -> str:
    return f"{sum(bool(row['by']) for row in rows)} of {len(rows)}" if rows else "-"


if __name__ == "__main__":
    main()
