"""A summary held against the log and the checkpoint of its run: what they determine must be what it says."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pfels.config.tree import Config
from pfels.documents.privacy import ExplainedFigure, RunPrivacy
from pfels.documents.run import Environment, Summary
from pfels.errors import InputError, quoted
from pfels.experiment.checkpoint import Checkpoint
from pfels.experiment.ledger import Ledger
from pfels.experiment.link import frame_of, setting_of, stored_example
from pfels.experiment.replay import SUMS, LogTotals, close
from pfels.experiment.units import joules_per_energy
from pfels.privacy.accountant import blind_server_loss
from pfels.privacy.assumptions import priced_assumptions
from pfels.privacy.events import PrivacyLoss

ROUNDING = 1e-6  # relative; versions differ in the last digits
GRID = 0.01  # relative; an accountant's grid is refined until ε changes by 0.2 %, and versions may do that differently
Require = Any


@dataclass(frozen=True)
class Evidence:
    """What a finished run left beside its summary: its config, what the log adds up to, the last checkpoint, and what
    the run was made with."""

    config: Config
    found: LogTotals
    last: Checkpoint
    environment: Environment


def require_agreement(summary: Summary, run: Evidence, path: Path, *, figures: bool = True) -> None:
    """An InputError unless this is the summary of that run; without `figures` nothing is worked out that takes its
    scheme."""

    def require(holds: object, name: str, value: object) -> None:
        if not holds:
            raise InputError(
                f"{path}: altered: {name} = {quoted(value)} is not what the log and the checkpoint of the run say; "
                "restore it from a backup, or delete it, and --resume writes it again"
            )

    stopped = summary.get("stopped")
    planned = summary["rounds"] if stopped is None else stopped["planned_rounds"]
    for key, value in (("scheme", summary["scheme"]), ("seed", summary["seed"]), ("rounds", planned)):
        require(value == getattr(run.config, key), key, value)
    require(stopped == run.last.stopped, "stopped", stopped)
    require(run.found.rounds == run.last.round == summary["rounds"], "rounds", summary["rounds"])
    require(summary["dimension"] == run.last.dimension, "dimension", summary["dimension"])
    engine = summary.get("engine")
    require(engine is None or run.environment.get("engine") in (None, engine), "engine", engine)
    _require_scores(summary, run, require)
    _require_totals(summary, run.last.totals, run.config, require)
    if figures:
        _require_privacy(summary["privacy"], run, require)


def _require_scores(summary: Summary, run: Evidence, require: Require) -> None:
    record = run.found.last
    assert record is not None, "a run has a round"
    if record["test_accuracy"] is not None:  # a run may be stopped between two evaluations
        require(close(summary["accuracy"], record["test_accuracy"], relative=SUMS), "accuracy", summary["accuracy"])
        require(close(summary["loss"], record["test_loss"], relative=ROUNDING), "loss", summary["loss"])
    require(record["test_accuracy"] is not None or "stopped" in summary, "accuracy", summary["accuracy"])
    require(not run.last.diverged or summary["loss"] is None, "loss", summary["loss"])
    model = summary.get("accuracy_last")
    if model is not None:
        known = record.get("test_accuracy_last", None if run.config.server.average else summary["accuracy"])
        require(known is None or close(model, known, relative=SUMS), "accuracy_last", model)
    count = summary.get("test_examples")
    if count is None:
        return
    require(count > 0, "test_examples", count)
    for name in ("accuracy", "accuracy_last", "chance"):  # shares of so many examples
        share: Any = summary.get(name)
        require(share is None or abs(share * count - round(share * count)) < 1e-6, name, share)
    classes = count if run.config.data.name == "file" else stored_example(run.config).classes
    least, chance = 1 / classes, summary.get("chance", 1.0)  # the most frequent class has as many as the mean one
    require(chance >= least * (1 - SUMS), "chance", chance)


def _require_totals(summary: Summary, totals: Mapping[str, Any], config: Config, require: Require) -> None:
    energy = totals["energy"]
    known = {
        "energy": energy,
        "energy_bound": totals["energy_bound"],
        "subcarriers": totals["subcarriers"],
        "airtime_s": totals["slots"] * frame_of(config).slot_s,
        "silent": totals["silent"],
        "privacy_limited_rounds": totals["privacy_limited_rounds"],
        "radiated_j": None if energy is None else energy * joules_per_energy(config),
    }
    for name, value in known.items():
        if name in summary:
            require(close(summary[name], value, relative=SUMS), name, summary[name])  # type: ignore[literal-required]


def _require_privacy(said: RunPrivacy, run: Evidence, require: Require) -> None:
    setting, record = setting_of(run.config, dimension=run.last.dimension), run.found.last
    ledger = Ledger.restore(run.last.tensors, run.last.totals, devices=run.config.data.devices)
    known = ledger.privacy(setting)
    assert record is not None, "a run has a round"
    minimum = said["noise_multiplier_min"]
    require(close(minimum, known["noise_multiplier_min"], relative=SUMS), "noise_multiplier_min", minimum)
    simulated = "carrier" not in run.environment
    for name in ("claimed", "exact_per_round", "server", "outsider"):
        _require_figure(f"privacy.{name}", said[name], known[name], require, simulated=simulated)
    for name, key in (("claimed_epsilon", "epsilon"), ("claimed_valid", "valid")):
        value, claim = said.get(name), dict(said["claimed"] or {})
        require(name not in said or value == claim.get(key), f"privacy.{name}", value)
    server = said["server"]
    require(server["valid"] == record["privacy"]["server"]["valid"], "privacy.server.valid", server["valid"])
    _require_same("privacy.server.distribution", server["distribution"], known["server"]["distribution"], require)
    small = known["server"]["epsilon_at_1e-5"]
    if "epsilon_at_1e-5" in server:
        at_small = server["epsilon_at_1e-5"]
        require(close(at_small, small, relative=ROUNDING), "privacy.server.epsilon_at_1e-5", at_small)
    if "blind_server" in said:
        outsider = PrivacyLoss.read(known["outsider"])
        blind = blind_server_loss(outsider, sampling=setting.sampling, on_air=True, antennas=setting.cell.antennas)
        _require_figure("privacy.blind_server", said["blind_server"], blind.as_dict(), require, simulated=simulated)
    _require_prices(said, ledger, run.config, require)


def _require_figure(name: str, said: Any, known: Any, require: Require, *, simulated: bool) -> None:
    """A figure as it follows from the ledger. In a deployment it may not be valid all the same, since others know the
    noise."""
    if said is None or known is None:
        require(said is known, name, said)
        return
    relative = GRID if known["adversary"] in ("outsider", "blind-server") else ROUNDING
    require(close(said["epsilon"], known["epsilon"], relative=relative), f"{name}.epsilon", said["epsilon"])
    for key in ("delta", "adversary", "neighbours", "participations", "valid_below", "exceeds_100"):
        if key in said and key in known:
            require(said[key] == known[key], f"{name}.{key}", said[key])
    require(said["valid"] == known["valid"] or not (simulated or said["valid"]), f"{name}.valid", said["valid"])
    require(_shows(said), f"{name}.display", said.get("display"))


def _shows(figure: ExplainedFigure) -> bool:
    """Whether the text for tables has the figure's own ε in it, not below it."""
    numbers = re.findall(r"\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?", figure.get("display", ""))
    if figure["epsilon"] is None or "display" not in figure:
        return not numbers
    value = float(numbers[-1].replace(",", "")) if numbers else math.nan
    whole = 1 if figure["epsilon"] > 100 else 0  # which is shown without digits after the point
    return figure["epsilon"] * (1 - 1e-3) <= value <= figure["epsilon"] * 1.01 + whole


