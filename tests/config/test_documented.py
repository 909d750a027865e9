"""Every setting is documented once: the page of settings and the config of `pfels init` are made from that."""

import sys
import tomllib
from pathlib import Path

import pytest

from pfels.config.documented import settings, starter
from pfels.config.load import load_config, validate
from pfels.config.tree import Config
from pfels.schemes.registry import scheme_names

DOCS = Path(__file__).parents[2] / "docs"


def test_every_setting_is_documented_with_its_default():
    defaults = dict(Config().flat())
    for scheme in scheme_names():
        defaults |= {k: v for k, v in validate({"scheme": scheme}).flat().items() if k.startswith(f"{scheme}.")}
    unset = {
        f"{table}.{key}"
        for table, field in Config.model_fields.items()
        for key, inner in getattr(field.annotation, "model_fields", {}).items()
        if inner.default is None
    }
    found = {each.key: each for each in settings()}
    assert found.keys() == defaults.keys() | unset
    assert {key: found[key].value for key in defaults} == defaults
    assert not any(found[key].set for key in unset)
    assert all(each.meaning for each in found.values())
    assert len({each.meaning for each in found.values()}) == len(found), "no meaning stands for two settings"


def test_the_tables_of_the_page_are_made_from_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(DOCS))
    sys.modules.pop("make_settings", None)
    import make_settings

    assert make_settings.PAGE.read_text("utf-8") == make_settings.page(), "python docs/make_settings.py writes it anew"


def test_the_config_to_start_from_is_the_demo_and_holds_every_setting(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(starter("mine.toml"), "utf-8")
    assert load_config(path) == load_config("demo")
    uncommented = [line.removeprefix("# ") for line in path.read_text("utf-8").splitlines()]
    for each in settings():
        leaf = each.key.rpartition(".")[2]
        assert any(line.startswith(f"{leaf} = ") for line in uncommented), each.key
    assert max(map(len, path.read_text("utf-8").splitlines())) <= 80


@pytest.mark.parametrize("scheme", scheme_names())
def test_it_suits_every_scheme(scheme: str, tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(starter("mine.toml").replace('scheme = "pfels"', f'scheme = "{scheme}"'), "utf-8")
    assert load_config(path).scheme == scheme


def test_what_is_not_set_shows_a_value_that_may_be_set(tmp_path: Path):
    """An example that were refused would mislead."""
    for each in settings():
        if not each.set and each.key != "data.path":
            table, _, leaf = each.key.rpartition(".")
            own = {"data.name": "file", "data.path": "mine.npz", "data.devices": 50} if leaf == "classes" else {}
            assert load_config("demo", {**own, each.key: each.value}).tree()[table][leaf] == each.value
    changed = starter("mine.toml").replace("# path = ", "path = ").replace('name = "digits"', 'name = "file"')
    assert tomllib.loads(changed)["data"]["path"] == "mine.npz"
