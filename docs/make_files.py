"""Write docs/files.md from the types in pfels.documents: python docs/make_files.py

A test holds the page to the types, and the documents that the commands print to both.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from pfels.documents import audit, card, data, paper, privacy, radio, report, run, studies, verify

PAGE = Path(__file__).with_name("files.md")
SECTIONS: dict[str, tuple[ModuleType, str]] = {
    "The run directory": (
        run,
        "A run directory holds `config.toml` (the whole config), `environment.json`, `rounds.jsonl`, `timing.json`, "
        "`checkpoint.safetensors`, the privacy card of its model (`model.privacy.json` and `model.privacy.md`) and, "
        "last, `summary.json`. Each file is replaced atomically. A deployment adds `begun.json`.",
    ),
    "The privacy card": (
        card,
        "Beside every model that is saved, and in every finished run directory; "
        "[how-to/model.md](how-to/model.md) says what it is for.",
    ),
    "Privacy figures, and `pfels privacy --json`": (privacy, ""),
    "`compare`, `sweep` and `plan`": (studies, ""),
    "The radio's part of `plan`": (radio, "The model is in [radio.md](radio.md)."),
    "`audit`": (audit, "`audit.json`, beside it `scores.csv` with every canary's score and `audit.png`."),
    "`reproduce`": (paper, ""),
    "`verify`, and the published figures": (verify, "How to use them is in [verify.md](verify.md)."),
    "`report`": (report, ""),
    "`data`": (data, ""),
}
RANGES = {"Count": "int ≥ 0", "Amount": "float ≥ 0", "Share": "float in 0…1"}  # of pfels.documents.validate
HEAD = """# Files and JSON

Every field of every document: the files of a run directory, what each command prints with `--json`, and what the Python
API returns. Fields are never renamed; later versions may add some. This page is made from the types in
`pfels.documents` by `python docs/make_files.py`.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, (module, note) in SECTIONS.items():
        parts.append(f"## {title}\n")
        if note:
            parts.append(f"{note}\n")
        parts += _types(module)
    return "\n".join(parts)


def _types(module: ModuleType) -> Iterator[str]:
    source = inspect.getsource(module)
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id != "TypedDict"]
            rows = [_row(lines[item.lineno - 1]) for item in node.body if isinstance(item, ast.AnnAssign)]
            yield f"### {node.name}\n"
            more = ", and:" if rows else "."
            inherited = f" All fields of {' and '.join(map(_link, bases))}{more}" if bases else ""
            yield f"{ast.get_docstring(node)}{inherited}\n"
            if rows:
                yield "| field | type | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        elif isinstance(node, ast.Assign) and isinstance(
            node.value, ast.Call
        ):  # a type whose fields are no Python names
            assert isinstance(node.targets[0], ast.Name)
            fields = next(each for each in node.value.args if isinstance(each, ast.Dict))
            yield f"### {node.targets[0].id}\n"
            rows = [
                _row(re.sub(r'"(.+?)": (.+?),  #', r"\1: \2  #", lines[key.lineno - 1])) for key in fields.keys if key
            ]
            yield "| field | type | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):  # one of several types
            assert isinstance(node.targets[0], ast.Name)
            yield f"### {node.targets[0].id}\n"
            yield f"One of {_linked(ast.unparse(node.value).replace(' | ', ', '))}.\n"


def _row(line: str) -> str:
    field = re.match(r"\s*([\w-]+): (.+?)  # (.+)$", line)
    if field is None:
        raise SystemExit(f"a field needs its type and a comment on one line: {line.strip()}")
    name, kind, about = field.groups()
    optional = kind.startswith("NotRequired[")
    kind = kind.removeprefix("NotRequired[").removesuffix("]") if optional else kind
    for alias, words in RANGES.items():
        kind = re.sub(rf"\b{alias}\b", words, kind)
    shown = re.sub(r"\bNone\b", "null", re.sub(r"\bstr\b", "text", kind)).replace("|", "or")
    return f"| `{name}`{' (optional)' if optional else ''} | {_linked(shown)} | {about} |"


def _linked(kind: str) -> str:
    return re.sub(r"\b[A-Z]\w+\b", lambda found: _link(found[0]), kind)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
