"""A page of the documentation as steps: files to write, commands and Python to run, and the output that it shows.

A fence with `title="name"` is a file, one marked `sh` holds commands, and one marked `python` a script. The next fence,
if it is marked `text`, shows what that step prints on stdout; a line with `…` alone stands for lines that are left out,
and `…` within a line for one word.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^( *)```(\w*)(.*)$")
TITLE = re.compile(r'title="([^"]+)"')
NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
VOLATILE = re.compile(r"^ *(seconds\b|written in\b).*$")  # lines about the machine, not about the result


@dataclass
class Block:
    """One fenced block: its language, its title, and the lines between the fences."""

    kind: str
    title: str
    lines: list[str]
    first: int  # index of its first line in the page

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass
class Step:
    """Something to do, and the block that shows what it prints."""

    block: Block
    shown: Block | None


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    opened: tuple[str, Block] | None = None
    for number, line in enumerate(page.split("\n")):
        match = FENCE.match(line)
        if opened is None and match:
            title = TITLE.search(match[3])
            opened = match[1], Block(match[2], title[1] if title else "", [], number + 1)
        elif opened is not None and match and not match[2] and match[1] == opened[0]:
            found.append(opened[1])
            opened = None
        elif opened is not None:
            opened[1].lines.append(line.removeprefix(opened[0]))
    assert opened is None, "a fence is not closed"
    return found


def steps(page: str) -> list[Step]:
    """What a page asks its reader to do, in order."""
    found: list[Step] = []
    for block in blocks(page):
        if block.kind == "text" and found and found[-1].shown is None:
            found[-1].shown = block
        elif block.title or block.kind in ("sh", "python"):
            found.append(Step(block, None))
    return found


def environment(data: Path, bin_first: Path | None = None) -> dict[str, str]:
    """A terminal of 80 columns, this Python's commands first, and a cache of data that is empty."""
    path = [*([str(bin_first)] if bin_first else []), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {**os.environ, "PATH": os.pathsep.join(path), "COLUMNS": "80", "NO_COLOR": "1", "PFELS_DATA": str(data)}


def perform(step: Step, folder: Path, env: dict[str, str]) -> str:
    """Do one step in a folder; its stdout. A command that fails is an error with all that it printed."""
    block = step.block
    if block.title:
        path = folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
        return ""
    command = ["bash", "-euo", "pipefail", "-c", block.text] if block.kind == "sh" else ["python", "-c", block.text]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"line {block.first + 1}: {block.text}\n{done.stdout}{done.stderr}"
    return done.stdout


def differs(shown: str, printed: str, *, exact: bool) -> str | None:
    """Where the output that a page shows is not what was printed; None where it is.

    Words must be the same in the same order; how lines are wrapped does not count. Numbers are the same too where the
    arithmetic is (`exact`), and elsewhere within 2 % or 0.02, as for tests/e2e/golden.json.
    """
    real, position = _tokens(printed), 0
    parts = [_tokens(part) for part in re.split(r"(?m)^ *… *$", shown)]
    for i, part in enumerate(parts):
        starts = [position] if i == 0 else range(position, len(real) - len(part) + 1)
        reach, best = -1, position
        for start in starts:
            same = _same(part, real[start:], exact=exact)
            if same > reach:
                reach, best = same, start
            if same == len(part):
                break
        if reach < len(part):
            at = best + max(reach, 0)
            return f"shown: {' '.join(part[reach : reach + 12])!r}, printed: {' '.join(real[at : at + 12])!r}"
        position = best + len(part)
    if (parts[-1] or len(parts) == 1) and position < len(real):
        return f"not shown: {' '.join(real[position : position + 12])!r}"
    return None


def _tokens(text: str) -> list[str]:
    return [token for line in text.splitlines() if not VOLATILE.match(line) for token in line.split()]


def _same(part: list[str], real: list[str], *, exact: bool) -> int:
    """How many tokens are the same, from the first on."""
    for i, (shown, printed) in enumerate(zip(part, real, strict=False)):
        if shown not in (printed, "…") and (exact or not _near(shown, printed)):
            return i
    return min(len(part), len(real))


def _near(shown: str, printed: str) -> bool:
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    numbers = [(float(a.replace("−", "-")), float(b.replace("−", "-"))) for a, b in pairs]
    return all(abs(a - b) <= max(0.02, 0.02 * abs(a)) for a, b in numbers)
