"""The schemes by name, and what is known of each before it is built. A new scheme is one file and one entry here.

A scheme can also live in another package, which names its `SchemeEntry` under the entry point `pfels.schemes`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import UnionType
from typing import TYPE_CHECKING, Literal, Union, get_args, get_origin

from pfels.errors import InputError, nearest, quoted
from pfels.privacy.events import Sampling
from pfels.schemes import create
from pfels.schemes.echo_settings import EchoSettings
from pfels.schemes.related_settings import LiuSimeoneSettings, TruncatedInversionSettings

if TYPE_CHECKING:
    from pfels.schemes.scheme import OwnSettings, Scheme
    from pfels.schemes.setting import Setting

# Settings that not every scheme uses. All others are for all schemes.
AIR = frozenset(
    f"channel.{key}"
    for key in (
        "gain_mean", "gain_min", "gain_max", "noise_std", "snr_min_db", "snr_max_db", "snr_scale",
        "antennas", "csi_error_db", "delay_spread_ns", "fade_limit_db",
    )
)  # fmt: skip
# What a channel does beyond a gain. Noise that devices add would arrive other than planned, so not every scheme may.
WAVEFORM = frozenset(f"channel.{key}" for key in ("phase_error_deg", "timing_error_us", "clipping_db", "model"))
TOTAL = frozenset({"privacy.total_epsilon", "privacy.adversary"})
OFF_BY_DEFAULT = WAVEFORM | {"channel.silent_below", "compression.kind", "compression.error_feedback"}
PARTIAL = AIR | TOTAL | OFF_BY_DEFAULT | {"training.clip", "compression.ratio", "privacy.epsilon"}


NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


class BudgetBy(StrEnum):
    """How a budget for the whole training sets a scheme's noise."""

    CLAIM = "claim"  # through the claim per round: `privacy.epsilon` is lowered until the budget is met
    TOTAL = "total"  # the scheme calibrates itself to `privacy.total_epsilon`
    SWITCH = "switch"  # through the claim per round, once the scheme's own setting `private` is on


@dataclass(frozen=True)
class SchemeEntry:
    """What is known of a scheme before it is built.

    `uses` lists which of the PARTIAL settings it reads. `claims` says that it makes the paper's claim of
    (`privacy.epsilon`, δ) per round. `sampling` is the only sampling it draws, None if `cohort.sampling` decides.
    `budget` is how a budget sets its noise, None if nothing does. `settings` is the type of its own table. `assumes` is
    what its privacy figures take for granted beyond those of the other schemes. `about` says in a line what it is.
    """

    create: "Callable[[Setting], Scheme]"
    uses: frozenset[str] = frozenset()
    claims: bool = False
    sampling: Sampling | None = None
    budget: BudgetBy | None = None
    settings: "type[OwnSettings] | None" = None
    assumes: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        unknown = sorted(self.uses - PARTIAL)
        if unknown:
            raise InputError(
                f"uses: {unknown[0]} is not a setting that only some schemes use{nearest(unknown[0], PARTIAL)}"
            )
        for name, field in (self.settings.model_fields if self.settings else {}).items():
            if field.is_required() or not _is_scalar(field.annotation):
                raise InputError(
                    f"settings: {name} needs a default, and must be a number, a text, a choice or true/false"
                )


