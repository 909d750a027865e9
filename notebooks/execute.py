"""Execute the notebooks, one after the other, and write them with their results: python notebooks/execute.py OUT

A cell that fails ends it. What must hold in a notebook is asserted in it.
"""

import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
TIMEOUT_S = 120  # per cell


def execute(source: Path, out: Path) -> None:
    """Run a notebook in an empty directory, and write it as .ipynb; every one must show a picture and a table."""
    notebook = jupytext.read(source)
    with tempfile.TemporaryDirectory() as empty:
        NotebookClient(notebook, timeout=TIMEOUT_S, resources={"metadata": {"path": empty}}).execute()
    shown = {kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    missing = {"image/png", "text/html"} - shown
    if missing:
        raise SystemExit(f"{source.name}: shows no {', '.join(sorted(missing))}")
    nbformat.write(notebook, out / f"{source.stem}.ipynb")


def main() -> None:
    """Execute all of them."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for source in sorted(HERE.glob("*.py")):
        if source.name != Path(__file__).name:
            begun = time.perf_counter()
            execute(source, out)
            print(f"{source.name}: executed in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
