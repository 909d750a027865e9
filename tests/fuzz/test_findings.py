"""What the fuzzer once found stays fixed: every saved input is refused in one line, or read as what it is."""

from pathlib import Path

import pytest

from tests.fuzz.__main__ import FINDINGS, outcome, targets

SAVED = sorted(path for path in FINDINGS.glob("*-*"))


@pytest.mark.parametrize("path", SAVED, ids=lambda path: path.name)
def test_a_finding_stays_fixed(path: Path, tmp_path: Path):
    name = path.name.partition("-")[0]
    if name not in targets():
        pytest.skip(f"{name}: in the other environment, with or without Flower")
    assert outcome(targets()[name], path.read_bytes(), tmp_path) in ("accepted", "refused")
