"""What a figure rests on is said in full wherever it is called proven, and what is missing is one click away."""

import re
from pathlib import Path

import pytest

from pfels.report.terminal import PROVEN
from tests.docs.pages import ROOT

NAMED = ("receiver noise ≥ σ₀", "exact gains", "one antenna", "no eavesdropper", "untuned settings", "secret seed")
PLACES = [
    *(ROOT / name for name in ("README.md", "paper.md", "docs/studies/one_budget.py", "notebooks/budget_and_audit.py")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("*.py")),
]


def plain(path: Path) -> str:
    """The text of a file without the marks of lines: quotes, comments and bold type."""
    return " ".join(re.sub(r'\\n|[*"#]', " ", path.read_text("utf-8")).split())


def test_the_phrase_names_every_assumption_and_leads_to_the_table():
    assert all(name in PROVEN for name in NAMED)
    assert "docs/privacy.md#assumptions" in PROVEN
    page = (ROOT / "docs" / "privacy.md").read_text("utf-8")
    _, _, table = page.partition("\n## Assumptions\n")
    for name in (*NAMED[:5], "a secret seed"):
        assert re.search(rf"^\| {name} \|", table, re.MULTILINE), name


@pytest.mark.parametrize("path", PLACES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_calls_a_figure_proven_under_fewer_assumptions(path: Path):
    text = plain(path)
    assert "gains are exact" not in text
    for found in re.finditer(r"proven, (if|assuming) ", text):
        if path.suffix == ".py" and text[found.end()] == "{":  # the report's own sentence, which test_page.py holds
            continue
        said = text[found.start() : found.start() + 260]
        assert all(name in said for name in NAMED), said


def test_readme_s_first_screen_and_the_site_lead_to_what_is_missing():
    first = (ROOT / "README.md").read_text("utf-8").splitlines()[:25]
    assert any("docs/limits.md" in line for line in first)
    assert "(limits.md)" in (ROOT / "docs" / "index.md").read_text("utf-8")
    assert "What pfels does not do: limits.md" in (ROOT / "mkdocs.yml").read_text("utf-8")
