"""The privacy card of a finished run: what its model is worth to those who are given it."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pfels.config.scheme_settings import uses
from pfels.config.tree import Config
from pfels.data.catalog import find
from pfels.documents.card import CardAudit, CardData, CardModel, CardScore, PrivacyCard
from pfels.documents.privacy import RunPrivacy
from pfels.documents.run import Environment, Summary
from pfels.documents.validate import validated
from pfels.errors import InputError
from pfels.privacy.events import Neighbours, rounded_up
from pfels.runtime.files import printable, read_json
from pfels.schemes.registry import is_foreign, scheme_entry

FORMAT = 1
AUDIT = "audit.json"  # in a run directory: what `pfels audit` wrote of the same config


@dataclass(frozen=True)
class Facts:
    """What a finished run tells its card. `directory` is where an audit of it may be."""

    config: Config
    environment: Environment
    privacy: RunPrivacy
    score: CardScore
    parameters: int
    directory: Path | None = None


def scored(summary: Summary) -> CardScore:
    """What a card says of how good a run's model is."""
    score: CardScore = {"accuracy": summary["accuracy"], "loss": summary["loss"]}
    if "chance" in summary:
        score["chance"] = summary["chance"]
    if "test_examples" in summary:
        score["test_examples"] = summary["test_examples"]
    return score


def privacy_card(facts: Facts, *, file: str, sha256: str) -> PrivacyCard:
    """The card that goes with the model in a file of this name and checksum."""
    config, about, audit = facts.config, facts.environment, _audit(facts)
    card: PrivacyCard = {
        "format": FORMAT,
        "pfels": version("pfels"),
        "statement": statement(facts.privacy),
        "warnings": _warnings(facts, audit),
        "privacy": facts.privacy,
        "assumes": _assumes(facts),
        "simulated": "carrier" not in about,
        "seed": config.seed,
        "seed_secret": about.get("seed") == "secret",
        "rounds": config.rounds,
        "model": _model(facts, file, sha256),
        "data": _data(config, about),
        "scheme": {
            "name": config.scheme,
            "about": scheme_entry(config.scheme).about,
            "settings": _settings(config),
        },
        "code": {"versions": dict(about.get("versions", {}))},
        "score": facts.score,
        "audit": audit,
    }
    if foreign := _foreign_code(about):
        card["code"]["foreign"] = foreign
    return card


def statement(privacy: RunPrivacy) -> str:
    """What the figures promise, in a sentence or two; where they promise nothing, that."""
    server = privacy["server"]
    if server["epsilon"] is None:
        found = f"No privacy: {server['why']}. What the model or an update says about a device has no limit."
    elif not server["valid"]:
        found = f"No privacy guarantee: {server['why']}."
    else:
        small, relation = server.get("epsilon_at_1e-5"), Neighbours(server["neighbours"]).sentence.partition(":")[0]
        beside = "" if small is None else f" (at δ = 1e-5: {_up(small)})"
        found = (
            f"ε = {_up(server['epsilon'])} at δ = {server['delta']:g}{beside} against the server, over the whole "
            f"training, for the worst device; neighbours: {relation}. It holds if the assumptions below hold."
        )
        if server["epsilon"] > 100:
            found = f"No useful privacy: an ε above 100 promises nothing. {found}"
    others = (("a blind server", privacy.get("blind_server")), ("an outsider", privacy["outsider"]))
    for who, figure in others:
        if figure is None or figure["epsilon"] is None or not figure["valid"]:
            continue
        if server["epsilon"] is None or figure["epsilon"] < server["epsilon"]:
            relation = Neighbours(figure["neighbours"]).sentence.partition(":")[0]
            at = f"at δ = {figure['delta']:g}; neighbours: {relation}"
            found += f" Against {who}: ε = {_up(figure['epsilon'])} {at}."
    return found


def _up(epsilon: float) -> str:
    return f"{rounded_up(epsilon, digits=4):,.4g}" if epsilon < 1000 else f"{rounded_up(epsilon, digits=4):,.0f}"


