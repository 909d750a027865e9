"""A privacy card: what goes with a model, so that whoever is given one knows what it is worth."""

from typing import NotRequired

from typing_extensions import TypedDict

from pfels.documents.privacy import RunPrivacy
from pfels.documents.validate import Amount, Count, Share, document


@document
class CardModel(TypedDict):
    """The weights that a card is about."""

    file: str  # name of the file with the weights
    sha256: str  # its SHA-256: `sha256:` and 64 digits
    name: str  # `model.name`
    hidden: NotRequired[Count]  # width of the hidden layer; only of mlp and cnn
    parameters: Count  # d
    averaged: bool  # whether it is the average of the released models (`server.average`), or the last one


@document
class CardData(TypedDict):
    """The data that a model learned from."""

    name: str  # `data.name`
    title: str  # what it is
    checksums: dict[str, str]  # SHA-256 or SHA-1 of its files, where it has any
    devices: Count  # N
    partition: str  # how examples were given to devices: iid, dirichlet, shards, writer, …
    features: str  # none, or the features that stand in place of the pixels


@document
class CardScheme(TypedDict):
    """The scheme that trained a model."""

    name: str  # the scheme
    about: str  # what it does
    settings: dict[str, object]  # every setting that it uses of those that change what is sent


@document
class CardCode(TypedDict):
    """The code that trained a model."""

    versions: dict[str, str]  # of pfels and of what results depend on; empty: not recorded
    foreign: NotRequired[object]  # code from outside the package that took part, as environment.json has it


@document
class CardScore(TypedDict):
    """How good the model is, as measured on test examples, which are not protected."""

    accuracy: Share  # test accuracy
    loss: Amount | None  # test loss; null: not finite
    chance: NotRequired[Share]  # accuracy of always guessing the most frequent class
    test_examples: NotRequired[Count]  # how many test examples there are


@document
class CardClaim(TypedDict):
    """The figure that an audit tested."""

    epsilon: Amount | None  # ε; null: nothing was claimed
    delta: Share  # δ
    adversary: str  # server or outsider
    neighbours: str  # device-emptied, add-remove or replace-one


@document
class CardAudit(TypedDict):
    """An audit of the same scheme with the same rounds and devices: of `audit.json` in the run directory."""

    scheme: str  # the scheme
    seeds: list[Count]  # the seed of each training
    rounds: Count  # T
    devices: Count  # real devices
    canaries: Count  # canary devices beside them
    claimed: CardClaim  # what was claimed
    rejected: bool  # whether anything refutes the claim
    rejected_by: list[str]  # by what


@document
class PrivacyCard(TypedDict):
    """`NAME.privacy.json` beside `NAME.safetensors`, and `model.privacy.json` of a finished run directory."""

    format: Count  # 1
    pfels: str  # the version that wrote the card
    statement: str  # what is promised, in a sentence
    warnings: list[str]  # what a reader must know before relying on it
    privacy: RunPrivacy  # every figure of the run, and what each assumption costs if it fails
    assumes: list[str]  # what the figures rest on
    simulated: bool  # whether the devices were simulated; otherwise a deployment trained the model
    seed: Count  # the seed, or the public label of a secret one
    seed_secret: bool  # whether the seed is secret
    rounds: Count  # T
    model: CardModel  # the weights
    data: CardData  # the data
    scheme: CardScheme  # the scheme
    code: CardCode  # the code
    score: CardScore  # how good it is
    audit: CardAudit | None  # an audit of the scheme; null: not audited
