"""The Flower demo touches nothing that is not its own."""

from pathlib import Path

import pytest

from pfels.errors import InputError
from pfels.flower.demo import main


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path):
    kept = tmp_path / "scheme=pfels,seed=0" / "thesis.tex"
    kept.parent.mkdir()
    kept.write_text("all of it")
    with pytest.raises(InputError, match="holds other files"):
        main(tmp_path)
    assert kept.read_text() == "all of it"
