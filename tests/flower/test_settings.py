"""Flower's run config takes the keys of `pfels run`, with the same validation."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pfels.config.load import load_config
from pfels.config.tree import Config
from pfels.errors import InputError
from pfels.flower import settings
from pfels.flower.loopback import APP
from pfels.schemes import registry
from pfels.schemes.registry import scheme_entry

Flower = Callable[..., Any]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rounds": 0}, "rounds = 0"),
        ({"scheme": "pfel"}, "did you mean pfels"),
        ({"privacy__epsilonn": 1}, "privacy.epsilonn"),
        ({"scheme": "pfels", "privacy__adversary": "outsider"}, "privacy.adversary: pfels does not use it"),
        ({"noise": "none"}, "noise = 'none': must be secret"),
        (
            {"noise": "secret", "scheme": "pfels-plus", "privacy__adversary": "outsider"},
            "seed = 0: it decides who is drawn, and an outsider could guess it",
        ),
        ({"reply_timeout_s": -1}, "reply_timeout_s = -1: must be a number of seconds above 0"),
    ],
)
def test_a_wrong_run_config_is_one_line_and_touches_nothing(flower: Flower, tmp_path: Path, changes: Any, line: str):
    with pytest.raises(InputError, match=re.escape(line)) as caught:
        flower(**changes)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_every_scheme_with_a_budget_against_an_outsider_needs_a_secret_seed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry._SCHEMES, "another", scheme_entry("pfels-plus"))
    run = {"out": "run", "scheme": "another", "privacy.adversary": "outsider"}
    for seed in (7, 2**62 + 1):  # large or small: what counts is that the software drew it
        with pytest.raises(InputError, match=f"seed = {seed}: it decides who is drawn"):
            settings.read(run | {"seed": seed})
    assert settings.read(run | {"seed": "secret"}).secret_seed
    assert not settings.read(run | {"seed": 7, "noise": "seed"}).secret_noise
    assert settings.read(run | {"seed": 7, "privacy.adversary": "server"}).secret_noise
    assert settings.read(run | {"seed": 7, "scheme": "pfels-echo"}).secret_noise, "turns hide nobody, nor need they"


def test_an_empty_string_means_as_in_the_preset():
    run = {"preset": "demo", "scheme": "pfels", "privacy.adversary": "", "rounds": "", "privacy.epsilon": 0.25}
    assert settings.config_of(run) == load_config("demo", {"scheme": "pfels", "privacy.epsilon": 0.25})


def test_the_app_lists_every_key_of_the_config():
    listed = _app_config()
    expected = set(settings.OWN_KEYS)
    for name, about in Config.model_fields.items():
        table = about.annotation
        inner = table.model_fields if isinstance(table, type) and issubclass(table, BaseModel) else None
        expected |= {name} if inner is None else {f"{name}.{key}" for key in inner}
    expected -= {"own", "effects"}  # tables with the names of schemes and effects; `set` takes their settings
    assert set(listed) == expected
    preset, app = load_config("demo"), settings.config_of(listed)
    assert app.model_copy(update={"run": preset.run}) == preset
    assert settings.read(listed).secret_noise


def test_set_takes_any_setting_and_refuses_what_is_wrong():
    config = settings.config_of({"preset": "demo", "set": "compression.ratio=0.1 rounds=3"})
    assert (config.compression.ratio, config.rounds) == (0.1, 3)
    with pytest.raises(InputError, match=r"compression\.ration: unknown key"):
        settings.config_of({"set": "compression.ration=0.1"})
    with pytest.raises(InputError, match=r"reads table\.key=value"):
        settings.config_of({"set": "rounds"})


@pytest.mark.parametrize("setting", ["channel.antennas=2", "channel.csi_error_db=1.0", "channel.phase_error_deg=5.0"])
def test_what_only_a_radio_has_is_refused_in_a_deployment(setting: str):
    key, _, value = setting.partition("=")
    with pytest.raises(InputError, match=rf"{key} = {value}: nothing goes over the air in a deployment"):
        settings.config_of({"preset": "demo", "set": setting})


def test_no_server_is_blind_in_a_deployment():
    with pytest.raises(InputError, match="in a deployment the server sees who sends"):
        settings.config_of({"preset": "demo", "scheme": "pfels-plus", "set": "privacy.adversary=blind-server"})


def _app_config() -> dict[str, Any]:
    """The app's own run config, as Flower flattens it."""
    tree = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    tables = {key: value for key, value in tree.items() if isinstance(value, dict)}
    inner = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    return {key: value for key, value in tree.items() if key not in tables} | inner
