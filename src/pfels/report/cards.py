"""The privacy cards of stored runs, held against the runs: one that was altered is not linked."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from pfels.data.cache import digest
from pfels.documents.card import PrivacyCard
from pfels.documents.privacy import Figure
from pfels.documents.run import Summary
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.experiment.card import Facts, privacy_card, scored
from pfels.experiment.card_page import markdown
from pfels.experiment.delivery import IN_DIRECTORY, card_paths
from pfels.experiment.reader import StoredRun
from pfels.runtime.files import printable, read_json

SLACK = 1e-9  # relative; another version may add up in another order


@dataclass(frozen=True)
class Card:
    """The card of a run: its files that agree with the run, and what is wrong with it, if anything is."""

    run: StoredRun
    files: tuple[Path, ...]
    fault: str = ""

    def links(self, page: Path) -> list[tuple[str, str]]:
        """Name and address of each file, as seen from the report at `page`."""
        return [(file.name, _address(file, page.parent)) for file in self.files]


def cards(runs: Sequence[StoredRun]) -> list[Card]:
    """The cards of the finished runs that have one."""
    return [card for run in runs if run.summary is not None for card in _cards(run, run.summary)]


def _cards(run: StoredRun, summary: Summary) -> Iterator[Card]:
    document, page = card_paths(run.path / IN_DIRECTORY)
    try:
        content = read_json(document)
        if content is None:
            return
        card = validated(PrivacyCard, content, document.name)
        made = run.environment.get("versions", {}).get("pfels")
        if not card["pfels"] == made == version("pfels"):  # others may say more, or in other words
            yield Card(run, (document,), "" if _same_figures(card, summary) else f"{document.name} is not of this run")
            return
        if card not in (_expected(run, summary, card, place) for place in (run.path, None)):
            yield Card(run, (), f"{document.name} is not of this run")
        elif not _holds(page, markdown(card).encode()):
            yield Card(run, (document,), f"{page.name} is not the page of {document.name}")
        else:
            yield Card(run, (page, document))
    except (InputError, OSError) as error:
        yield Card(run, (), f"{document.name}: {error}")


def _expected(run: StoredRun, summary: Summary, card: PrivacyCard, place: Path | None) -> PrivacyCard:
    """The card that the run itself gives, for the model that the card names; without a place, before any audit."""
    name = card["model"]["file"]
    if name not in ("checkpoint.safetensors", IN_DIRECTORY):
        raise InputError(f"model.file: must be checkpoint.safetensors or {IN_DIRECTORY}")
    if not (run.path / name).is_file():
        raise InputError(f"{name} is missing")
    facts = Facts(run.config, run.environment, summary["privacy"], scored(summary), summary["dimension"], place)
    return privacy_card(facts, file=name, sha256=digest(run.path / name, "sha256"))


def _holds(file: Path, content: bytes) -> bool:
    """Whether a file, which may be anything, holds this."""
    return file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content


def _same_figures(card: PrivacyCard, summary: Summary) -> bool:
    mine, theirs = card["privacy"], summary["privacy"]
    pairs: list[tuple[Figure, Figure]] = [
        (mine["server"], theirs["server"]), (mine["outsider"], theirs["outsider"])
    ]  # fmt: skip
    return all(a["delta"] == b["delta"] and _close(a["epsilon"], b["epsilon"]) for a, b in pairs) and _close(
        card["score"]["accuracy"], summary["accuracy"]
    )


def _close(a: float | None, b: float | None) -> bool:
    return a is b if a is None or b is None else math.isclose(a, b, rel_tol=SLACK)


def _address(file: Path, folder: Path) -> str:
    """A relative address, which no name can turn into another scheme."""
    return "./" + quote(os.path.relpath(os.fsencode(file.resolve()), os.fsencode(folder.resolve())))


def names(found: Sequence[Card]) -> list[str]:
    """The paths of all files, for JSON."""
    return [printable(file) for card in found for file in card.files]
