"""A secret seed: 256 bits that the server draws, that nodes get with a round, and that no finished run holds."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message

from pfels import seeding
from pfels.config.load import load_config
from pfels.errors import InputError, RunError
from pfels.experiment import secret_seed
from pfels.experiment.setup import build
from pfels.flower import client_app, settings
from pfels.report.page import write_report
from pfels.seeding import Secret
from tests.flower.in_process import has_signals, refused

Flower = Callable[..., Any]


def interrupted(reply: Message, partition: int) -> Message:
    if has_signals(reply) and reply.metadata.group_id == "2":
        raise KeyboardInterrupt
    return reply


OUTSIDER = {"scheme": "pfels-plus", "privacy__adversary": "outsider", "rounds": 3, "noise": "secret", "seed": "secret"}


def kept_secret(tmp_path: Path) -> Secret:
    found = secret_seed.kept(tmp_path / "run")
    assert found is not None
    return found


def interrupt(flower: Flower, **changes: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        flower(**OUTSIDER | changes, change=interrupted)


def written_forms(secret: Secret) -> list[bytes]:
    """The ways in which a file or a message could hold the secret."""
    number = int.from_bytes(secret.key, "big")
    parts = [secret.key[i : i + 8] for i in range(0, 32, 8)]
    return [
        secret.key,
        secret.key.hex().encode(),
        str(number).encode(),
        *parts,
        *(part.hex().encode() for part in parts),
    ]


def test_a_secret_seed_is_drawn_by_the_server_sent_to_the_nodes_and_kept_until_the_end(flower: Flower, tmp_path: Path):
    interrupt(flower)
    secret = kept_secret(tmp_path)
    assert load_config(tmp_path / "run" / "config.toml").seed == secret.label
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["seed"] == "secret"
    result, grid = flower(**OUTSIDER)
    assert result.summary["seed"] == secret.label
    assert {message.content["request"]["secret"] for message in grid.requests} == {secret.key}
    assert all(record["replies"]["used"] for record in result.records if not record.get("lost"))
    other, _ = flower(**OUTSIDER, out="other")
    assert other.summary["seed"] != secret.label
    assert [r["cohort"] for r in other.records] != [r["cohort"] for r in result.records]


def test_a_secret_seed_has_256_bits_of_the_operating_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    asked = []
    monkeypatch.setattr(seeding.secrets, "token_bytes", lambda size: asked.append(size) or bytes(range(size)))
    read = settings.read({"out": str(tmp_path / "run"), "seed": "secret"})
    assert asked == [32]
    assert read.secret_seed == Secret(bytes(range(32)))
    assert "Secret()" in repr(read)


def test_only_its_owner_can_read_a_secret_seed_and_a_finished_run_has_none(flower: Flower, tmp_path: Path):
    interrupt(flower)
    run, secret = tmp_path / "run", kept_secret(tmp_path)
    assert (run / "secret.json").stat().st_mode & 0o777 == 0o600
    others = {path.name: path.read_bytes() for path in run.iterdir() if path.name != "secret.json"}
    assert others.keys() >= {"config.toml", "environment.json", "rounds.jsonl", "checkpoint.safetensors", "begun.json"}
    flower(**OUTSIDER)
    finished = {f"finished {path.name}": path.read_bytes() for path in run.iterdir()}
    assert "finished summary.json" in finished
    assert "finished secret.json" not in finished
    report = write_report([tmp_path / "run"], tmp_path / "report.html")["report"]
    everything = others | finished | {"report": Path(report).read_bytes()}
    for name, content in everything.items():
        assert not any(form in content for form in written_forms(secret)), name


def test_a_kill_just_before_the_end_leaves_a_secret_seed_that_the_next_start_deletes(flower: Flower, tmp_path: Path):
    interrupt(flower)
    secret = kept_secret(tmp_path)
    first, _ = flower(**OUTSIDER)
    secret_seed.keep(tmp_path / "run", secret)
    again, _ = flower(**OUTSIDER)
    assert torch.equal(again.parameters, first.parameters)
    assert not (tmp_path / "run" / "secret.json").exists()


def test_a_kill_before_the_run_began_leaves_a_directory_that_the_next_start_uses(flower: Flower, tmp_path: Path):
    secret = Secret.drawn()
    (tmp_path / "run").mkdir()
    secret_seed.keep(tmp_path / "run", secret)
    result, _ = flower(**OUTSIDER)
    assert result.summary["seed"] == secret.label


def test_the_files_of_a_run_do_not_tell_who_is_drawn_next(flower: Flower, tmp_path: Path):
    """With a number as seed they do: the attack is sound."""
    for seed, found in ((5, True), ("secret", False)):
        out = f"run-{seed}"
        with pytest.raises(KeyboardInterrupt):
            flower(scheme="pfels-plus", rounds=3, noise="secret", seed=seed, change=interrupted, out=out)
        known = build(load_config(tmp_path / out / "config.toml"))
        result, _ = flower(scheme="pfels-plus", rounds=3, noise="secret", seed=seed, out=out)
        guessed = [known.draws.cohort(t).tolist() for t in range(3)]
        assert ([record["cohort"] for record in result.records] == guessed) == found


def test_greetings_and_the_run_config_do_not_hold_a_secret_seed(flower: Flower, tmp_path: Path):
    """A node that is refused, or whoever starts the run, does not learn it."""
    interrupt(flower)
    secret = kept_secret(tmp_path)
    _, grid = flower(**OUTSIDER)
    greetings = [message.content for message in grid.sent if "greeting" in message.content]
    assert greetings
    for content in (*greetings, *(context.run_config for context in grid.contexts.values())):
        assert not any(form in repr(content).encode() for form in written_forms(secret))
        assert repr(secret.key)[2:-1] not in repr(content)


def test_a_node_can_insist_on_a_secret_seed(flower: Flower, tmp_path: Path):
    nodes = [{}, {}, {"seed": "secret"}, {}]
    with pytest.raises(
        RunError, match=r'partition-id 2\): seed: this node takes part only in runs with seed = "secret"'
    ):
        flower(**OUTSIDER | {"seed": 5, "privacy__adversary": "server"}, nodes=nodes)
    assert not (tmp_path / "run").exists()
    result, _ = flower(**OUTSIDER, nodes=nodes)
    assert not any(record["replies"]["short"] for record in result.records)


@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(32)], ids=["none", "short", "another"])
def test_a_node_trains_with_the_secret_seed_of_the_run_alone(
    flower: Flower, caplog: pytest.LogCaptureFixture, secret: bytes
):
    _, grid = flower(**OUTSIDER)
    request = grid.requests[0]
    context = grid.contexts[request.metadata.dst_node_id]
    del context.state["done"]
    request.content["request"]["secret"] = secret
    with refused(caplog, r"did not send it|not a request|not the one of this run"):
        client_app.app(request, context)
    assert "done" not in context.state


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "secret.json: missing, so the run cannot continue"),
        ('{"seed": "00"}', "secret.json: seed: must be 64 hexadecimal digits"),
        (f'{{"seed": "{"0" * 64}"}}', "secret.json: is the seed of another run"),
        ("{", "secret.json: not readable as JSON"),
    ],
    ids=["missing", "short", "another", "damaged"],
)
def test_a_run_does_not_continue_with_another_secret_seed(
    flower: Flower, tmp_path: Path, content: str | None, line: str
):
    interrupt(flower)
    path, log = tmp_path / "run" / "secret.json", (tmp_path / "run" / "rounds.jsonl").read_bytes()
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=line):
        flower(**OUTSIDER)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == log


def test_a_run_with_another_seed_is_not_taken_for_one_with_a_secret_seed(flower: Flower):
    with pytest.raises(KeyboardInterrupt):
        flower(scheme="pfels", rounds=3, seed=5, noise="secret", change=interrupted)
    with pytest.raises(InputError, match="holds a run with another seed"):
        flower(scheme="pfels", rounds=3, seed="secret", noise="secret")
