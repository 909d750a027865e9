"""What import-linter cannot see: which modules must not load PyTorch, and what a command waits for."""

import subprocess
import sys

RUN = """\
try:
    runpy.run_module("pfels", run_name="__main__")
except SystemExit:
    pass"""
WITHOUT_TORCH = [
    "pfels", "pfels.cli", "pfels.config.load", "pfels.schemes.pfels", "pfels.schemes.pfels_plus", "pfels.schemes.round",
    "pfels.experiment.link", "pfels.experiment.ledger", "pfels.experiment.forecast", "pfels.experiment.directory",
    "pfels.experiment.reader", "pfels.studies.plan", "pfels.studies.budget", "pfels.studies.aggregate",
    "pfels.studies.privacy", "pfels.paper.link", "pfels.paper.stand_ins", "pfels.paper.reproduce",
    "pfels.report.page", "pfels.report.groups", "pfels.report.terminal",
]  # fmt: skip


def test_these_modules_do_not_load_pytorch():
    program = "import sys\n" + "".join(
        f"import {module}\nif 'torch' in sys.modules: sys.exit('{module} loads PyTorch')\n" for module in WITHOUT_TORCH
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_help_waits_for_no_library_of_numbers():
    loaded = "{'torch', 'numpy', 'scipy', 'pydantic', 'dp_accounting', 'matplotlib'} & set(sys.modules)"
    program = f"import sys, runpy\nsys.argv = ['pfels', '--help']\n{RUN}\nsys.exit(', '.join({loaded}) or 0)"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "Usage: pfels" in done.stdout
    assert (done.returncode, done.stderr.strip()) == (0, "")
