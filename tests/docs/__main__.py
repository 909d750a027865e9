"""Do what the tutorials say and write the output that they show anew: `python -m tests.docs [PAGE ...]`.

A block with `…` keeps its lines; what it leaves out is for its author to choose. Read the change before you commit it.
"""

import sys
import tempfile
from pathlib import Path

from tests.docs.pages import Step, differs, perform, steps
from tests.docs.tutorials import PAGES, environment_of


def rewritten(path: Path) -> str:
    """The page with the output of today."""
    text = path.read_text("utf-8")
    lines, done = text.split("\n"), list[tuple[Step, str]]()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        env = environment_of(text, Path(folder))
        for step in steps(text):
            done.append((step, perform(step, work, env)))
    for step, printed in reversed(done):  # from the end, so that earlier line numbers stay
        shown = step.shown
        if shown is None or differs(shown.text, printed, exact=True) is None:
            continue
        if any(line.strip() == "…" for line in shown.lines):
            print(f"{path}:{shown.first + 1}: {differs(shown.text, printed, exact=True)}; by hand:\n{printed}")
            continue
        fresh = [line.rstrip() for line in printed.rstrip().split("\n")]
        lines[shown.first : shown.first + len(shown.lines)] = fresh
    return "\n".join(lines)


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:] or PAGES):
        page.write_text(rewritten(page), "utf-8")
        print(page)
