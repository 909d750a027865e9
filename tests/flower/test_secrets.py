"""Where the noise comes from is agreed on, recorded and kept; and nothing of a device outlives a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from pfels.config.load import load_config
from pfels.documents.run import Environment
from pfels.errors import InputError, RunError
from pfels.experiment import loop
from pfels.flower import client_app, settings
from pfels.flower.server_app import summary_lines
from pfels.report import comparison
from pfels.report.text import server_is_smaller
from pfels.studies.compare import compared
from tests.contract.misfits import misfits
from tests.flower.in_process import RADIO, has_signals, refused, simulated, without_radio

Flower = Callable[..., Any]


def environment(tmp_path: Path, out: str = "run") -> Any:
    content = json.loads((tmp_path / out / "environment.json").read_text())
    assert misfits(Environment, content) == []
    return content


def test_noise_is_part_of_what_server_and_nodes_compare():
    config = load_config("demo")
    assert settings.digest(config, "secret") != settings.digest(config, "seed")
    line = "noise = 'secret' on the node, 'seed' at the server: they must be the same"
    assert settings.difference(settings.shared(config, "seed"), config, "secret") == line
    assert settings.difference(settings.shared(config, "seed"), config, "seed") == ""


def test_a_node_can_insist_on_secret_noise(flower: Flower, tmp_path: Path):
    with pytest.raises(RunError, match=r"partition-id 2\): noise = 'secret' on the node, 'seed' at the server"):
        flower(scheme="pfels", rounds=1, noise="seed", nodes=[{}, {}, {"noise": "secret"}, {}])
    assert not (tmp_path / "run").exists()
    result, _ = flower(scheme="pfels", rounds=1, noise="secret", nodes=[{}, {}, {"noise": "secret"}, {}])
    assert not result.records[0]["replies"]["short"]


def test_a_node_that_insists_does_not_train_for_a_server_that_did_not_ask(
    flower: Flower, caplog: pytest.LogCaptureFixture
):
    _, grid = flower(scheme="pfels", rounds=2)
    request = grid.requests[0]
    context = grid.contexts[request.metadata.dst_node_id]
    context.node_config["noise"] = "secret"
    del context.state["done"]
    with refused(caplog, "config is not the one of this run"):
        client_app.app(request, context)


@pytest.mark.parametrize("noise", ["secret", "seed"])
def test_the_run_directory_says_where_the_noise_came_from(flower: Flower, tmp_path: Path, noise: str):
    flower(scheme="pfels", rounds=1, noise=noise)
    found = environment(tmp_path)
    assert (found["noise"], found["seed"]) == (noise, "given")


def test_figures_under_known_noise_are_not_valid_and_say_why(flower: Flower):
    result, _ = flower(scheme="pfels-plus", rounds=2)
    own = simulated(scheme="pfels-plus", rounds=2)
    for name in ("exact_per_round", "server", "outsider"):
        figure, there = result.summary["privacy"][name], own.summary["privacy"][name]
        assert figure["epsilon"] == there["epsilon"]
        assert there["valid"]
        assert not figure["valid"]
        assert 'noise = "seed"' in figure["why"]
    assert not any(record["privacy"]["server"]["valid"] for record in result.records)
    assert any("no privacy figure holds" in line for line in summary_lines(result))
    secret, _ = flower(scheme="pfels-plus", rounds=2, noise="secret", out="secret")
    here = secret.summary["privacy"]
    assert here["server"] == own.summary["privacy"]["server"]
    assert here.keys() & RADIO == {"assumptions"}  # no antenna, and a server that sees who sends
    assert not any("antenna" in each["name"] or "receiver" in each["name"] for each in here["assumptions"])
    assert not any("no privacy figure holds" in line for line in summary_lines(secret))


def test_with_a_number_as_seed_no_figure_counts_on_hidden_cohorts(flower: Flower):
    """Whoever guesses the number knows who was drawn; the server's figure, which holds for that, applies instead."""
    given, _ = flower(scheme="pfels-plus", rounds=2, noise="secret", out="given")
    hidden, _ = flower(scheme="pfels-plus", rounds=2, noise="secret", seed="secret", out="hidden")
    for result, valid in ((given, False), (hidden, True)):
        privacy = result.summary["privacy"]
        assert [privacy[name]["valid"] for name in ("server", "exact_per_round", "outsider")] == [True, valid, valid]
        assert ("can be guessed" in privacy["outsider"]["why"]) == (not valid)
        assert all(record["privacy"]["exact_per_round"]["valid"] == valid for record in result.records)
        assert all(record["privacy"]["server"]["valid"] for record in result.records)
        assert without_radio(result).keys() == without_radio(simulated(scheme="pfels-plus", rounds=2)).keys()
    assert server_is_smaller(given.summary["privacy"])
    notes = comparison.notes(compared({"pfels-plus": [given.summary]}))
    assert any("as against the server, who sees more; who is drawn follows from the seed" in note for note in notes)
    turns, _ = flower(scheme="pfels-echo", rounds=2, noise="secret", out="turns")
    assert turns.summary["privacy"]["outsider"]["valid"], "turns hide nobody, and the figure does not count on it"


def interrupted(reply: Message, partition: int) -> Message:
    if has_signals(reply) and reply.metadata.group_id == "2":
        raise KeyboardInterrupt
    return reply


@pytest.mark.parametrize(("begun", "now"), [("secret", "seed"), ("seed", "secret")])
def test_a_run_keeps_the_noise_that_it_began_with(flower: Flower, tmp_path: Path, begun: str, now: str):
    with pytest.raises(KeyboardInterrupt):
        flower(scheme="pfels", rounds=3, noise=begun, change=interrupted)
    line = f"begun with noise = '{begun}', not '{now}'; it must stay the same"
    with pytest.raises(InputError, match=line):
        flower(scheme="pfels", rounds=3, noise=now)
    if begun == "secret":
        config = load_config("demo", {"scheme": "pfels", "rounds": 3})
        with pytest.raises(InputError, match=line):
            loop.run(config, tmp_path / "run", resume=True)
    assert environment(tmp_path)["noise"] == begun


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "pfels-plus", "compression__error_feedback": True},
        {"scheme": "pfels", "compression__error_feedback": True},
        {"scheme": "pfels-echo", "compression__ratio": 1.0},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)
def test_a_finished_run_leaves_nothing_of_a_device_on_any_node(flower: Flower, changes: dict[str, Any]):
    """Nodes that have no part in the last round included."""
    seen = set()

    def watch(grid: Any, partition: int) -> bool:
        state = next(iter(grid.contexts.values())).state
        seen.update(name.partition(".")[0] for name in state)
        return False

    _, grid = flower(**changes, rounds=6, partitions=20, late=watch)
    assert "memory" in seen
    last = {m.metadata.dst_node_id for m in grid.requests if m.content["request"]["round"] == 5}
    if changes["scheme"] != "pfels-echo":
        assert last < set(grid.contexts)
    for context in grid.contexts.values():
        assert set(context.state) <= {"done"}
