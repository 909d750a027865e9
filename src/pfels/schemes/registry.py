"""The schemes by name, and what is known of each before it is built. A new scheme is one file and one entry here.

A scheme can also live in another package, which names its `SchemeEntry` under the entry point `pfels.schemes`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pfels.errors import InputError, nearest, quoted
from pfels.privacy.events import Sampling
from pfels.runtime.arguments import name_values
from pfels.uplink.effects.cell import EFFECTS, installed_effects

if TYPE_CHECKING:
    from pfels.schemes import (
        artificial_noise,
        dp_fedavg,
        fedavg,
        feedback,
        liu_simeone,
        pfels_echo,
        pfels_plus,
        truncated_inversion,
        wfl_p,
        wfl_pdp,
    )
    from pfels.schemes.scheme import OwnSettings, Scheme
    from pfels.schemes.setting import Setting

    # Import strings are hidden from mypy; here it holds each scheme to the protocol.
    _: list[Callable[[Setting], Scheme]] = [
        feedback.create, wfl_p.WflP, wfl_pdp.WflPdp, dp_fedavg.DpFedAvg, fedavg.FedAvg, pfels_plus.create,
        pfels_echo.create, liu_simeone.LiuSimeone, artificial_noise.ArtificialNoise,
        truncated_inversion.TruncatedInversion,
    ]  # fmt: skip

# Groups of settings that not every scheme uses: those of the channel's effects, by what an effect asks of a scheme, and
# some others. All settings that are in no group are for all schemes.
GROUPS = {
    **{
        needs: frozenset(f"channel.{key}" for kind in EFFECTS if kind.needs == needs for key in kind.model_fields)
        for needs in ("channel", "waveform", "silence")
    },
    "receiver": frozenset(f"channel.{key}" for key in ("noise_std", "snr_min_db", "snr_max_db", "snr_scale")),
    "clip": frozenset({"training.clip"}),
    "ratio": frozenset({"compression.ratio"}),
    "mask": frozenset({"compression.kind"}),
    "feedback": frozenset({"compression.error_feedback"}),
    "claim": frozenset({"privacy.epsilon"}),
    "budget": frozenset({"privacy.total_epsilon", "privacy.adversary"}),
}
GROUP_OF = {key: group for group, keys in GROUPS.items() for key in keys}
OFF_BY_DEFAULT = ("waveform", "silence", "mask", "feedback")
AIR = frozenset({"channel", "receiver"})


NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


class BudgetBy(StrEnum):
    """How a budget for the whole training sets a scheme's noise."""

    CLAIM = "claim"  # through the claim per round: `privacy.epsilon` is lowered until the budget is met
    TOTAL = "total"  # the scheme calibrates itself to `privacy.total_epsilon`
    SWITCH = "switch"  # through the claim per round, once the scheme's own setting `private` is on


@dataclass(frozen=True)
class SchemeEntry:
    """What is known of a scheme before it is built.

    `create` makes it for a setting, and `settings` is the type of its own table; both may be import strings,
    `package.module:name`, whose module is imported when it is needed. `uses` lists which of the GROUPS of settings it
    reads. `claims` says that it makes the paper's claim of (`privacy.epsilon`, δ) per round. `sampling` is the only
    sampling it draws, None if `cohort.sampling` decides. `budget` is how a budget sets its noise, None if nothing does.
    `assumes` is what its privacy figures assume beyond those of the other schemes. `about` says in a line what it is.
    """

    create: "Callable[[Setting], Scheme] | str"
    uses: frozenset[str] = frozenset()
    claims: bool = False
    sampling: Sampling | None = None
    budget: BudgetBy | None = None
    settings: "type[OwnSettings] | str | None" = None
    assumes: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        unknown = sorted(self.uses - GROUPS.keys())
        if unknown:
            raise InputError(f"uses: {unknown[0]} is not a group of settings{nearest(unknown[0], GROUPS)}")
        if self.settings is not None and not isinstance(self.settings, str):
            _require_scalars(self.settings)

    def own_settings(self) -> "type[OwnSettings] | None":
        """The type of the scheme's own table, if it has one."""
        if not isinstance(self.settings, str):
            return self.settings
        found: type[OwnSettings] = _load(self.settings)
        _require_scalars(found)
        return found

    def build(self, setting: "Setting") -> "Scheme":
        """The scheme for a setting."""
        create: Callable[[Setting], Scheme] = _load(self.create) if isinstance(self.create, str) else self.create
        return create(setting)


def _load(name: str) -> Any:
    return EntryPoint(name, name, "").load()


def _require_scalars(settings: "type[OwnSettings]") -> None:
    for name, field in settings.model_fields.items():
        if field.is_required() or not _is_scalar(field.annotation):
            raise InputError(f"settings: {name} needs a default, and must be a number, a text, a choice or true/false")


