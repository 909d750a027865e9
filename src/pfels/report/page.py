"""`report.html`: stored runs as one page that needs nothing but a browser."""

import base64
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfels.documents.report import Report
from pfels.errors import InputError, visible
from pfels.experiment.code import is_recorded
from pfels.experiment.reader import Damaged, StoredRun, find
from pfels.report import plots
from pfels.report.groups import comparisons
from pfels.report.sections import MAX_ROWS, Section, document, section
from pfels.runtime.arguments import path_of
from pfels.runtime.files import printable, write_atomically


def write_report(paths: str | Path | Sequence[str | Path], out: str | Path | None = None) -> Report:
    """Write one page about all runs in a directory, or in several, and below; gives what went into it.

    Without `out` the page is `report.html` in the directory, or in the current one if there are several; a file of that
    name that is no such page is kept, and the page has a number in its name. Damaged runs are listed on the page; an
    InputError is raised only if there is no run to report.

    >>> import pathlib, pfels, tempfile
    >>> out = pathlib.Path(tempfile.mkdtemp())
    >>> result = pfels.run(pfels.load_config("demo", {"rounds": 2}), out / "run")
    >>> report = pfels.write_report(out)
    >>> pathlib.Path(report["report"]).name, report["runs"]
    ('report.html', 1)
    """
    given = [paths] if isinstance(paths, str | bytes | Path) or not isinstance(paths, Iterable) else paths
    places = [path_of("paths", path) for path in given]
    runs, damaged = find(places)
    if not runs:
        reasons = [f"{each.name}: {each.reason}" for each in damaged] or ["no directory given"]
        raise InputError(f"no run to report ({reasons[0]}{'; …' if len(reasons) > 1 else ''})")
    found, copies = comparisons(runs)
    target = path_of("out", out) if out is not None else _beside(places[0] if len(places) == 1 else Path())
    name = printable(target)
    if target.is_dir():
        raise InputError(f"{name}: is a directory; --out must be a file, such as {name}/report.html")
    if target.suffix.lower() not in (".html", ".htm") or (target.exists() and not target.is_file()):
        raise InputError(f"{name}: --out must be a page, such as {printable(target.with_suffix('.html'))}")
    sections = [section(comparison, f"s{i}") for i, comparison in enumerate(found, 1)]
    unknown = [run for run in runs if not is_recorded(run.config.scheme, run.environment)]
    page = _page(target, sections, damaged, copies, unknown=unknown)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, page.encode())
    except OSError as error:
        raise InputError(f"{name}: cannot be written ({error.strerror}); choose a writable --out") from None
    return {
        "report": name,
        "runs": len(runs) - len(copies),
        "unfinished": [run.name for run in runs if run.summary is None],
        "damaged": [{"run": each.name, "reason": each.reason} for each in damaged],
        "copies": [{"run": copy.name, "of": first.name} for copy, first in copies],
        "unknown_code": [run.name for run in unknown],
        "studies": [document(each) for each in sections],
    }


def _beside(folder: Path) -> Path:
    """Where a page goes that may replace a page, and no other file."""
    for number in itertools.count(1):
        path = folder / ("report.html" if number == 1 else f"report-{number}.html")
        if not path.exists() or (path.is_file() and _is_page(path)):
            return path
    raise AssertionError("numbers never end")


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return b'<meta name="generator" content="pfels ' in file.read(2**12)


def _page(
    target: Path,
    sections: Sequence[Section],
    damaged: Sequence[Damaged],
    copies: Sequence[tuple[StoredRun, StoredRun]],
    *,
    unknown: Sequence[StoredRun],
) -> str:
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("pfels.report"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [get_plotlyjs(), _asset("report.js")]
    figures = {name: figure for each in sections for name, figure in each.figures.items()}
    return environment.get_template("report.html").render(
        title=sections[0].title if len(sections) == 1 else f"{len(sections)} comparisons",
        target=target,
        sections=sections,
        damaged=damaged,
        copies=copies,
        unknown=unknown,
        version=version("pfels"),
        figures=_embedded(figures),
        style=Markup(_asset("report.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'sha256-{_sha256(script)}'" for script in scripts),
        heights={name: figure["layout"].get("height", plots.HEIGHT) for name, figure in figures.items()},
        max_rows=MAX_ROWS,
    )


def _asset(name: str) -> str:
    return resources.files("pfels.report").joinpath("templates", name).read_text("utf-8")


def _embedded(content: Mapping[str, plots.Figure]) -> Markup:
    """JSON that may stand inside a <script> element: nothing in it can end the element or open a comment."""
    text = json.dumps(_visible(content), allow_nan=False, separators=(",", ":"))  # ASCII, so no U+2028 either
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _visible(content: Any) -> Any:
    """Text without control characters, which a browser would obey; also the text in lists and objects."""
    match content:
        case Markup():
            return content
        case str():
            return visible(content)
        case dict():
            return {visible(key): _visible(value) for key, value in content.items()}
        case list() | tuple():
            return [_visible(value) for value in content]
    return content


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
