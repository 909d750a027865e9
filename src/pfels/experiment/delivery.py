"""A model that leaves a run: weights by name in PyTorch's layout, in a file beside which its privacy card stands."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pfels.config.tree import Config
from pfels.data.inputs import described
from pfels.documents.card import PrivacyCard
from pfels.errors import InputError, RunError
from pfels.experiment.card import Facts, privacy_card, statement
from pfels.experiment.card_page import markdown
from pfels.experiment.checkpoint import safetensors
from pfels.experiment.link import Example
from pfels.runtime.files import printable, to_json, write_atomically, written_atomically
from pfels.runtime.lazy_torch import Tensor

SUFFIX = ".safetensors"
IN_DIRECTORY = f"model{SUFFIX}"  # the name that a run directory's own card goes by: its checkpoint holds the model


@dataclass(frozen=True)
class Origin:
    """Where a result's model comes from: the network's config, what its inputs look like, and what its card says.
    `weights` is the fingerprint of the parameters as the run ended with them."""

    config: Config
    weights: str
    example: Callable[[], Example]
    facts: Callable[[], Facts]


def fingerprint(parameters: Tensor) -> str:
    """A hash of a parameter vector: a card is about these very numbers."""
    return hashlib.sha256(parameters.contiguous().numpy().data).hexdigest()


def card_paths(path: Path) -> tuple[Path, Path]:
    """The card of a model: JSON and Markdown.

    >>> [each.name for each in card_paths(Path("m.safetensors"))]
    ['m.privacy.json', 'm.privacy.md']
    """
    return path.with_name(f"{path.stem}.privacy.json"), path.with_name(f"{path.stem}.privacy.md")


def require_place(path: Path, run: Path | None = None) -> None:
    """An InputError unless a model and its card can go there; `run` is a run directory that may not be there yet."""
    name, beside = printable(path), run is not None and path.parent.resolve() == run.resolve()
    if path.suffix != SUFFIX:
        raise InputError(
            f"{name}: a model is saved as a safetensors file, such as {printable(path.with_suffix(SUFFIX))}"
        )
    if not beside and not path.parent.is_dir():
        raise InputError(f"{name}: there is no folder {printable(path.parent)}; make it, or choose another place")
    for each in (path, *card_paths(path)):
        if each.exists() and not each.is_file():
            raise InputError(f"{printable(each)}: not a file; choose another name for the model")
    if path.name == "checkpoint.safetensors" and (beside or (path.parent / "config.toml").exists()):
        raise InputError(f"{name}: the checkpoint of a run; choose another name, such as model{SUFFIX}")
    if path.parent.is_dir() and not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{name}: the folder cannot be written; choose another place")


def save(path: Path, weights: Mapping[str, Tensor], seen: Example, facts: Facts) -> None:
    """Write the weights and the card beside them: all three files, or where one cannot be written, none.

    The card takes its place first. A process that is killed in between leaves a card that has another checksum than the
    model beside it, or a card without a model, never a model without a card.
    """
    require_place(path)
    cards = card_paths(path)
    before = {each: each.read_bytes() if each.exists() else None for each in cards}
    digest = hashlib.sha256()
    try:
        with written_atomically(path) as file:
            for part in safetensors(weights, _metadata(facts, seen)):
                digest.update(part)
                file.write(part)
            file.flush()
            os.fsync(file.fileno())  # a full disk shows here, before the card is in its place
            write_card(
                path, privacy_card(facts, file=printable(Path(path.name)), sha256=f"sha256:{digest.hexdigest()}")
            )
    except BaseException as error:
        for each, content in before.items():
            with suppress(OSError):
                if content is None:
                    each.unlink(missing_ok=True)
                elif each.read_bytes() != content:
                    write_atomically(each, content)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise RunError(f"{printable(path)}: cannot be written ({reason}); nothing was saved") from None
        raise


def write_card(path: Path, card: PrivacyCard) -> None:
    """Write the card of the model that is at `path`, or will be."""
    document, page = card_paths(path)
    write_atomically(page, markdown(card).encode())
    write_atomically(document, to_json(card))


def _metadata(facts: Facts, seen: Example) -> dict[str, str]:
    """What the file says of itself: text by name, as the format wants it."""
    model = facts.config.model
    return {
        "format": "pt",
        "pfels": version("pfels"),
        "model": model.name,
        "shape": json.dumps(list(seen.shape)),
        "classes": str(seen.classes),
        **({"hidden": str(model.hidden)} if model.name in ("mlp", "cnn") else {}),
        "input": described(facts.config.data.name, facts.config.data.features),
        "privacy": statement(facts.privacy),
    }
