"""Configs are validated whole, say what is wrong in one line, and come back from TOML as they went."""

import hashlib
import json
import re
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from pfels.config.load import differing_keys, load_config, parse_value, validate
from pfels.config.preset_files import presets
from pfels.config.tree import LATER_KEYS, NEUTRAL_KEYS, Config
from pfels.errors import InputError
from pfels.schemes import registry
from pfels.schemes.registry import SchemeEntry, register, scheme_entry, scheme_names
from pfels.schemes.scheme import OwnSettings


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"compression.ration": 0.1}, "compression.ration: unknown key; did you mean compression.ratio?"),
        ({"ratio": 0.1}, "ratio: unknown key; did you mean compression.ratio?"),
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
        ({"run.device": "tpu"}, "run.device = 'tpu': must be cpu, cuda, or one of several GPUs, such as cuda:0"),
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
@settings(deadline=None)  # a busy machine is no error
def test_any_text_survives_toml(text: str):
    import tomllib

    config = validate({"data": {"name": "file", "path": text, "devices": 50, "partition": "iid"}})
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
    listed = dict(re.findall(r"^\| `([a-z_.-]+)` \| (\S.*?) \|", page, re.MULTILINE))
    unset = {
        "data.path", "data.per_device", "data.classes", "privacy.delta", "channel.clipping_db", "radio.bandwidth_mhz",
        "radio.compute_s",
    }  # fmt: skip
    defaults = {key: _toml(value) for key, value in Config().flat().items()}
    for scheme in scheme_names():
        own = validate({"scheme": scheme}).flat()
        defaults |= {key: _toml(value) for key, value in own.items() if key.startswith(f"{scheme}.")}
    assert listed == {key: f"`{value}`" for key, value in defaults.items()} | dict.fromkeys(unset, "not set")
    assert all(f"`{name}`" in page for name in presets())


def _toml(value: object) -> str:
    return "false" if value is False else str(value)


class Own(OwnSettings):
    """Settings of every kind that a scheme may have."""

    share: float = Field(default=1, gt=0)
    count: int = 3
    kind: Literal["a", "b"] = "a"
    on: bool = True
    cap: float | None = None


@pytest.fixture
def own_scheme(monkeypatch: pytest.MonkeyPatch) -> str:
    entry = SchemeEntry(scheme_entry("pfels").create, uses=scheme_entry("pfels").uses, settings=Own)
    monkeypatch.setitem(registry._SCHEMES, "own-scheme", entry)
    return "own-scheme"


def test_a_scheme_s_own_table_survives_toml_digest_and_copies(own_scheme: str, tmp_path: Path):
    config = load_config("demo", {"scheme": own_scheme, "own-scheme.kind": "b", "own-scheme.share": 0.5})
    assert config.own == Own(kind="b", share=0.5)
    path = tmp_path / "config.toml"
    path.write_text(config.to_toml())
    again = load_config(path)
    assert (again, again.digest()) == (config, config.digest())
    assert (
        load_config(load_config("demo", {"scheme": own_scheme})).digest()
        == load_config("demo", {"scheme": own_scheme}).digest()
    )
    assert differing_keys(config, load_config(config, {"own-scheme.count": 4})) == ["own-scheme.count"]
    assert load_config(config, {"scheme": "fedavg"}).own is None


