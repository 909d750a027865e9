"""The one validated, frozen description of an experiment."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, Field, SerializeAsAny, ValidationError, model_validator

from pfels.config.messages import explain
from pfels.config.tables import (
    Channel,
    Cohort,
    Compression,
    Count,
    Data,
    Model,
    Privacy,
    Radio,
    Run,
    Server,
    Table,
    Training,
)
from pfels.config.toml import to_toml
from pfels.privacy.events import Sampling
from pfels.schemes.registry import scheme_entry, scheme_names, users_of, uses_setting
from pfels.schemes.scheme import OwnSettings
from pfels.uplink.effects.cell import Cell, installed_effects
from pfels.uplink.effects.effect import Effect
from pfels.uplink.frame import Band

T = TypeVar("T", bound=BaseModel)
NEUTRAL_KEYS = frozenset({"run.workers", "run.checkpoint_every"})  # these cannot change a result
# Keys that were added later, with the defaults that change nothing: runs from before keep their hash.
LATER_KEYS = {
    "data.features": "none",
    "server.average": 0.0,
    "channel.antennas": 1,
    "channel.csi_error_db": 0.0,
    "channel.phase_error_deg": 0.0,
    "channel.timing_error_us": 0.0,
    "channel.model": "flat",
    "channel.delay_spread_ns": 100.0,
    "channel.fade_limit_db": 10.0,
    "run.precision": "float32",
    **{f"radio.{key}": value for key, value in Radio().model_dump(exclude_none=True).items()},
}


class Config(Table):
    """One experiment. The same config gives the same result to the bit.

    `own` holds the settings of the scheme's own table, which has the scheme's name, and `effects` the channel's effects
    of other packages that are active, each from the table that has its name.
    """

    scheme: str = "pfels"
    seed: int = Field(default=0, ge=0, lt=2**63)
    rounds: Count = 300
    data: Data = Data()
    model: Model = Model()
    training: Training = Training()
    cohort: Cohort = Cohort()
    channel: Channel = Channel()
    radio: Radio = Radio()
    compression: Compression = Compression()
    privacy: Privacy = Privacy()
    server: Server = Server()
    run: Run = Run()
    own: SerializeAsAny[OwnSettings] | None = Field(default=None, exclude=True)
    effects: tuple[SerializeAsAny[Effect], ...] = Field(default=(), exclude=True)

    @property
    def sampling(self) -> Sampling:
        """How cohorts are drawn: as the scheme always does, or as `cohort.sampling` says."""
        return scheme_entry(self.scheme).sampling or Sampling(self.cohort.sampling)

    @property
    def delta(self) -> float:
        """The δ of every privacy figure: the one that is set, or 1/N."""
        return 1 / self.data.devices if self.privacy.delta is None else self.privacy.delta

    @model_validator(mode="before")
    @classmethod
    def _own_table(cls, tree: Any) -> Any:
        """Read the tables of schemes, and keep the one of this config's scheme as `own`."""
        if not isinstance(tree, Mapping):
            return tree
        scheme, names = tree.get("scheme", cls.model_fields["scheme"].default), scheme_names()
        tables = {name: tree[name] for name in tree if name in names and name not in cls.model_fields}
        known = isinstance(scheme, str) and bool(scheme_entry(scheme))  # an unknown scheme is the first thing to say
        if known and scheme not in tables and scheme_entry(scheme).own_settings() is not None:
            tables[scheme] = {}
        own = {name: _own(name, table) for name, table in tables.items()}
        rest = {key: value for key, value in tree.items() if key not in tables}
        if known and scheme in cls.model_fields:
            raise ValueError(f"scheme = {scheme!r}: has the name of a table of the config; it must have another")
        if "own" in rest or "effects" in rest:
            raise ValueError("own, effects: unknown keys; settings of other packages are tables that have their names")
        kinds = {name: kind for name, kind in installed_effects().items() if name not in cls.model_fields}
        effects = [_table(name, kinds[name], rest.pop(name)) for name in kinds if name in rest]
        active = tuple(each for each in effects if each.active)
        return rest | {"effects": active} | ({"own": own[scheme]} if known and scheme in own else {})

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        channel, devices = self.channel, self.data.devices
        if self.cohort.size > devices:
            of_file = self.data.name == "file" and "devices" not in self.data.model_fields_set
            why = ", the writers in the file" if of_file else ""
            raise ValueError(f"cohort.size = {self.cohort.size}: must be at most data.devices = {devices}{why}")
        if self.sampling is Sampling.TURNS and self.cohort.size > devices // 2:
            raise ValueError(
                f"cohort.size = {self.cohort.size}: with {self.scheme} devices send in turns here, so it must be at "
                f"most half of data.devices = {devices}"
            )
        if not channel.snr_min_db <= channel.snr_max_db:
            raise ValueError(f"channel.snr_min_db = {channel.snr_min_db}: must be at most {channel.snr_max_db}")
        if self._for_blind_server() and channel.antennas > 1:
            raise ValueError(
                f'channel.antennas = {channel.antennas}: must be 1 for privacy.adversary = "blind-server"; several '
                "tell senders apart"
            )
        self.cell(Band(channel.subcarriers, self.radio.subcarrier_khz * 1000)).check()
        compression = {"compression.error_feedback": self.compression.error_feedback}
        compression["compression.kind"] = self.compression.kind != "rand-k"
        for key in (*(key for key, on in compression.items() if on), *self.active_effects()):
            if not uses_setting(self.scheme, key):
                raise ValueError(f"{key}: {self.scheme} does not use it, only {', '.join(users_of(key))}; leave it out")
        return self

    def active_effects(self) -> Iterator[str]:
        """For each effect of the channel that is active the first of its settings that differs from its default."""
        flat, defaults = self.flat(), Config.model_construct().flat()
        names = {kind: name for name, kind in installed_effects().items()}
        for each in self.cell(Band()).effects:
            keys = (f"{names.get(type(each), 'channel')}.{name}" for name in type(each).model_fields)
            yield next(key for key in keys if flat.get(key) != defaults.get(key))

    def _for_blind_server(self) -> bool:
        return self.privacy.adversary == "blind-server" and uses_setting(self.scheme, "privacy.adversary")

    def cell(self, band: Band) -> Cell:
        """The channel in this band."""
        return Cell.of(dict(self.channel), self.effects, band=band)

    def tree(self) -> dict[str, Any]:
        """The whole config as nested tables, the scheme's own one included."""
        own = {} if self.own is None else {self.scheme: self.own.model_dump(exclude_none=True)}
        names = {kind: name for name, kind in installed_effects().items()}
        effects = {names[type(each)]: each.model_dump(exclude_none=True) for each in self.effects}
        return self.model_dump(exclude_none=True) | own | effects

    def said(self) -> dict[str, Any]:
        """The tables without what follows from the data where they leave it open (`Data`)."""
        tree, said = self.tree(), self.data.model_fields_set
        follows = {"devices", "partition"} - said
        return tree | {"data": {key: value for key, value in tree["data"].items() if key not in follows}}

    def flat(self) -> dict[str, Any]:
        """Every set key with its value, as `table.key`, in the order of the tree."""
        return flattened(self.tree())

    def digest(self, *, leaving_out: Collection[str] = NEUTRAL_KEYS) -> str:
        """A hash of all that can change a result."""
        return digest_of(self.flat(), leaving_out=leaving_out)

    def to_toml(self) -> str:
        """The whole config as TOML that `load_config` reads back."""
        return to_toml(self.tree())


def flattened(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of nested tables as `table.key`, those without a table first."""
    tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
    inner = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    return {key: value for key, value in tree.items() if key not in tables} | inner


def digest_of(flat: Mapping[str, Any], *, leaving_out: Collection[str] = NEUTRAL_KEYS) -> str:
    """A hash of all keys of a config that can change a result."""
    kept = {key: value for key, value in flat.items() if key not in leaving_out}
    kept = {key: value for key, value in kept.items() if LATER_KEYS.get(key) != value}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _own(name: str, table: Any) -> OwnSettings:
    settings = scheme_entry(name).own_settings()
    if settings is None:
        raise ValueError(f"{name}: {name} has no settings of its own; leave the table out")
    return _table(name, settings, table)


def _table(name: str, kind: type[T], table: Any) -> T:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise ValueError(explain(error.errors()[0], kind, table=name)) from None