def _is_scalar(kind: object) -> bool:
    """Whether a field can be written as one TOML value: bool, int, float, str, a Literal of texts, or None instead."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = [option for option in options if option is not type(None)]
    return all(option in (bool, int, float, str) or get_origin(option) is Literal for option in plain)


_SCHEMES = {
    "pfels": SchemeEntry(
        create.pfels,
        uses=AIR | WAVEFORM | {"training.clip", "compression.ratio", "compression.error_feedback", "privacy.epsilon"},
        claims=True,
        budget=BudgetBy.CLAIM,
        about="A random part of each update over the air, under power limits and a claim of ε per round (the paper's).",
    ),
    "wfl-p": SchemeEntry(
        create.wfl_p,
        uses=AIR | WAVEFORM | {"training.clip"},
        about="Whole updates over the air, at the level that the power limits allow; no privacy limit.",
    ),
    "wfl-pdp": SchemeEntry(
        create.wfl_pdp,
        uses=AIR | WAVEFORM | {"training.clip", "privacy.epsilon"},
        claims=True,
        budget=BudgetBy.CLAIM,
        about="Whole updates over the air, under power limits and a claim of ε per round.",
    ),
    "dp-fedavg": SchemeEntry(
        create.dp_fedavg,
        uses=frozenset({"training.clip", "privacy.epsilon"}),
        claims=True,
        budget=BudgetBy.CLAIM,
        assumes="devices add their noise",
        about="Whole updates over ideal links; each device adds its share of the noise.",
    ),
    "fedavg": SchemeEntry(create.fedavg, about="Whole updates over ideal links, without clipping, noise or privacy."),
    "pfels-plus": SchemeEntry(
        create.pfels_plus,
        uses=AIR | TOTAL | OFF_BY_DEFAULT | {"training.clip", "compression.ratio"},
        sampling=Sampling.POISSON,
        budget=BudgetBy.TOTAL,
        about="PFELS with Poisson cohorts, one public level and a budget for all rounds; weak channels are silent.",
    ),
    "pfels-echo": SchemeEntry(
        create.pfels_echo,
        uses=AIR | WAVEFORM | TOTAL | {"channel.silent_below", "training.clip", "compression.ratio"},
        sampling=Sampling.TURNS,
        budget=BudgetBy.TOTAL,
        settings=EchoSettings,
        about="Devices send in turns and repeat it with falling weights; the server decodes, which takes out noise.",
    ),
    "liu-simeone": SchemeEntry(
        create.liu_simeone,
        uses=AIR | WAVEFORM | TOTAL | {"training.clip"},
        budget=BudgetBy.TOTAL,
        settings=LiuSimeoneSettings,
        about="One budget, spread over rounds whose channels are known beforehand (Liu and Simeone 2021).",
    ),
    "artificial-noise": SchemeEntry(
        create.artificial_noise,
        uses=AIR | {"training.clip", "privacy.epsilon"},
        claims=True,
        budget=BudgetBy.CLAIM,
        assumes="all devices of a round add their noise",
        about="Devices align to the weakest and spend the rest of their power on noise (Seif, Tandon and Li 2020).",
    ),
    "truncated-inversion": SchemeEntry(
        create.truncated_inversion,
        uses=AIR | WAVEFORM | {"training.clip", "channel.silent_below", "privacy.epsilon"},
        budget=BudgetBy.SWITCH,
        settings=TruncatedInversionSettings,
        about="Devices below a gain floor are silent, the others invert their channels (Zhu, Wang and Huang 2020).",
    ),
}
BUILT_IN = frozenset(_SCHEMES)


def register(name: str, entry: SchemeEntry) -> None:
    """Make a scheme known in this process; worker processes know it only if a module that they import registers it.

    A package uses the entry point `pfels.schemes` instead.
    """
    if not re.fullmatch(NAME, name):
        raise InputError(f"scheme = {name!r}: a name has lower-case letters, digits and hyphens")
    if name in _SCHEMES and _SCHEMES[name] is not entry:
        raise InputError(f"scheme = {name!r}: there is one of that name already")
    _SCHEMES[name] = entry


def scheme_names() -> list[str]:
    """All schemes: those of this package, then those of installed packages."""
    return [*_SCHEMES, *(name for name in _installed() if name not in _SCHEMES)]


def usable_schemes() -> list[str]:
    """All schemes that can be loaded: a broken package must not break what does not use it."""
    return [name for name in scheme_names() if _loads(name)]


def _loads(name: str) -> bool:
    try:
        scheme_entry(name)
    except InputError:
        return False
    return True


def scheme_entry(name: str) -> SchemeEntry:
    """What is known of the scheme of that name."""
    if not isinstance(name, str):
        raise InputError(f"scheme = {quoted(name)}: must be text")
    if name in _SCHEMES:
        return _SCHEMES[name]
    if name not in _installed():
        raise InputError(f"scheme = {quoted(name)}: unknown scheme{nearest(name, scheme_names())}")
    point, *others = _installed()[name]
    if others or not re.fullmatch(NAME, name):
        where = ", ".join(each.value for each in (point, *others))
        raise InputError(f"scheme = {name!r}: {where}: a name is for one scheme, in lower-case letters and hyphens")
    try:
        entry = point.load()
    except Exception as error:
        raise InputError(f"scheme = {name!r}: {point.value} cannot be loaded ({error})") from None
    if not isinstance(entry, SchemeEntry):
        raise InputError(f"scheme = {name!r}: {point.value} must be a pfels.schemes.registry.SchemeEntry")
    return entry


def entry_point(name: str) -> EntryPoint | None:
    """Where a package names the scheme, unless the scheme is built in or registered."""
    return None if name in _SCHEMES else _installed()[name][0]


@cache
def _installed() -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group="pfels.schemes"):
        found.setdefault(point.name, []).append(point)
    return found


def load_scheme(name: str, setting: "Setting") -> "Scheme":
    """The scheme of that name, built for a setting."""
    return scheme_entry(name).create(setting)


def users_of(key: str) -> list[str]:
    """The schemes that use a setting which not every scheme uses."""
    return [name for name in usable_schemes() if key in scheme_entry(name).uses]