def _require_same(name: str, said: Mapping[str, Any], known: Mapping[str, Any], require: Require) -> None:
    for key, value in known.items():
        require(close(said[key], value, relative=ROUNDING), f"{name}.{key}", said[key])


def _require_prices(said: RunPrivacy, ledger: Ledger, config: Config, require: Require) -> None:
    """The prices that follow from the ledger are those; of several antennas, more hear more."""
    worst, known = ledger.server.worst(delta=config.delta), dict[str, float | None]()
    mu_squared = ledger.server.spent.most.spent
    for price in priced_assumptions(mu_squared=mu_squared, delta=config.delta, over_air=True):
        known[price["name"]] = price["epsilon"]
    least, antennas = 0.0, said.get("server_by_antennas", {})
    for m in sorted((m for m in antennas if m.isdecimal() and len(m) < 10), key=int):
        each = antennas[m]
        exact = int(m) != config.channel.antennas or close(each, worst.epsilon, relative=ROUNDING)
        require(each is not None and exact and each >= least, "privacy.server_by_antennas", each)
        least, known[f"the server has {m} antennas"] = each or 0.0, each
    for price in said.get("assumptions", []):
        value = price["epsilon"]
        require(close(value, known.get(price["name"], value), relative=ROUNDING), "privacy.assumptions", value)
