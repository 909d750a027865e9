"""A model that leaves a run: it computes what was measured, and its privacy card goes with it."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import markdown_it
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import pfels
from pfels.config.load import load_config
from pfels.data import datasets, features
from pfels.documents.card import PrivacyCard
from pfels.errors import InputError, RunError
from pfels.experiment import card_page, delivery, loop
from pfels.experiment.card import statement
from pfels.experiment.card_page import markdown, plain
from pfels.experiment.deployment import Deployment
from pfels.experiment.link import Example
from pfels.experiment.result import Result
from pfels.runtime import files
from pfels.seeding import Secret
from pfels.training import modules, networks
from tests.conftest import small
from tests.contract.misfits import misfits
from tests.docs.pages import ROOT, blocks

NAMES = ["m.privacy.json", "m.privacy.md", "m.safetensors"]


def score(module: nn.Module, *, kind: str = "none") -> float:
    test = features.extract(datasets.load("digits"), kind).test
    assert test is not None
    x, y = test.between(0, len(test))
    with torch.no_grad():
        return float((module(x).argmax(1) == y).double().mean())


def carried(*arguments: Any) -> Any:
    """Rounds as something else than the loop would play them."""
    return loop.simulate(*arguments)


def card_of(path: Path) -> Any:
    return json.loads(path.with_suffix(".privacy.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("demo") / "run"
    return folder, pfels.run(pfels.load_config("demo", {"rounds": 60, "scheme": "fedavg"}), folder)


def test_the_module_has_the_accuracy_of_the_run_and_the_flat_vector_in_its_place_has_not(demo: tuple[Path, Result]):
    _, result = demo
    accuracy = result.summary["accuracy"]
    assert accuracy > 0.9
    assert score(result.module()) == pytest.approx(accuracy)
    obvious = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    torch.nn.utils.vector_to_parameters(result.parameters.clone(), obvious.parameters())
    assert score(obvious) < 0.5  # which is why there is state_dict
    obvious.load_state_dict(result.state_dict(), strict=True)
    assert score(obvious) == pytest.approx(accuracy)


@pytest.mark.parametrize("model", ["linear", "cnn"])
def test_features_are_what_the_module_takes_where_there_are_any(model: str):
    if model == "linear":
        result = pfels.run(small(data__features="hog", model__name="linear"))
        assert score(result.module(), kind="hog") == pytest.approx(result.summary["accuracy"])
    else:
        result = pfels.run(small(model__name="cnn"))
        assert score(result.module()) == pytest.approx(result.summary["accuracy"])


def test_the_average_of_the_models_is_delivered_where_there_is_one():
    result = pfels.run(small(server__average=0.9, rounds=12))
    assert score(result.module()) == pytest.approx(result.summary["accuracy"])
    assert result.summary["accuracy"] != result.summary["accuracy_last"]


def test_a_saved_model_is_read_without_pfels_and_says_what_it_is(demo: tuple[Path, Result], tmp_path: Path):
    _, result = demo
    result.save(tmp_path / "m.safetensors")
    assert sorted(os.listdir(tmp_path)) == NAMES
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    module.load_state_dict(load_file(tmp_path / "m.safetensors"), strict=True)
    assert score(module) == pytest.approx(result.summary["accuracy"])
    with safe_open(tmp_path / "m.safetensors", framework="pt") as file:
        about = file.metadata()
    assert (about["model"], json.loads(about["shape"]), about["classes"], about["hidden"]) == (
        "mlp", [1, 8, 8], "10", "32",
    )  # fmt: skip
    assert about["pfels"] == pfels.__version__
    assert about["input"].startswith("images of 8×8 pixels")
    assert about["privacy"].startswith("No privacy: no noise")


@pytest.mark.parametrize("name", ["linear", "mlp", "cnn", "vgg11"])
def test_the_code_on_the_page_loads_what_is_saved(name: str, tmp_path: Path):
    found: dict[str, Any] = {}
    (code,) = (
        each.text for each in blocks((ROOT / "docs/how-to/model.md").read_text("utf-8")) if "def load(" in each.text
    )
    exec(code, found)
    shape, hidden = (2, 32, 40), 6
    how: dict[str, Any] = {"shape": shape, "classes": 7, "hidden": hidden}
    theta = networks.build(name, **how).initial(np.random.default_rng(0))
    facts = pfels.run(small(model__name=name if name != "vgg11" else "mlp", model__hidden=hidden)).origin.facts()
    facts = replace(facts, config=load_config(facts.config, {"model.name": name}))
    weights = modules.state_dict(name, theta, **how)
    delivery.save(tmp_path / "m.safetensors", weights, Example(shape, 7), facts)
    images = torch.rand(3, *shape)
    module = modules.module(name, weights, **how)
    assert torch.equal(found["load"](tmp_path / "m.safetensors")(images), module(images))


def test_a_result_in_memory_and_one_that_is_read_save_the_same_bytes(tmp_path: Path, scheme: str):
    config = small(scheme=scheme)
    first = pfels.run(config, tmp_path / "run")
    read = pfels.run(config, tmp_path / "run")
    for name, result in (("a", first), ("b", read), ("c", pfels.run(config))):
        (tmp_path / name).mkdir()
        result.save(tmp_path / name / "m.safetensors")
    for name in NAMES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "c" / name).read_bytes(), name
    card = card_of(tmp_path / "a" / "m.safetensors")
    assert misfits(PrivacyCard, card) == []
    assert card["privacy"] == json.loads(json.dumps(first.summary["privacy"]))


def test_a_run_directory_has_a_card_and_one_from_before_cards_can_still_be_saved(tmp_path: Path):
    config = small()
    pfels.run(config, tmp_path / "run")
    here = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"model.privacy.json", "model.privacy.md"} <= here
    for name in ("model.privacy.json", "model.privacy.md"):
        (tmp_path / "run" / name).unlink()
    pfels.run(config, tmp_path / "run").save(tmp_path / "m.safetensors")
    assert card_of(tmp_path / "m.safetensors")["statement"].startswith("ε = ")


def test_the_card_says_what_the_run_and_its_assumptions_are(tmp_path: Path):
    result = pfels.run(small(scheme="pfels-plus", rounds=12, channel__csi_error_db=0.5))
    result.save(tmp_path / "m.safetensors")
    card, page = card_of(tmp_path / "m.safetensors"), (tmp_path / "m.privacy.md").read_text("utf-8")
    server = result.summary["privacy"]["server"]
    assert card["privacy"]["server"]["epsilon"] == server["epsilon"]
    assert f"at δ = {server['delta']:g}" in card["statement"]
    assert "against the server" in card["statement"]
    assert "one device's data is emptied" in card["statement"]
    assert "at δ = 1e-5: " in card["statement"]
    assert any("within 0.5 dB" in line for line in card["assumes"])
    assert any("follow from the seed, 0, which is public" in line for line in card["warnings"])
    assert {each["name"] for each in card["privacy"]["assumptions"]} >= {"the server has 2 antennas", "δ = 1e-5"}
    assert all(plain(each["name"]) in page for each in card["privacy"]["assumptions"])
    assert (card["scheme"]["name"], card["audit"], card["seed_secret"]) == ("pfels-plus", None, False)
    assert card["scheme"]["settings"]["channel.csi_error_db"] == 0.5
    assert card["code"]["versions"]["pfels"] == pfels.__version__
    assert (card["score"]["accuracy"], card["score"]["test_examples"]) == (result.summary["accuracy"], 360)
    assert "Not audited." in page


def test_a_model_without_privacy_says_so_first(tmp_path: Path):
    pfels.run(small(scheme="fedavg")).save(tmp_path / "m.safetensors")
    page = (tmp_path / "m.privacy.md").read_text("utf-8")
    assert page.splitlines()[2].startswith("**No privacy: no noise hides the updates")
    assert "assumed that" not in page
    pfels.run(small(scheme="wfl-p", rounds=30, channel__snr_min_db=40.0, channel__snr_max_db=40.0)).save(
        tmp_path / "m.safetensors"
    )
    assert card_of(tmp_path / "m.safetensors")["statement"].startswith("No useful privacy: ")


def test_the_stated_epsilon_is_an_upper_bound():
    privacy = pfels.run(small()).summary["privacy"]
    for epsilon in (5.34891, 15.999999, 1234.5678):
        privacy["server"]["epsilon"] = epsilon
        said = float(statement(privacy).partition("ε = ")[2].partition(" at")[0].replace(",", ""))
        assert epsilon <= said <= epsilon * 1.001


def test_what_becomes_of_a_summary_does_not_change_the_card(tmp_path: Path):
    config = small()
    result = pfels.run(config, tmp_path / "run")
    epsilon, accuracy = result.summary["privacy"]["server"]["epsilon"], result.summary["accuracy"]
    read = pfels.run(config, tmp_path / "run")
    for edited in (result, read):
        edited.summary["privacy"]["server"]["epsilon"], edited.summary["privacy"]["assumptions"] = 0.01, []
        edited.summary["accuracy"] = 0.99
    result.save(tmp_path / "m.safetensors")
    first = card_of(tmp_path / "m.safetensors")
    read.save(tmp_path / "m.safetensors")
    for card in (first, card_of(tmp_path / "m.safetensors")):
        assert card["privacy"]["server"]["epsilon"] == epsilon
        assert len(card["privacy"]["assumptions"]) > 5
        assert card["score"]["accuracy"] == accuracy


@pytest.mark.parametrize("failing", NAMES)
@pytest.mark.parametrize("earlier", [False, True])
def test_where_a_file_cannot_take_its_place_none_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, earlier: bool
):
    if earlier:
        pfels.run(small(seed=1)).save(tmp_path / "m.safetensors")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result, replace, broken = pfels.run(small()), os.replace, [failing]

    def refuse(source: Any, target: Any) -> None:
        if broken and Path(target).name == broken[0]:
            broken.clear()  # what is put back afterwards finds room
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", refuse)
    with pytest.raises(RunError, match="No space left on device"):
        result.save(tmp_path / "m.safetensors")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_model_is_the_last_to_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    order, replace = [], os.replace
    monkeypatch.setattr(files.os, "replace", lambda a, b: (order.append(Path(b).name), replace(a, b)))
    pfels.run(small()).save(tmp_path / "m.safetensors")
    assert sorted(order[:2]) == NAMES[:2]
    assert order[2:] == NAMES[2:]


def test_a_wrong_place_is_one_line_and_touches_nothing(tmp_path: Path):
    result = pfels.run(small(), tmp_path / "run")
    (tmp_path / "d" / "m.privacy.md").mkdir(parents=True)
    (tmp_path / "e" / "m.safetensors").mkdir(parents=True)
    kept = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    for place, message in [
        ("m.pt", "such as .*m.safetensors"),
        ("no/m.safetensors", "there is no folder"),
        ("d/m.safetensors", "m.privacy.md: not a file"),
        ("e/m.safetensors", "m.safetensors: not a file"),
        ("run/checkpoint.safetensors", "the checkpoint of a run"),
    ]:
        with pytest.raises(InputError, match=message):
            result.save(tmp_path / place)
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == kept
    assert not list(tmp_path.rglob("*.partial"))
    assert sorted(os.listdir(tmp_path)) == ["d", "e", "run"]


def test_weights_that_were_changed_are_not_saved_with_the_card_of_the_run(tmp_path: Path):
    result = pfels.run(small(), tmp_path / "run")
    for each in (result, pfels.run(small(), tmp_path / "run"), pfels.run(small())):
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
        torch.nn.utils.vector_to_parameters(
            each.parameters, module.parameters()
        )  # which share their memory from now on
        with torch.no_grad():
            module[1].bias[0] += 1
        with pytest.raises(InputError, match="changed since the run"):
            each.save(tmp_path / "m.safetensors")
    assert os.listdir(tmp_path) == ["run"]


def test_a_process_that_does_not_lead_has_no_model_to_give(tmp_path: Path):
    result = Result({}, torch.zeros(3), list)  # type: ignore[typeddict-item]
    for ask in (result.state_dict, result.module, lambda: result.save(tmp_path / "m.safetensors")):
        with pytest.raises(InputError, match="does not lead the run"):
            ask()
    assert not list(tmp_path.iterdir())


def test_own_data_must_be_those_of_the_run_and_their_place_is_not_on_the_card(tmp_path: Path):
    generator = np.random.default_rng(0)
    arrays = {
        "x_train": generator.random((90, 5)), "y_train": np.arange(90) % 3,
        "x_test": generator.random((9, 5)), "y_test": np.arange(9) % 3,
    }  # fmt: skip
    own = tmp_path / "private place" / "own.npz"
    own.parent.mkdir()
    np.savez(own, **arrays)
    config = small(data__name="file", data__path=str(own), model__name="linear")
    pfels.run(config, tmp_path / "run")
    pfels.run(config, tmp_path / "run").save(tmp_path / "m.safetensors")
    card = card_of(tmp_path / "m.safetensors")
    assert list(card["data"]["checksums"]) == ["own.npz"]
    assert card["data"]["checksums"]["own.npz"].startswith("sha256:")
    assert "private place" not in (tmp_path / "m.privacy.json").read_text() + (tmp_path / "m.privacy.md").read_text()
    np.savez(own, **{**arrays, "y_test": np.zeros(9, np.int64)})
    with pytest.raises(InputError, match="not the data of the run"):
        pfels.run(config, tmp_path / "run").module()
    own.unlink()
    with pytest.raises(InputError, match=r"own\.npz: no such file"):
        pfels.run(config, tmp_path / "run").save(tmp_path / "n.safetensors")
    assert not (tmp_path / "n.safetensors").exists()


def test_an_audit_in_the_run_directory_is_on_the_card_if_it_is_of_such_a_training(tmp_path: Path):
    config = small(scheme="pfels-plus")
    pfels.run(config, tmp_path / "run")
    found = pfels.audit(config, canaries=20)
    (tmp_path / "run" / "audit.json").write_text(json.dumps(found))
    pfels.run(config, tmp_path / "run").save(tmp_path / "m.safetensors")
    audit = card_of(tmp_path / "m.safetensors")["audit"]
    assert (audit["rejected"], audit["canaries"], audit["claimed"]) == (False, 20, found["claimed"])
    assert "| outcome | not rejected |" in (tmp_path / "m.privacy.md").read_text("utf-8")
    (tmp_path / "run" / "audit.json").write_text(json.dumps({**found, "rejected": True, "rejected_by": ["alone"]}))
    pfels.run(config, tmp_path / "run").save(tmp_path / "m.safetensors")
    assert any("audit rejected" in line for line in card_of(tmp_path / "m.safetensors")["warnings"])
    (tmp_path / "run" / "audit.json").write_text(json.dumps({**found, "scheme": "pfels"}))
    with pytest.raises(InputError, match="an audit of pfels, 6 rounds and 30 devices; the run is of pfels-plus"):
        pfels.run(config, tmp_path / "run").save(tmp_path / "n.safetensors")
    assert not (tmp_path / "n.privacy.json").exists()


def test_a_run_whose_rounds_other_code_played_is_not_audited(tmp_path: Path):
    config = small()
    result = pfels.run(config, tmp_path / "run", play_round=carried)
    assert result.summary["privacy"]["audited"] is False
    for each in (result, pfels.run(config, tmp_path / "run", play_round=carried)):
        each.save(tmp_path / "m.safetensors")
        assert any(line.startswith("Not audited") for line in card_of(tmp_path / "m.safetensors")["warnings"])
    assert "audited" not in pfels.run(config).summary["privacy"]


OPEN = ("open", "close")
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "![a](http://evil.example/x.png)",
    "a|b\n# heading\n\n<script>x</script>",
    "*a* _b_ `c` ~~d~~ **e** __f__",
    "https://evil.example www.evil.example a@evil.example",
    "&lt;b&gt; &#60;",
    "\x1b[31m \u202e \\",
    "$x$ {: .a } {{ x }}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_on_a_card_is_mark_up(tmp_path: Path, text: str):
    pfels.run(small()).save(tmp_path / "m.safetensors")
    card = card_of(tmp_path / "m.safetensors")
    card["scheme"]["settings"] = {text: text}
    card["data"]["checksums"] = {text: text}
    card["data"]["title"] = card["model"]["file"] = text
    card["warnings"] = card["assumes"] = [text]
    card["code"]["foreign"] = {text: text}
    parser = markdown_it.MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"])
    page = markdown(card)
    found = [each for token in parser.parse(page) for each in (token, *(token.children or ()))]
    assert {each.type for each in found} <= {
        *(f"{name}_{end}" for name in ("heading", "paragraph", "bullet_list", "list_item", "strong") for end in OPEN),
        *(f"{name}_{end}" for name in ("table", "thead", "tbody", "tr", "th", "td") for end in OPEN),
        "inline", "text", "text_special", "softbreak",
    }  # fmt: skip
    shown = [token.content for token in found if token.type == "inline"]
    plain_page = markdown({**card, "warnings": [], "assumes": [], "code": {"versions": {}}})
    assert sum(token.type == "heading_open" for token in found) == sum(
        token.type == "heading_open" for token in parser.parse(plain_page)
    )
    assert "://" not in page
    assert shown
    assert page.isprintable() or all(line.isprintable() for line in page.splitlines())


def test_what_any_renderer_takes_for_mark_up_or_a_link_is_written_as_a_reference():
    """Also what the one of these tests does not know: formulas, attributes, addresses without a scheme."""
    for character in "\\`*[]<>&|~$#@{}":
        assert plain(f"a{character}b") == f"a&#{ord(character)};b"
    assert plain("www.a.b WWW.c") == "www&#46;a.b WWW&#46;c"
    assert plain("https://a/b") == "https:&#47;/a/b"
    assert plain("_a_b_ c") == "&#95;a_b&#95; c"
    assert plain("a\nb\x1b") == plain("a\\nb\\x1b")


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(5.34811, "5.349"), (999.91, "1,000"), (1234.1, "1,235"), (None, "none")]
)
def test_a_card_rounds_epsilon_up(epsilon: float | None, shown: str):
    assert card_page._epsilon(epsilon) == shown


def test_the_paths_of_a_card_follow_from_that_of_its_model():
    found = delivery.card_paths(Path("a.b/model.v2.safetensors"))
    assert [str(each) for each in found] == ["a.b/model.v2.privacy.json", "a.b/model.v2.privacy.md"]


def test_the_command_saves_a_model_of_a_run_that_is_made_or_read(pfels_command: Any, tmp_path: Path):
    words = ["run", "demo", "-s", "rounds=2", "--out", "run", "--save"]
    done = pfels_command(*words, "m.pt")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert done.stderr == "error: m.pt: a model is saved as a safetensors file, such as m.safetensors\n"
    done = pfels_command(*words, "run/checkpoint.safetensors")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    for name in ("run/model", "m", "n"):
        done = pfels_command(*words, f"{name}.safetensors")
        assert done.returncode == 0, done.stderr
        assert done.stderr.endswith(f"model: {name}.safetensors; its privacy card: {name}.privacy.md\n")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "n.safetensors").read_bytes()
    assert sorted(os.listdir(tmp_path)) == [*NAMES, *(each.replace("m.", "n.", 1) for each in NAMES), "run"]


@pytest.mark.parametrize("noise", ["secret", "seed"])
@pytest.mark.parametrize("secret", [None, Secret(bytes(32))])
def test_the_card_of_a_deployment_says_what_carried_it_and_what_does_not_hold(
    tmp_path: Path, noise: str, secret: Secret | None
):
    config = small(scheme="pfels-plus", seed=0 if secret is None else secret.label)
    how: Any = {"play_round": carried, "deployment": Deployment("pigeons", noise, secret)}
    first = pfels.run(config, tmp_path / "run", **how)
    first.save(tmp_path / "m.safetensors")
    card = card_of(tmp_path / "m.safetensors")
    assert (card["simulated"], card["seed_secret"]) == (False, secret is not None)
    assert any("carried by pigeons" in line for line in card["warnings"])
    assert card["privacy"] == json.loads(json.dumps(first.summary["privacy"]))
    assert card["statement"].startswith("ε = " if noise == "secret" else "No privacy guarantee: the noise was drawn")
    assert ("outsider" in card["statement"]) is (noise == "secret" and secret is not None)
    pfels.run(config, tmp_path / "run", **how).save(tmp_path / "m.safetensors")
    assert card_of(tmp_path / "m.safetensors") == card
