"""`pfels run`: one experiment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfels.cli.options import Fresh, Json, Out, Preset, Set, overrides, stem
from pfels.cli.progress import Display, progress
from pfels.cli.stored import finished_at, say_older_page, when
from pfels.experiment.standing import Standing
from pfels.report.terminal import print_json, print_table, privacy_lines, run_rows, say

if TYPE_CHECKING:
    from pfels.config.tree import Config
    from pfels.documents.run import RoundRecord, Summary
    from pfels.experiment.result import Result

Resume = Annotated[bool, typer.Option("--resume", help="Continue the unfinished run in the directory.")]
Tensorboard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write scalars for TensorBoard into the run directory.")
]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Also save the model, m.safetensors, with its privacy card beside it."),
]


def command(
    preset: Preset = "demo",
    settings: Set = None,
    out: Out = None,
    resume: Resume = False,
    fresh: Fresh = False,
    tensorboard: Tensorboard = False,
    save: Save = None,
    json: Json = False,
) -> None:
    """Run one experiment, with live progress.

    A finished run is read, not run again. Under torchrun several processes share one run.

    Examples:

        pfels run demo

        pfels run demo -s scheme=wfl-p -s seed=3

        pfels run demo -s compression.ratio=0.1 --out runs/p01

        pfels run demo -s compression.ratio=0.1 --out runs/p01 --resume

        pfels run demo --save m.safetensors

        torchrun --nproc-per-node=2 --no-python pfels run cifar10
    """
    from pfels.config.load import load_config
    from pfels.experiment.delivery import require_place
    from pfels.experiment.directory import point_name

    changed = overrides(settings)
    config = load_config(preset, changed)
    label = {"scheme": config.scheme, **{k: v for k, v in changed.items() if k != "scheme"}, "seed": config.seed}
    path = out or Path("runs") / "run" / stem(preset) / point_name(label)
    if save is not None:
        require_place(save, path)
    with progress() as display:
        at = None if fresh else finished_at(path)
        result = _run(config, path, label, display, resume=resume, fresh=fresh, tensorboard=tensorboard)
    if not result.summary:  # not the leading process of torchrun
        return
    if json:
        print_json(result.summary)
    else:
        _show(result.summary, config.data.name)
    if at is not None:
        say(f"read from {path}, {when([at])}")
    say(f"run directory: {path}")
    if save is not None:
        result.save(save)
        say(f"model: {save}; its privacy card: {save.with_suffix('.privacy.md')}")
    say_older_page(path, [path])


def _run(
    config: Config,
    path: Path,
    label: Mapping[str, Any],
    display: Display,
    *,
    resume: bool,
    fresh: bool,
    tensorboard: bool,
) -> Result:
    from pfels.experiment.directory import point_name
    from pfels.experiment.loop import run
    from pfels.experiment.tensorboard import scalars
    from pfels.runtime.distributed import Ranks

    if not Ranks.join(config.run.device).leads:
        return run(config, path)
    with ExitStack() as stack:
        watch = stack.enter_context(scalars(path / "tensorboard")) if tensorboard else None
        report = stack.enter_context(
            display.runs([point_name(label).removeprefix("scheme=")], [config.rounds], [config.delta])
        )

        def done(record: RoundRecord) -> None:
            report(0, Standing.after(record))
            if watch is not None:
                watch(record)

        return run(
            config, path, resume=resume, fresh=fresh, progress=done, begin=lambda rounds: report(0, Standing(rounds))
        )


def _show(summary: Summary, data: str) -> None:
    rounds = f"{summary['rounds']} rounds"
    if "stopped" in summary:
        rounds = f"stopped after {summary['rounds']} of {summary['stopped']['planned_rounds']} rounds"
    title = f"{summary['scheme']} on {data}, {rounds}, seed {summary['seed']}"
    print_table(
        ("", "value"), run_rows(summary), title=title, notes=privacy_lines(summary["privacy"], summary["scheme"])
    )
