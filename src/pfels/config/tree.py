"""The one validated, frozen description of an experiment."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field, SerializeAsAny, ValidationError, model_validator

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
from pfels.schemes.registry import OFF_BY_DEFAULT, scheme_entry, scheme_names, users_of
from pfels.schemes.scheme import OwnSettings
from pfels.uplink.frame import PREFIX_SHARE

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

    `own` holds the settings of the scheme's own table, which has the scheme's name.
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
        if known and scheme not in tables and scheme_entry(scheme).settings is not None:
            tables[scheme] = {}
        own = {name: _own(name, table) for name, table in tables.items()}
        rest = {key: value for key, value in tree.items() if key not in tables}
        if known and scheme in cls.model_fields:
            raise ValueError(f"scheme = {scheme!r}: has the name of a table of the config; it must have another")
        if "own" in rest:
            raise ValueError("own: unknown key; a scheme's own settings are a table that has its name")
        return rest | ({"own": own[scheme]} if known and scheme in own else {})

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        channel, devices = self.channel, self.data.devices
        uses = scheme_entry(self.scheme).uses
        if self.cohort.size > devices:
            raise ValueError(f"cohort.size = {self.cohort.size}: must be at most data.devices = {devices}")
        if self.sampling is Sampling.TURNS and self.cohort.size > devices // 2:
            raise ValueError(
                f"cohort.size = {self.cohort.size}: with {self.scheme} devices send in turns here, so it must be at "
                f"most half of data.devices = {devices}"
            )
        if not channel.gain_min <= channel.gain_max:
            raise ValueError(f"channel.gain_min = {channel.gain_min}: must be at most gain_max = {channel.gain_max}")
        if not channel.snr_min_db <= channel.snr_max_db:
            raise ValueError(f"channel.snr_min_db = {channel.snr_min_db}: must be at most {channel.snr_max_db}")
        if channel.silent_below > channel.gain_max:
            raise ValueError(f"channel.silent_below = {channel.silent_below}: must be at most {channel.gain_max}")
        if self.privacy.adversary == "blind-server" and "privacy.adversary" in uses and channel.antennas > 1:
            raise ValueError(
                f'channel.antennas = {channel.antennas}: must be 1 for privacy.adversary = "blind-server"; several '
                "tell senders apart"
            )
        self._within_the_prefix()
        flat, defaults = self.flat(), Config.model_construct().flat()
        for key in sorted(OFF_BY_DEFAULT - uses):
            if flat.get(key) != defaults.get(key):
                raise ValueError(f"{key}: {self.scheme} does not use it, only {', '.join(users_of(key))}; leave it out")
        return self

    def _within_the_prefix(self) -> None:
        """A ValueError for echoes and offsets that the cyclic prefix does not cover, and what they do not go with."""
        channel, prefix_us = self.channel, PREFIX_SHARE / self.radio.subcarrier_khz * 1000
        longest_us = 0.0
        if channel.model != "flat":
            from pfels.uplink.tdl import PROFILES  # loads NumPy, which the help does without

            longest = PROFILES[channel.model].longest
            longest_us = longest * channel.delay_spread_ns / 1000
            if longest_us > prefix_us:
                raise ValueError(
                    f"channel.delay_spread_ns = {channel.delay_spread_ns:g}: the last echo of {channel.model} comes "
                    f"after {longest_us:.3g} µs, beyond the cyclic prefix of {prefix_us:.3g} µs; must be at most "
                    f"{math.floor(prefix_us * 1000 / longest)}"
                )
            if channel.antennas > 1:
                raise ValueError(f"channel.antennas = {channel.antennas}: must be 1 unless channel.model is flat")
            if channel.clipping_db is not None:
                raise ValueError(
                    f"channel.clipping_db = {channel.clipping_db:g}: needs channel.model = flat, in which what is "
                    "clipped cannot arrive stronger"
                )
        # The window that takes in the earliest device must still take in the latest.
        if 2 * channel.timing_error_us + longest_us > prefix_us:
            raise ValueError(
                f"channel.timing_error_us = {channel.timing_error_us:g}: early and late devices are further apart than "
                f"the cyclic prefix is long; must be at most {math.floor((prefix_us - longest_us) * 500) / 1000:g}"
            )

    def tree(self) -> dict[str, Any]:
        """The whole config as nested tables, the scheme's own one included."""
        own = {} if self.own is None else {self.scheme: self.own.model_dump(exclude_none=True)}
        return self.model_dump(exclude_none=True) | own

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
    settings = scheme_entry(name).settings
    if settings is None:
        raise ValueError(f"{name}: {name} has no settings of its own; leave the table out")
    try:
        return settings.model_validate(table)
    except ValidationError as error:
        raise ValueError(explain(error.errors()[0], settings, table=name)) from None
