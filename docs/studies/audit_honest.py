"""How often do audits reject honest schemes? Many small audits of every scheme that has noise.

python docs/studies/audit_honest.py --seeds 40

An audit is meant to reject an honest scheme at most once in 1,000 times. Each is a line in runs/audit-honest: the same
command continues where it stopped. The table says how many p-values of the noise were below some limits, of how many.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import pfels
from pfels.schemes.registry import scheme_names

SMALL = {"rounds": 20, "data.devices": 30, "cohort.size": 8, "model.hidden": 8}
LIMITS = (0.1, 0.01, 0.001)


def audit(scheme: str, seed: int) -> dict[str, Any]:
    """One audit."""
    found = pfels.audit(pfels.load_config("demo", SMALL | {"scheme": scheme, "seed": seed}), canaries=60, workers=1)
    p = {f"{each['noise']} {each['check']}": each["p"] for each in found["noise"]}
    return {"scheme": scheme, "seed": seed, "rejected_by": found["rejected_by"], "p": p}


def main() -> None:
    """Audit, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("runs/audit-honest"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "audits.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(row["scheme"], row["seed"]) for row in rows}
    for seed in range(options.seeds):
        for scheme in scheme_names():
            if scheme == "fedavg" or (scheme, seed) in done:  # which claims nothing
                continue
            rows.append(audit(scheme, seed))
            with log.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            if rows[-1]["rejected_by"]:
                print(f"{scheme}, seed {seed}: {rows[-1]['rejected_by']}", flush=True)
    table(rows)


def table(rows: list[dict[str, Any]]) -> None:
    """How many were rejected, and per check how many p-values were small."""
    print(f"{sum(bool(row['rejected_by']) for row in rows)} of {len(rows)} audits rejected")
    print("| noise, check | " + " | ".join(f"p < {limit:g}" for limit in LIMITS) + " | of |\n|---|---|---|---|---|")
    for name in sorted({name for row in rows for name in row["p"]}):
        p = [row["p"][name] for row in rows if name in row["p"]]
        print(f"| {name} | " + " | ".join(str(sum(each < limit for each in p)) for limit in LIMITS) + f" | {len(p)} |")


if __name__ == "__main__":
    main()
