"""What import-linter cannot see: which modules must not load PyTorch, and what a command waits for."""

import subprocess
import sys

import pytest

WITHOUT_TORCH = [
    "pfels", "pfels.cli", "pfels.config.load", "pfels.schemes.pfels", "pfels.schemes.pfels_plus", "pfels.schemes.round",
    "pfels.experiment.link", "pfels.experiment.ledger", "pfels.experiment.forecast", "pfels.experiment.directory",
    "pfels.experiment.reader", "pfels.studies.plan", "pfels.studies.budget", "pfels.studies.aggregate",
    "pfels.studies.privacy", "pfels.paper.link", "pfels.paper.stand_ins", "pfels.paper.reproduce",
    "pfels.report.page", "pfels.report.groups", "pfels.report.terminal",
]  # fmt: skip


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_a_module_does_not_load_pytorch(module: str):
    program = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_help_waits_for_neither_pytorch_nor_the_accountants():
    program = "import sys, pfels.cli; sys.exit(bool({'torch', 'dp_accounting', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
