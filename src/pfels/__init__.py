"""Private federated learning over the air.

>>> import pfels
>>> result = pfels.run(pfels.load_config("demo", {"rounds": 10}))
>>> sorted(result.summary)[:3]
['accuracy', 'accuracy_last', 'airtime_s']

Configs: `load_config`, `presets`, `Config`. One run: `run`, `Result`, `Stop`; a stored one: `load_run`. Many runs:
`sweep` and `compare`, with a `Tuning` (`tuning_of` a preset) where each scheme is to have its own best settings.
Without training: `plan`, `privacy_figures`, with a `Budget` against an `Adversary`. A claim held against an attack:
`audit`. The paper: `reproduce`.
Published figures, recomputed here: `verify`. A table: `to_frame`. A page: `write_report`.
Errors: `InputError` (the input is wrong), `RunError` (a run had to stop), `GuardError` (a limit was enforced).
"""

TYPE_CHECKING = False  # typing would come from the current directory under `python -m pfels`, if it has a typing.py
if TYPE_CHECKING:
    from pfels.config.load import load_config
    from pfels.config.preset_files import presets
    from pfels.config.tree import Config
    from pfels.errors import GuardError, InputError, RunError, Stop
    from pfels.experiment.loaded import load_run
    from pfels.experiment.loop import run
    from pfels.experiment.result import Result
    from pfels.paper.reproduce import reproduce
    from pfels.privacy.calibration import Budget
    from pfels.privacy.events import Adversary
    from pfels.report.page import write_report
    from pfels.studies.audit import audit
    from pfels.studies.compare import compare, tuning_of
    from pfels.studies.frames import to_frame
    from pfels.studies.plan import plan
    from pfels.studies.privacy import privacy_figures
    from pfels.studies.sweep import sweep
    from pfels.studies.tune import Tuning
    from pfels.studies.verify import verify

    __version__: str

__all__ = [
    "Adversary",
    "Budget",
    "Config",
    "GuardError",
    "InputError",
    "Result",
    "RunError",
    "Stop",
    "Tuning",
    "audit",
    "compare",
    "load_config",
    "load_run",
    "plan",
    "presets",
    "privacy_figures",
    "reproduce",
    "run",
    "sweep",
    "to_frame",
    "tuning_of",
    "verify",
    "write_report",
]

_MODULES = {
    "Adversary": "privacy.events",
    "Budget": "privacy.calibration",
    "Config": "config.tree",
    "GuardError": "errors",
    "InputError": "errors",
    "Result": "experiment.result",
    "RunError": "errors",
    "Stop": "errors",
    "Tuning": "studies.tune",
    "audit": "studies.audit",
    "compare": "studies.compare",
    "load_config": "config.load",
    "load_run": "experiment.loaded",
    "plan": "studies.plan",
    "presets": "config.preset_files",
    "privacy_figures": "studies.privacy",
    "reproduce": "paper.reproduce",
    "run": "experiment.loop",
    "sweep": "studies.sweep",
    "to_frame": "studies.frames",
    "tuning_of": "studies.compare",
    "verify": "studies.verify",
    "write_report": "report.page",
}


def __getattr__(name: str) -> object:
    """Import the public names when they are first used, so that `pfels --help` need not wait for PyTorch."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pfels")
    if name not in _MODULES:
        raise AttributeError(f"module 'pfels' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"pfels.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