def _warnings(facts: Facts, audit: CardAudit | None) -> list[str]:
    config, about = facts.config, facts.environment
    found = []
    if "carrier" not in about:
        found.append(
            f"Trained in a simulation. All noise, cohorts and channels follow from the seed, {config.seed}, which is "
            "public: no figure holds against anyone who knows it. The figures are about the scheme."
        )
    else:
        found.append(
            f"The rounds were carried by {about['carrier']}: the figures are about a server that sees the noisy sums "
            "alone, and a server of this kind could look at single signals."
        )
    if not facts.privacy.get("audited", True) and audit is None:
        what = f"{config.scheme} is a scheme" if is_foreign(config.scheme) else "the rounds were played by code"
        found.append(f"Not audited: {what} from outside pfels; nothing has tested that the figures hold.")
    if audit is not None and audit["rejected"]:
        found.append(f"An audit rejected the figures of this scheme ({', '.join(audit['rejected_by'])}).")
    if _foreign_code(about):
        found.append("Code from outside pfels took part in the training; see the section on code.")
    held_out = (
        find(config.data.name).held_out or config.data.name == "synthetic" if config.data.name != "file" else False
    )
    whose = "held out from the devices' own data" if held_out else "of the test set"
    found.append(f"Accuracy and loss were measured without noise on examples {whose}; no figure covers those.")
    return found


def _assumes(facts: Facts) -> list[str]:
    """What the figure against the server rests on, where there is one."""
    server, config = facts.privacy["server"], facts.config
    if server["epsilon"] is None or not server["valid"]:
        return []
    found = []
    if "server_by_antennas" in facts.privacy:
        antennas = config.channel.antennas
        found += [
            "The receiver's noise is at least σ₀ on every channel use.",
            "Every device knows its own gain "
            + (f"within {config.channel.csi_error_db:g} dB." if config.channel.csi_error_db else "exactly."),
            f"The server has {antennas} antenna{'' if antennas == 1 else 's'}, and no one else listens.",
        ]
    if more := scheme_entry(config.scheme).assumes:
        found.append(f"{more[0].upper()}{more[1:]}.")
    return [
        *found,
        "Every update is sent once.",
        "No setting was chosen on these devices' data, and no run was chosen for its result.",
        "Devices run the code that is named below, and nothing but models is published.",
    ]


def _model(facts: Facts, file: str, sha256: str) -> CardModel:
    model = facts.config.model
    found: CardModel = {
        "file": file,
        "sha256": sha256,
        "name": model.name,
        "parameters": facts.parameters,
        "averaged": facts.config.server.average > 0,
    }
    if model.name in ("mlp", "cnn"):
        found["hidden"] = model.hidden
    return found


def _data(config: Config, about: Environment) -> CardData:
    data = config.data
    own, entry = data.name == "file", None if data.name == "file" else find(data.name)
    known = {} if entry is None or data.path is not None else dict(entry.files)
    return {
        "name": data.name,
        "title": "the user's own" if own or entry is None else entry.title,
        "checksums": dict(about.get("data", known)),
        "devices": data.devices,
        "partition": data.partition,
        "features": data.features,
    }


def _settings(config: Config) -> dict[str, object]:
    """The settings that the scheme uses, without those of data and model, and of what changes neither."""
    others = ("data.", "model.", "radio.", "run.")
    return {
        key: value
        for key, value in config.flat().items()
        if key not in ("scheme", "seed", "rounds") and not key.startswith(others) and uses(config.scheme, key)
    }


def _foreign_code(about: Mapping[str, object]) -> object:
    """The code from outside the package that took part, as the environment has it."""
    return about.get("code")


def _audit(facts: Facts) -> CardAudit | None:
    """The audit in the run directory, which must be of a training like this one."""
    path = None if facts.directory is None else facts.directory / AUDIT
    content = None if path is None else read_json(path)
    if content is None or path is None:
        return None
    found, config = validated(CardAudit, content, printable(path)), facts.config
    theirs = found["scheme"], found["rounds"], found["devices"]
    if theirs != (config.scheme, config.rounds, config.data.devices):
        raise InputError(
            f"{printable(path)}: an audit of {found['scheme']}, {found['rounds']} rounds and {found['devices']} "
            f"devices; the run is of {config.scheme}, {config.rounds} and {config.data.devices}; remove it"
        )
    kept: CardAudit = {
        "scheme": found["scheme"],
        "seeds": found["seeds"],
        "rounds": found["rounds"],
        "devices": found["devices"],
        "canaries": found["canaries"],
        "claimed": found["claimed"],
        "rejected": found["rejected"],
        "rejected_by": found["rejected_by"],
    }
    return kept
