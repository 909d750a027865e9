"""`pfels run`: one experiment."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from pfels.cli.options import Json, Out, Preset, Set, overrides, stem
from pfels.cli.progress import progress
from pfels.config.load import load_config
from pfels.documents.run import RoundRecord, Summary
from pfels.report.terminal import print_json, print_table, privacy_lines, run_rows, say

Resume = Annotated[bool, typer.Option("--resume", help="Continue the unfinished run in the directory.")]
Tensorboard = Annotated[
    bool, typer.Option("--tensorboard", help="Also write scalars for TensorBoard into the run directory.")
]


def command(
    preset: Preset = "demo",
    settings: Set = None,
    out: Out = None,
    resume: Resume = False,
    tensorboard: Tensorboard = False,
    json: Json = False,
) -> None:
    """Run one experiment, with live progress.

    A finished run is read, not run again. Under torchrun several processes share one run.

    Examples:

        pfels run demo

        pfels run demo -s scheme=wfl-p -s seed=3

        pfels run demo -s compression.ratio=0.1 --out runs/p01

        pfels run demo -s compression.ratio=0.1 --out runs/p01 --resume

        torchrun --nproc-per-node=2 -m pfels run cifar10
    """
    changed = overrides(settings)
    config = load_config(preset, changed)

    from pfels.experiment.directory import point_name
    from pfels.experiment.loop import run
    from pfels.experiment.tensorboard import scalars
    from pfels.runtime.distributed import Ranks

    label = {"scheme": config.scheme, **{k: v for k, v in changed.items() if k != "scheme"}, "seed": config.seed}
    path = out or Path("runs") / stem(preset) / point_name(label)
    if not Ranks.join(config.run.device).leads:
        run(config, path)
        return
    with ExitStack() as stack:
        watch = stack.enter_context(scalars(path / "tensorboard")) if tensorboard else None
        report = stack.enter_context(progress([point_name(label)], [config.rounds]))

        def done(record: RoundRecord) -> None:
            report(0, record["round"] + 1)
            if watch is not None:
                watch(record)

        result = run(config, path, resume=resume, progress=done)
    if json:
        print_json(result.summary)
    else:
        _show(result.summary, config.data.name)
    say(f"run directory: {path}")


def _show(summary: Summary, data: str) -> None:
    title = f"{summary['scheme']} on {data}, {summary['rounds']} rounds, seed {summary['seed']}"
    print_table(("", "value"), run_rows(summary), title=title, notes=privacy_lines(summary["privacy"]))
