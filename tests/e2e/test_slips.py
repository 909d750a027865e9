"""What people type by mistake is answered with what would be right, in one line that names it."""

import sys
from collections.abc import Callable

import pytest

from pfels.cli import main
from pfels.config.load import load_config
from pfels.config.messages import known_keys
from pfels.config.synonyms import MEANT
from pfels.config.tree import Config
from pfels.errors import InputError


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object) -> Callable[[str], str]:
    def call(words: str) -> str:
        monkeypatch.chdir(str(tmp_path))
        monkeypatch.setattr(sys, "argv", ["pfels", *words.split(" ")])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        (said,) = capsys.readouterr().err.splitlines()
        return said.removeprefix("error: ")

    return call


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ("run demo --rounds 10", "did you mean -s rounds=10?"),
        ("run demo --rounds=10", "did you mean -s rounds=10?"),
        ("run demo --lr 0.1", "did you mean -s training.learning_rate=0.1 or "),
        ("run demo --scheme pfels", "did you mean -s scheme=pfels?"),
        ("compare demo --scheme pfels", "did you mean --schemes?"),
        ("compare demo --seed 3", "did you mean --seeds?"),
        ("compare demo --epsilon 8", "did you mean --total-epsilon or -s privacy.epsilon=8?"),
        ("run demo --foo", "; see pfels run --help"),
        ("run -h", "; see pfels run --help"),
        ("-s rounds=1 run", "options follow the command"),
        ("compare --seeds", "--seeds: needs a value, such as --seeds 0,1,2"),
        ("compare demo -s", "-s: needs a value, such as -s rounds=10"),
        ("run --out", "--out: needs a value"),
        ("run -s rounds 10", "did you mean -s rounds=10, without a space?"),
        ("run demo -s rounds 10", "did you mean -s rounds=10, without a space?"),
        ("run demo -s rounds = 10", "did you mean -s rounds=10, without a space?"),
        ("run demo -s rounds= 10", "did you mean -s rounds=10, without a space?"),
        ("run demo -s channel.snr_min_db -5", "did you mean -s channel.snr_min_db=-5, without a space?"),
        ("run demo rounds=10", "did you mean -s rounds=10?"),
        ("compare --schemes pfels, wfl-p", "did you mean --schemes pfels,wfl-p, without a space?"),
        ("compare demo --schemes pfels, wfl-p", "did you mean --schemes pfels,wfl-p, without a space?"),
        ("compare --schemes pfels wfl-p", "did you mean --schemes pfels,wfl-p, without a space?"),
        ("compare --seeds 0 1", "did you mean --seeds 0,1, without a space?"),
        ("sweep -g rounds 1,2", "did you mean -g rounds=1,2, without a space?"),
        ("sweep -g rounds=1, 2", "did you mean -g rounds=1,2, without a space?"),
        ("train", "did you mean pfels run?"),
        ("rnu", "did you mean run?"),
        ("help", "did you mean pfels --help?"),
        ("frobnicate", "; known: init, run, "),
        ("data lst", "did you mean list?"),
        ("run -s scheme=PFELS", "did you mean pfels?"),
        ("compare --schemes WFL_P", "did you mean wfl-p?"),
        ("run Demo", "did you mean demo?"),
        ("run -s run.device=gpu", "must be cpu, cuda, or one of several GPUs, such as cuda:0"),
        ("reproduce sgd", "; known: table-cifar10, "),
    ],
)
def test_a_slip_is_answered_with_what_would_be_right(words: str, cure: str, line: Callable[[str], str]):
    assert cure in line(words)


@pytest.mark.parametrize("words", ["run nosuch.toml -s rounds=10", "compare nosuch --seeds 0 --schemes pfels,wfl-p"])
def test_other_errors_keep_their_own_line(words: str, line: Callable[[str], str]):
    assert "neither a preset" in line(words)


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("training.lr", "did you mean training.learning_rate?"),
        ("server.lr", "did you mean server.learning_rate?"),
        ("lr", "did you mean training.learning_rate or server.learning_rate?"),
        ("LR", "did you mean training.learning_rate or server.learning_rate?"),
        ("optim.lr", "did you mean training.learning_rate or server.learning_rate?"),
        ("epochs", "did you mean training.local_epochs?"),
        ("epohcs", "did you mean training.local_epochs?"),
        ("clients", "did you mean data.devices (all devices) or cohort.size (per round)?"),
        ("data.num_clients", "did you mean data.devices (all devices)?"),
        ("batch", "did you mean training.batch_size?"),
        ("eps", "did you mean privacy.epsilon or privacy.total_epsilon?"),
        ("optimizer", "SGD is the only optimizer; did you mean training.momentum or server.momentum?"),
        ("server.optimizer", "SGD is the only optimizer; did you mean server.momentum?"),
        ("momentum", "did you mean training.momentum or server.momentum?"),
        ("sigma", "did you mean channel.noise_std?"),
        ("gpu", "did you mean run.device?"),
        ("dataset", "did you mean data.name?"),
        ("training.devices", "did you mean data.devices (all devices)?"),
        ("compresion", "did you mean compression.ratio?"),
        ("train.clip", "train: unknown table; did you mean training?"),
    ],
)
def test_the_name_of_another_tool_for_a_setting_is_understood(key: str, answer: str):
    with pytest.raises(InputError) as caught:
        load_config("demo", {key: 1})
    assert str(caught.value).endswith(answer)


@pytest.mark.parametrize("key", ["xyzzy", "training.xyzzy", "server.foo", "foo.bar", "bar"])
def test_no_key_is_suggested_where_none_is_near(key: str):
    with pytest.raises(InputError) as caught:
        load_config("demo", {key: 1})
    assert "did you mean" not in str(caught.value)
    assert "unknown key; known: " in str(caught.value)


def test_every_key_that_is_suggested_exists():
    known = known_keys(Config)
    assert [key for keys in MEANT.values() for key in keys if key not in known] == []
    words = [word for each in MEANT for word in each.split()]
    assert len(set(words)) == len(words), "a word stands in one line alone"


@pytest.mark.parametrize("command", ["run", "compare", "sweep", "plan", "privacy", "audit", "reproduce"])
def test_the_help_says_where_the_keys_are_listed(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["pfels", command, "--help"])
    with pytest.raises(SystemExit):
        main()
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "docs/settings.md" in said
    assert "pfels init" in said
