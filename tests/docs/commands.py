"""The commands that pages show: in code blocks, indented or fenced, and in running text between backticks."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import FENCE, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DONE = {ROOT / "docs" / "index.md", *(ROOT / "docs" / "tutorials").glob("*.md")}  # whose blocks are run as they are
TOOLS = ("pfels", "make", "python", "python3", "torchrun", "flwr", "flower-superlink", "flower-supernode")
NODE = ("python", "-m", "pfels.flower.node")  # takes the options of flower-supernode; tests/flower reads them
OUTPUT = ("text", "json", "python", "toml", "markdown")  # fences that hold no commands
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
SEPARATORS = ("|", "||", "&&", ";", "&")
# What a shell would put in, and what stands for something of the reader's own.
STANDS_FOR = (
    (re.compile(r"\$\(seq -s, 0 99\)"), "0,1"),
    (re.compile(r"\$\(python -m pfels\.flower\)"), "app"),
    (re.compile(r"\$SLURM_ARRAY_TASK_ID"), "1"),
    (re.compile(r"\$(USER|PWD)\b"), "here"),
    (re.compile(r"\bPRESET\b"), "demo"),
    (re.compile(r"\bNAME\b"), "fashion"),
    (re.compile(r"\bFILE\b|/srv/pfels/ledger\.json"), "ledger.json"),
    (re.compile(r"\b(RUN_)?DIR\b"), "runs/first"),
    (re.compile(r"\bPARTITION/PARTITIONS --devices N\b"), "0/4 --devices 100"),
    (re.compile(r"\bbackoff\b"), "wfl-pdp"),  # the scheme that a reader adds
    (re.compile(r"=…"), "=pfels"),  # only schemes are left open so
)


@dataclass(frozen=True)
class Command:
    """One command: its words, where it was first found, and whether it is an excerpt with parts left out."""

    words: tuple[str, ...]
    place: str
    excerpt: bool

    def __str__(self) -> str:
        return shlex.join(self.words)


def commands() -> list[Command]:
    """Every command of every page, once."""
    found: dict[tuple[str, ...], Command] = {}
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for line, inline in _lines(page.read_text("utf-8")):
            for command in _split(line, name, inline=inline) if inline or page not in DONE else ():
                found.setdefault(command.words, command)
    return list(found.values())


def _lines(page: str) -> Iterator[tuple[str, bool]]:
    """Lines of code that begin with a tool, with continuations joined; and code within running text."""
    text, fence = list[str](), None
    code = list[str]()
    for line in page.split("\n"):
        match = FENCE.match(line)
        if match and (fence is None or not match[2]):
            fence = match[2] if fence is None else None
            text.append("")
        elif fence is not None:
            code.append("" if fence in OUTPUT or re.match(r" {1,3}\S", line) else line)  # rows of tables are indented
        elif line.startswith("    ") and line.lstrip().split(" ")[0] in TOOLS:
            code.append(line)
        else:
            text.append(line)
    rest = iter(re.sub(r"\\\n\s*", " ", "\n".join(code)).split("\n"))
    for line in rest:
        whole = line.strip().removeprefix("$ ")
        while whole.split(" ")[0] in TOOLS and _open(whole):
            whole += f" {next(rest).strip()}"
        yield whole, False
    for snippet in INLINE.findall("\n".join(text)):
        yield " ".join(snippet.split()), True


def _open(line: str) -> bool:
    """Whether a quotation goes on in the next line."""
    try:
        shlex.split(line, comments=True)
    except ValueError:
        return True
    return False


def _split(line: str, place: str, *, inline: bool) -> Iterator[Command]:
    """The commands of a line: `a | b && c` has three."""
    first = line.split(" ", maxsplit=1)[0]
    if Path(first).name not in TOOLS or (inline and line == first):
        return
    for pattern, value in STANDS_FOR:
        line = pattern.sub(value, line)
    words: list[str] = []
    for word in [*shlex.split(line, comments=True), ";"]:
        if word not in SEPARATORS:
            words.append(word)
            continue
        for i, each in enumerate(words):
            if each in (">", "2>&1") or each.startswith(">"):
                words = words[:i]
                break
        if words and Path(words[0]).name in TOOLS:
            kept = [each for each in words if each != "…" and "⇥" not in each]  # the latter is completed by a key
            if len(kept) > 1:
                yield Command((Path(kept[0]).name, *kept[1:]), place, excerpt=len(kept) < len(words))
        words = []
