"""`pfels privacy`: every privacy figure, by adversary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfels.cli.help import complete_preset
from pfels.cli.options import PRESET_HELP, WHO, Json, Set, overrides
from pfels.config.preset_files import presets
from pfels.errors import InputError, shown
from pfels.privacy.events import Adversary, Sampling
from pfels.report.privacy_terminal import Others, show_numbers, show_preset, show_required, show_stored
from pfels.report.terminal import say
from pfels.report.text import at_least, counted

if TYPE_CHECKING:
    from pfels.config.tree import Config
    from pfels.documents.privacy import RequiredAgainst

ASSUMED = (
    "Numbers alone describe a noise level that does not depend on who was drawn. A scheme whose "
    "level depends on the cohort has no figure against an outsider: pfels privacy PRESET prices a scheme as it is."
)


Devices = Annotated[int | None, typer.Option(metavar="N", help="N, all devices; 1000 if left out.")]
CohortSize = Annotated[int | None, typer.Option(metavar="r", help="r, devices per round; 32 if left out.")]
Delta = Annotated[float | None, typer.Option(metavar="δ", help="δ of every figure; 1/N if left out.")]
Rounds = Annotated[int | None, typer.Option(metavar="T", help="T, the rounds of the whole training; 300 if left out.")]
SamplingKind = Annotated[
    Sampling | None,
    typer.Option(metavar="HOW", help="How a cohort is drawn: without-replacement (by default), poisson or turns."),
]
NoiseMultiplier = Annotated[
    float | None, typer.Option(metavar="z", help="z = σ₀/(βs): the noise over a device's norm bound.")
]
ClaimedEpsilon = Annotated[
    float | None, typer.Option(metavar="ε", help="The ε that the paper would claim for a round.")
]
Participations = Annotated[int | None, typer.Option(metavar="N", help="Maximum rounds per device; all, if left out.")]
TargetEpsilon = Annotated[
    float | None,
    typer.Option(metavar="ε", help="A budget for the whole training: gives the noise multiplier that meets it."),
]
Against = Annotated[
    Adversary | None, typer.Option(metavar="WHO", help=f"Against whom --target-epsilon must hold: {WHO}.")
]
Ledger = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The ledger of a deployment's node: shows what its devices have spent."),
]
Create = Annotated[str | None, typer.Option(metavar="I/N", help="Make the --ledger of a node that has never sent.")]
Renumber = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Carry what the --ledger holds over to other device numbers; data stay in place."),
]
MaybePreset = Annotated[
    str | None,
    typer.Argument(metavar="PRESET", help=f"{PRESET_HELP[:-1]}, or a run directory.", autocompletion=complete_preset),
]


@dataclass(frozen=True)
class Numbers:
    """A training described by numbers alone."""

    devices: int
    cohort: int
    rounds: int
    delta: float
    sampling: Sampling
    participations: int | None


def command(
    preset: MaybePreset = None,
    settings: Set = None,
    devices: Devices = None,
    cohort: CohortSize = None,
    delta: Delta = None,
    rounds: Rounds = None,
    sampling: SamplingKind = None,
    noise_multiplier: NoiseMultiplier = None,
    claimed_epsilon: ClaimedEpsilon = None,
    participations: Participations = None,
    target_epsilon: TargetEpsilon = None,
    adversary: Against = None,
    ledger: Ledger = None,
    create: Create = None,
    renumber: Renumber = None,
    json: Json = False,
) -> None:
    """Show what a training costs in privacy, and against whom: a figure never stands without its adversary and δ.

    *claimed* is the paper's ε for one round; *exact* is the same argument without its approximations; *server* and
    *outsider* are guarantees for the whole training.

    Examples:

        pfels privacy demo

        pfels privacy runs/demo/scheme=pfels,seed=0

        pfels privacy --claimed-epsilon 1.5 --rounds 2000 --delta 0.001

        pfels privacy --noise-multiplier 2 --rounds 300 --sampling poisson

        pfels privacy --target-epsilon 2 --adversary outsider --sampling poisson

        pfels privacy --ledger ledger.json --create 0/4 --devices 100

        pfels privacy --ledger ledger.json
    """
    if ledger is not None or create is not None or renumber is not None:
        others = {"PRESET": preset, "-s": settings, "--cohort": cohort, "--rounds": rounds, "--sampling": sampling,
                  "--noise-multiplier": noise_multiplier, "--claimed-epsilon": claimed_epsilon,
                  "--participations": participations, "--adversary": adversary}  # fmt: skip
        from pfels.cli.ledger import of_ledger

        of_ledger(ledger, create, renumber, others, devices=devices, epsilon=target_epsilon, delta=delta, json=json)
        return
    if adversary is not None and target_epsilon is None:
        raise InputError("--adversary: says against whom --target-epsilon must hold; give both")
    beside = {"--devices": devices, "--cohort": cohort, "--delta": delta, "--rounds": rounds, "--sampling": sampling,
              "--noise-multiplier": noise_multiplier, "--claimed-epsilon": claimed_epsilon}  # fmt: skip
    if preset is not None and preset not in presets() and Path(preset).is_dir():
        _of_directory(Path(preset), {"-s": settings, **beside, "--target-epsilon": target_epsilon}, json=json)
        return
    if preset is not None:
        _refuse_beside_a_preset(beside)
        _of_preset(preset, settings, target_epsilon, adversary, participations, json=json)
        return
    if settings:
        raise InputError("-s: changes a preset; name one, such as pfels privacy demo -s rounds=100")
    if sum(value is not None for value in (noise_multiplier, claimed_epsilon, target_epsilon)) != 1:
        raise InputError("give a preset, or one of --noise-multiplier, --claimed-epsilon and --target-epsilon")
    numbers = _numbers(devices, cohort, rounds, delta, sampling, participations)
    if target_epsilon is not None:
        _required_by_numbers(numbers, target_epsilon, adversary or Adversary.SERVER, json=json)
    else:
        _of_numbers(numbers, noise_multiplier, claimed_epsilon, json=json)


def _refuse_beside_a_preset(given: Mapping[str, object]) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise InputError(f"{named[0]}: the preset says that; change a preset with -s, or leave it out")


def _numbers(
    devices: int | None,
    cohort: int | None,
    rounds: int | None,
    delta: float | None,
    sampling: Sampling | None,
    participations: int | None,
) -> Numbers:
    from pfels.config.tree import Config

    defaults = Config()
    everyone = defaults.data.devices if devices is None else devices
    return Numbers(
        devices=everyone,
        cohort=defaults.cohort.size if cohort is None else cohort,
        rounds=defaults.rounds if rounds is None else rounds,
        delta=1 / max(everyone, 2) if delta is None else delta,
        sampling=Sampling.WITHOUT_REPLACEMENT if sampling is None else sampling,
        participations=participations,
    )


def _required_by_numbers(numbers: Numbers, target: float, adversary: Adversary, *, json: bool) -> None:
    if numbers.participations is not None and adversary is not Adversary.SERVER:
        raise InputError("--participations: counts against the server, which knows who takes part; leave it out")
    from pfels.privacy.calibration import RequiredNoise, calibrate

    found = calibrate(adversary=adversary, epsilon=target, **vars(numbers))
    need = RequiredNoise(found.noise_multiplier, None, found.loss)
    show_required(target, need, rounds=numbers.rounds, json=json)


def _of_numbers(numbers: Numbers, noise_multiplier: float | None, claim: float | None, *, json: bool) -> None:
    from pfels.privacy.figures import figures

    found = figures(noise_multiplier=noise_multiplier, claimed_epsilon=claim, **vars(numbers))
    z = at_least(found["noise_multiplier"], 4) if noise_multiplier is None else f"{noise_multiplier:.10g}"
    title = f"{numbers.rounds} rounds, {numbers.cohort} of {numbers.devices} devices per round, noise multiplier {z}"
    show_numbers(found, title, ASSUMED, json=json)


def _of_preset(
    preset: str,
    settings: list[str] | None,
    target: float | None,
    adversary: Adversary | None,
    participations: int | None,
    *,
    json: bool,
) -> None:
    from pfels.config.load import load_config

    config = load_config(preset, overrides(settings))
    if participations is not None and target is None:
        raise InputError("--participations: a preset's cohorts are drawn and counted; leave it out")
    if target is not None:
        from pfels.privacy.calibration import Budget
        from pfels.studies.budget import required_noise

        need = required_noise(config, Budget(target, adversary or Adversary.SERVER), participations)
        others = None if adversary or participations else _for_everybody(config, target)
        show_required(target, need, rounds=config.rounds, json=json, others=others)
        return

    from pfels.studies.privacy import privacy_figures

    say("drawing every round's cohort and channel, without training …")
    figures = privacy_figures(config)
    who = f"{config.cohort.size} of {config.data.devices} devices"
    title = f"{config.scheme} on {preset}: {config.rounds} rounds, {who} per round"
    show_preset(figures, title, json=json)


def _of_directory(path: Path, given: Mapping[str, object], *, json: bool) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise InputError(f"{named[0]}: the run in {path} says that; leave it out")
    from pfels.studies.stored_privacy import stored_privacy

    figures = stored_privacy(path)
    done = counted(figures["rounds_done"], "round")
    part = f"{done}, finished" if figures["finished"] else f"{done} of {figures['rounds']}, unfinished"
    more = () if figures["finished"] else (f"The figures are of the {done} done; later ones cost more.",)
    show_stored(figures, f"{figures['scheme']} in {shown(path)}, seed {figures['seed']}: {part}", *more, json=json)


def _for_everybody(config: Config, target: float) -> Others:
    """The same budget against each adversary, and against several antennas."""
    from pfels.privacy.calibration import Budget
    from pfels.studies.floors import best_floors
    from pfels.studies.privacy import required_by_adversary

    rows: dict[str, RequiredAgainst] = {}
    for adversary, need in required_by_adversary(config, target).items():
        if isinstance(need, str):
            rows[adversary.value] = {"noise_multiplier": None, "beta": None, "why": need}
        else:
            rows[adversary.value] = {"noise_multiplier": need.noise_multiplier, "beta": need.beta, "why": need.loss.why}
    return Others(rows, best_floors(config, Budget(target, Adversary.SERVER)))
