"""`report.html`: stored runs as one page that needs nothing but a browser."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pfels.errors import InputError
from pfels.experiment.reader import Damaged, StoredRun, find
from pfels.report import plots, privacy, tables
from pfels.report import settings as report_settings
from pfels.report import text as report_text
from pfels.report.groups import Study, studies
from pfels.runtime.files import show, write_atomically

MOST_ALIGNMENT_PLOTS = 12

LEARNING = (
    ("accuracy", "test_accuracy", "test accuracy"),
    ("train-loss", "train_loss", "training loss"),
    ("test-loss", "test_loss", "test loss"),
)


def write_report(paths: Sequence[Path], out: Path | None = None) -> dict[str, Any]:
    """Write the page about all runs in these directories and below; gives what went into it, ready for JSON.

    Without `out` it is `report.html` in the directory, or here where there are several. Damaged runs are listed on
    the page; an InputError is raised only where not one run can be reported.
    """
    runs, damaged = find(paths)
    if not runs:
        first = "; ".join(f"{each.name}: {each.reason}" for each in damaged[:1])
        raise InputError(f"no run to report ({first}{'; …' if len(damaged) > 1 else ''})")
    found, copies = studies(runs)
    target = out or (paths[0] if len(paths) == 1 else Path()) / "report.html"
    if target.is_dir():
        raise InputError(f"{show(target)}: is a directory; --out must be a file, such as {show(target)}/report.html")
    if target.suffix.lower() not in (".html", ".htm") or (target.exists() and not target.is_file()):
        raise InputError(f"{show(target)}: --out must be a page, such as {show(target.with_suffix('.html'))}")
    page = _page(found, damaged, copies)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, page.encode())
    except OSError as error:
        raise InputError(f"{show(target)}: cannot be written ({error.strerror}); choose a writable --out") from None
    return {
        "report": show(target),
        "runs": len(runs) - len(copies),
        "unfinished": [run.name for run in runs if run.summary is None],
        "damaged": [{"run": each.name, "reason": each.reason} for each in damaged],
        "copies": [{"run": copy.name, "of": first.name} for copy, first in copies],
        "studies": [_document(study) for study in found],
    }


def _document(study: Study) -> dict[str, Any]:
    """A study for JSON: its groups with what the comparison table shows."""
    groups = [
        {
            "label": group.label,
            "scheme": group.config.scheme,
            "finished": group.finished,
            "rounds": group.rounds,
            "seeds": [run.config.seed for run in group.runs],
            "row": group.row,
        }
        for group in study.groups
    ]
    return {
        "title": _title(study),
        "groups": groups,
        "command": report_settings.study_command(study),
        "run_commands": [report_settings.run_command(run) for run in study.runs],
    }


def _page(found: Sequence[Study], damaged: Sequence[Damaged], copies: Sequence[tuple[StoredRun, StoredRun]]) -> str:
    from plotly.offline import get_plotlyjs

    environment = Environment(
        loader=PackageLoader("pfels.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures: dict[str, plots.Figure] = {}
    sections = [_section(study, f"s{i}", figures) for i, study in enumerate(found, 1)]
    scripts = [get_plotlyjs(), _asset("report.js")]
    title = sections[0]["title"] if len(sections) == 1 else f"{len(sections)} studies"
    return environment.get_template("report.html").render(
        title=title,
        sections=sections,
        damaged=damaged,
        copies=copies,
        version=version("pfels"),
        figures=_embedded(figures),
        style=Markup(_asset("report.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'sha256-{_sha256(script)}'" for script in scripts),
        dashes=plots.DASHES,
        symbols=plots.SYMBOLS,
    )


def _section(study: Study, key: str, figures: dict[str, plots.Figure]) -> dict[str, Any]:
    """All that the template needs for one study; its figures go into `figures` under names that start with `key`."""
    drawn = [group for group in study.groups if group.rounds]
    learning = []
    for name, column, title in LEARNING:
        figure = plots.learning(drawn, column, title)
        if figure["data"]:
            figures[f"{key}-{name}"] = figure
            rows = [(group, tables.checkpoints(group, column)) for group in drawn]
            learning.append({"id": f"{key}-{name}", "title": title, "rows": rows, "groups": drawn})
    alignment, energy = tables.alignment(study), tables.device_energy(study)
    changing = [row for row in alignment if not row["constant"]]
    for row in changing[:MOST_ALIGNMENT_PLOTS]:
        row["figure"] = f"{key}-beta-{row['group'].style}"
        figures[row["figure"]] = plots.alignment(row["group"])
    if energy:
        figures[f"{key}-energy"] = plots.device_energy([row["group"] for row in energy])
    spread = privacy.spread_rows(study)
    if spread:
        figures[f"{key}-spread"] = plots.server_spread(spread)
    growth = [group for group in drawn if group.curve("server_epsilon")]
    if growth:
        figures[f"{key}-growth"] = plots.server_growth(growth)
    return {
        "key": key,
        "study": study,
        "title": _title(study),
        "lede": _lede(study),
        "highlights": tables.highlights(study),
        "comparison": tables.comparison(study),
        "learning": learning,
        "without_energy": report_text.listed([group.label for group in drawn if not group.has_energy]),
        "seeds": tables.shared_seeds(study),
        "adversaries": privacy.adversaries(study),
        "spread": spread,
        "growth": growth,
        "alignment": alignment,
        "undrawn": len(changing[MOST_ALIGNMENT_PLOTS:]),
        "energy": energy,
        "common": report_settings.common(study),
        "differing": report_settings.differing(study),
        "environments": report_settings.environments(study.runs),
        "command": report_settings.study_command(study),
        "runs": [{"run": run, "command": report_settings.run_command(run)} for run in study.runs],
        "figures": figures,
    }


def _title(study: Study) -> str:
    schemes = list(dict.fromkeys(group.config.scheme for group in study.groups))
    who = schemes[0] if len(schemes) == 1 else f"{len(schemes)} schemes"
    count = len({repr([group.config.flat().get(key) for key in study.differing]) for group in study.groups})
    settings = f", {count} settings" if count > len(schemes) else ""
    return f"{who} on {study.groups[0].config.data.name}{settings}"


def _lede(study: Study) -> str:
    configs = [run.config for run in study.runs]
    sizes = sorted({run.summary["dimension"] for run in study.runs if run.summary is not None})
    network = f"{configs[0].model.name} with {sizes[0]:,} parameters" if sizes else configs[0].model.name
    seeds = sorted({config.seed for config in configs})
    return (
        f"{configs[0].data.devices:,} devices, {_span([config.cohort.size for config in configs])} of them in a round, "
        f"{_span([config.rounds for config in configs])} rounds. Network: {network}. "
        f"{len(configs)} runs, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}."
    )


def _span(values: Sequence[int]) -> str:
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"


def _asset(name: str) -> str:
    return resources.files("pfels.report").joinpath("templates", name).read_text("utf-8")


def _embedded(content: Any) -> Markup:
    """JSON that may stand inside a <script> element: nothing in it can end the element or open a comment."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))  # ASCII, so no U+2028 either
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