def _is_scalar(kind: object) -> bool:
    """Whether a field can be written as one TOML value: bool, int, float, str, a Literal of texts, or None instead."""
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = [option for option in options if option is not type(None)]
    return all(option in (bool, int, float, str) or get_origin(option) is Literal for option in plain)


_SCHEMES = {
    "pfels": SchemeEntry(
        "pfels.schemes.feedback:create",
        uses=AIR | {"waveform", "clip", "ratio", "feedback", "claim"},
        claims=True,
        budget=BudgetBy.CLAIM,
        about="A random part of each update over the air, under power limits and a claim of ε per round (the paper's).",
    ),
    "wfl-p": SchemeEntry(
        "pfels.schemes.wfl_p:WflP",
        uses=AIR | {"waveform", "clip"},
        about="Whole updates over the air, at the level that the power limits allow; no privacy limit.",
    ),
    "wfl-pdp": SchemeEntry(
        "pfels.schemes.wfl_pdp:WflPdp",
        uses=AIR | {"waveform", "clip", "claim"},
        claims=True,
        budget=BudgetBy.CLAIM,
        about="Whole updates over the air, under power limits and a claim of ε per round.",
    ),
    "dp-fedavg": SchemeEntry(
        "pfels.schemes.dp_fedavg:DpFedAvg",
        uses=frozenset({"clip", "claim"}),
        claims=True,
        budget=BudgetBy.CLAIM,
        assumes="each device adds its own noise",
        about="Whole updates over ideal links; each device adds its share of the noise.",
    ),
    "fedavg": SchemeEntry(
        "pfels.schemes.fedavg:FedAvg", about="Whole updates over ideal links, without clipping, noise or privacy."
    ),
    "pfels-plus": SchemeEntry(
        "pfels.schemes.pfels_plus:create",
        uses=AIR | {"budget", *OFF_BY_DEFAULT, "clip", "ratio"},
        sampling=Sampling.POISSON,
        budget=BudgetBy.TOTAL,
        about="PFELS with Poisson cohorts, one public level and a budget for all rounds; weak channels are silent.",
    ),
    "pfels-echo": SchemeEntry(
        "pfels.schemes.pfels_echo:create",
        uses=AIR | {"waveform", "budget", "silence", "clip", "ratio"},
        sampling=Sampling.TURNS,
        budget=BudgetBy.TOTAL,
        settings="pfels.schemes.echo_level:EchoSettings",
        about="Devices send in turns and repeat it with falling weights; the server decodes, which takes out noise.",
    ),
    "liu-simeone": SchemeEntry(
        "pfels.schemes.liu_simeone:LiuSimeone",
        uses=AIR | {"waveform", "budget", "clip"},
        budget=BudgetBy.TOTAL,
        settings="pfels.schemes.liu_simeone:Settings",
        about="One budget, spread over rounds whose channels are known beforehand (Liu and Simeone 2021).",
    ),
    "artificial-noise": SchemeEntry(
        "pfels.schemes.artificial_noise:ArtificialNoise",
        uses=AIR | {"clip", "claim"},
        claims=True,
        budget=BudgetBy.CLAIM,
        assumes="all devices of a round add their noise",
        about="Devices align to the weakest and spend the rest of their power on noise (Seif, Tandon and Li 2020).",
    ),
    "truncated-inversion": SchemeEntry(
        "pfels.schemes.truncated_inversion:TruncatedInversion",
        uses=AIR | {"waveform", "clip", "silence", "claim"},
        budget=BudgetBy.SWITCH,
        settings="pfels.schemes.truncated_inversion:Settings",
        about="Devices below a gain floor are silent, the others invert their channels (Zhu, Wang and Huang 2020).",
    ),
}
BUILT_IN = frozenset(_SCHEMES)


def is_foreign(name: str) -> bool:
    """Whether a scheme comes from outside this package, whose tests audit its own schemes alone."""
    return name not in BUILT_IN


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
    return scheme_entry(name).build(setting)


def uses_setting(name: str, key: str) -> bool:
    """Whether a scheme uses a setting, which may be one of an effect of another package."""
    table = key.partition(".")[0]
    group = installed_effects()[table].needs if table in installed_effects() else GROUP_OF.get(key)
    return group is None or group in scheme_entry(name).uses


def users_of(key: str) -> list[str]:
    """The schemes that use a setting which not every scheme uses."""
    return [name for name in usable_schemes() if uses_setting(name, key)]


def chosen_schemes(given: Iterable[str] | str | None) -> list[str]:
    """The schemes that were asked for, all by default; a text names one, or several with commas in between."""
    found = usable_schemes() if given is None else name_values("schemes", given)
    for name in found:
        scheme_entry(name)
    return found