def test_a_file_may_hold_what_only_another_scheme_uses(own_scheme: str, tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text('scheme = "pfels-plus"\n[compression]\nerror_feedback = true\n[own-scheme]\ncount = 7\n')
    assert load_config(path).compression.error_feedback
    assert not load_config(path, {"scheme": "wfl-pdp"}).compression.error_feedback
    assert load_config(path, {"scheme": own_scheme}).own == Own(count=7)
    path.write_text('scheme = "wfl-pdp"\n[compression]\nerror_feedback = true\n')
    with pytest.raises(InputError, match="wfl-pdp does not use it, only pfels, pfels-plus"):
        load_config(path)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"own-scheme.share": 0.0}, "own-scheme.share = 0.0: must be a finite number above 0"),
        ({"own-scheme.kind": "c"}, "own-scheme.kind = 'c': must be one of a, b"),
        ({"own-scheme.coun": 1}, "own-scheme.coun: unknown key; did you mean own-scheme.count?"),
        ({"own-scheme": 3}, "own-scheme = 3: must be a table"),
        ({"scheme": "pfels", "own-scheme.count": 1}, "own-scheme.count: pfels does not use it"),
    ],
)
def test_what_is_wrong_with_an_own_table_is_said_in_one_line(own_scheme: str, overrides: dict, message: str):
    with pytest.raises(InputError) as caught:
        load_config("demo", {"scheme": own_scheme, **overrides})
    assert message in str(caught.value)


def test_names_and_settings_that_could_not_be_written_down_are_refused(monkeypatch: pytest.MonkeyPatch):
    create = scheme_entry("fedavg").create

    class Nested(OwnSettings):
        inner: tuple[int, ...] = ()

    with pytest.raises(InputError, match="inner needs a default, and must be"):
        SchemeEntry(create, settings=Nested)
    for name in ("my.scheme", "My Scheme", ""):
        with pytest.raises(InputError, match="lower-case letters"):
            register(name, SchemeEntry(create))
    with pytest.raises(InputError, match="there is one of that name already"):
        register("pfels", SchemeEntry(create))
    monkeypatch.setitem(registry._SCHEMES, "server", SchemeEntry(create, settings=Own))
    with pytest.raises(InputError, match="has the name of a table of the config"):
        load_config("demo", {"scheme": "server"})
    with pytest.raises(InputError, match="scheme = 1: must be text"):
        scheme_entry(1)  # type: ignore[arg-type]


def test_a_file_may_hold_settings_for_one_scheme_alone(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "rounds = 7\n[compression]\nratio = 0.5\n"
        "[for.pfels-echo]\nrounds = 9\n[for.pfels-echo.compression]\nratio = 1.0\n"
        "[for.pfels-echo.pfels-echo]\nbands = 2\n"
    )
    plain, echo = load_config(path), load_config(path, {"scheme": "pfels-echo"})
    assert (plain.rounds, plain.compression.ratio) == (7, 0.5)
    assert (echo.rounds, echo.compression.ratio, echo.flat()["pfels-echo.bands"]) == (9, 1.0, 2)
    assert load_config(path, {"scheme": "pfels-echo", "compression.ratio": 0.25}).compression.ratio == 0.25
    path.write_text('scheme = "pfels-echo"\n[for.pfels-echo.server]\naverage = 0.9\n')
    assert load_config(path).server.average == 0.9
    assert load_config(path, {"scheme": "pfels"}).server.average == 0.0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("for = 3\n", "for: must hold tables by scheme"),
        ("[for]\npfels = 3\n", "for: must hold tables by scheme"),
        ("[for.pfelss.server]\naverage = 0.9\n", "did you mean pfels"),
        ("[for.pfels.server]\naverag = 0.9\n", "averag"),
    ],
)
def test_settings_for_one_scheme_are_checked(tmp_path: Path, text: str, line: str):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(InputError, match=line):
        load_config(tmp_path / "mine.toml")


def test_settings_that_came_later_leave_the_hash_of_earlier_configs_alone():
    """Run directories from before stay valid: at their defaults these keys are not part of the hash."""
    config = load_config("cifar10")  # whose frames are the default ones
    assert {"server.average", "data.features"} <= set(config.flat())
    older = {key: value for key, value in config.flat().items() if key not in {*NEUTRAL_KEYS, *LATER_KEYS}}
    assert config.digest() == hashlib.sha256(json.dumps(older, sort_keys=True).encode()).hexdigest()
    assert load_config("cifar10", {"server.average": 0.5}).digest() != config.digest()
