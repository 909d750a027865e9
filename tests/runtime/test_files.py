"""Files are replaced whole and read within limits, whatever is already there."""

import math
import os
from pathlib import Path

import pytest

from pfels.errors import InputError
from pfels.runtime import files
from pfels.runtime.files import JsonLimits, read_json, to_json, write_atomically
from pfels.runtime.regular import read_bytes

LIMITS = JsonLimits(size=40, groups=3, values=3)


@pytest.mark.parametrize(
    ("within", "beyond", "reason"),
    [
        ('{"a": "%s"}' % ("x" * 31), '{"a": "%s"}' % ("x" * 32), "more than 40 bytes"),
        ('{"a": [[]]}', '{"a": [[[]]]}', "more than 3 lists and objects"),
        ('{"a": {"b": {}}}', '{"a": {"b": {"c": {}}}}', "more than 3 lists and objects"),
        ('{"a": [1, 2, 3, 4]}', '{"a": [1, 2, 3, 4, 5]}', "more than 3 values"),
    ],
)
def test_a_document_is_measured_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str, beyond: str, reason: str
):
    path = tmp_path / "a.json"
    path.write_text(within)
    assert read_json(path, LIMITS) is not None
    path.write_text(beyond)
    monkeypatch.setattr("pydantic_core.from_json", lambda text: pytest.fail("it was parsed"))
    with pytest.raises(InputError, match=f"not readable as JSON \\({reason}\\)"):
        read_json(path, LIMITS)


def test_a_file_has_at_most_its_maximum_also_where_its_size_is_not_known(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    assert read_bytes(path, maximum=100) == bytes(100)
    with pytest.raises(ValueError, match="more than 99 bytes"):
        read_bytes(path, maximum=99)
    unsized = Path("/proc/self/status")
    assert os.stat(unsized).st_size == 0
    assert read_bytes(unsized, maximum=2**20).startswith(b"Name:")
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_bytes(unsized, maximum=10)


def test_a_half_written_file_of_this_number_that_appears_at_the_last_moment_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its name can be guessed: it may be another name of a file of the user's, or be longer than what is written."""
    monkeypatch.setattr(files, "_delete_left_behind", lambda path: None)
    victim, partial = tmp_path / "victim", tmp_path / f".a.{os.getpid()}.partial"
    for put in (
        lambda: os.link(victim, partial),
        lambda: partial.symlink_to(victim),
        lambda: partial.write_bytes(b"longer"),
    ):
        victim.write_bytes(b"precious")
        put()
        write_atomically(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"new"
        assert victim.read_bytes() == b"precious"
        assert not partial.exists()


def test_a_name_with_brackets_is_no_pattern(tmp_path: Path):
    """Half-written files are deleted by their own name, and by no other's."""
    mine, other = tmp_path / ".run[12].json.7.partial", tmp_path / ".run1.json.7.partial"
    for path in (mine, other):
        path.write_bytes(b"half")
    write_atomically(tmp_path / "run[12].json", b"{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, "run[12].json"])


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_in_json_is_never_written(number: float):
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"a": [number]})
