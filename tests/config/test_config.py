"""Configs are validated whole, say what is wrong in one line, and come back from TOML as they went."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfels.config.load import differing_keys, load_config, parse_value, presets, validate
from pfels.config.tree import Config
from pfels.errors import InputError


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"compression.ration": 0.1}, "compression.ration: unknown key; did you mean compression.ratio?"),
        ({"ratio": 0.1}, "ratio: unknown key"),
        ({"compression.ratio": 1.4}, r"compression.ratio = 1.4: must be a finite number in (0, 1]"),
        ({"compression.ratio": 0}, r"compression.ratio = 0: must be a finite number in (0, 1]"),
        ({"training.momentum": 1.0}, "training.momentum = 1.0: must be a finite number in [0, 1)"),
        (
            {"training.learning_rate": float("nan")},
            "training.learning_rate = nan: must be a finite number in [1e-20, 1e+20]",
        ),
        ({"rounds": 0}, "rounds = 0: must be a whole number in [1, 1000000000]"),
        ({"rounds": 2.5}, "rounds = 2.5: must be a whole number in [1, 1000000000]"),
        ({"rounds": True}, "rounds = True: must be a whole number in [1, 1000000000]"),
        ({"scheme": "pfel"}, "scheme = 'pfel': unknown scheme; did you mean pfels?"),
        ({"cohort.size": 101}, "cohort.size = 101: must be at most data.devices = 100"),
        ({"cohort.sampling": "uniform"}, "cohort.sampling = 'uniform': must be one of without-replacement, poisson"),
        ({"data": 3}, "data = 3: must be a table"),
        ({"channel.gain_min": 9.0}, "channel.gain_min = 9.0: must be at most"),
        ({"channel.snr_min_db": 20.0}, "channel.snr_min_db = 20.0: must be at most"),
        ({"data.name": "file"}, "data.path: needed"),
        ({"seed": -1}, "seed = -1: must be a whole number in [0,"),
        ({"run.device": "tpu"}, "run.device = 'tpu': must be text that matches"),
        ({"scheme.name": "x"}, "scheme = {'name': 'x'}: must be text"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(overrides: dict, message: str):
    with pytest.raises(InputError) as caught:
        load_config("demo", overrides)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_overrides_read_as_toml_and_names_need_no_quotes():
    config = load_config("demo", ["scheme=pfels-plus", "compression.ratio=1", 'data.partition="dirichlet"', "seed = 3"])
    assert (config.scheme, config.compression.ratio, config.data.partition, config.seed) == (
        "pfels-plus",
        1.0,
        "dirichlet",
        3,
    )
    with pytest.raises(InputError, match=r"reads table\.key=value"):
        load_config("demo", ["rounds"])


@pytest.mark.parametrize("preset", presets())
def test_every_preset_is_valid_and_its_toml_reads_back_the_same(preset: str, tmp_path: Path):
    config = load_config(preset)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    assert load_config(path) == config


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_survives_toml(text: str):
    import tomllib

    config = load_config("demo", {"data.name": "file", "data.path": text})
    assert validate(tomllib.loads(config.to_toml())).data.path == text


@pytest.mark.parametrize("overrides", [{"data": {"per_device": 40}}, ["data={per_device=40}"]])
def test_a_whole_table_changes_only_the_keys_that_it_has(overrides: dict | list[str]):
    assert differing_keys(load_config("fashion", overrides), load_config("fashion")) == ["data.per_device"]
    assert load_config("fashion").data.name == "fashion", "a key that the preset sets itself"


def test_delta_defaults_to_one_over_the_number_of_devices():
    assert load_config("demo").delta == 0.01
    assert load_config("demo", {"privacy.delta": 1e-3}).delta == 1e-3


def test_differing_keys_leave_out_what_cannot_change_a_result():
    a, b = load_config("demo"), load_config("demo", {"run.workers": 2, "seed": 4, "privacy.delta": 0.001})
    assert differing_keys(a, b) == ["seed", "privacy.delta"]


@pytest.mark.parametrize("content", [b"rounds = ", b"\xff\xfe", b"[data\n"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"mine\.toml: (not valid TOML|cannot be read)"):
        load_config(path)


def test_an_unknown_preset_is_answered_with_those_there_are():
    with pytest.raises(InputError, match=r"neither a preset .* nor a TOML file; did you mean demo\?"):
        load_config("dem0")


def test_values_are_toml_or_text():
    assert [parse_value(text) for text in ("1", "0.5", "true", "wfl-p", '"1"')] == [1, 0.5, True, "wfl-p", "1"]


def test_the_page_of_settings_has_every_key_with_its_default():
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `([a-z_.]+)` \| (\S.*?) \|", page, re.MULTILINE))
    unset = {"data.path", "data.per_device", "privacy.delta"}
    defaults = {key: "false" if value is False else str(value) for key, value in Config().flat().items()}
    assert listed == {key: f"`{value}`" for key, value in defaults.items()} | dict.fromkeys(unset, "not set")
    assert all(f"`{name}`" in page for name in presets())
