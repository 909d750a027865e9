"""Nodes in this process: the real ClientApp and the real Strategy, with a list in the place of Flower's network."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from pfels.flower import client_app, settings
from pfels.flower.strategy import OverTheAir

Spoil = Callable[[Message, int], Message | None]  # a reply and its node's partition; None: it never arrives


class Nodes(Grid):
    """A grid whose nodes answer at once, or once they are not `late`. `spoil` may change what they answer."""

    def __init__(
        self,
        run_config: dict[str, Any],
        partitions: int,
        *,
        spoil: Spoil = lambda reply, partition: reply,
        node_config: dict[int, dict[str, Any]] | None = None,
        late: Callable[["Nodes", int], bool] = lambda nodes, partition: False,
    ) -> None:
        self.late = late
        self.spoil, self.partitions, self.asked, self._replies, self._ids = spoil, partitions, [], {}, count(1)
        self.contexts = {
            100 + partition: Context(
                run_id=1,
                node_id=100 + partition,
                node_config={
                    "partition-id": partition, "num-partitions": partitions, **(node_config or {}).get(partition, {})
                },
                state=RecordDict(),
                run_config=run_config,
            )
            for partition in range(partitions)
        }  # fmt: skip

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        return None

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise AssertionError("deprecated")

    def send_and_receive(self, *args: Any, **kwargs: Any) -> Iterable[Message]:
        raise AssertionError("would keep every reply until the last is there")

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            identity = str(next(self._ids))
            message.metadata.__dict__["_message_id"] = identity
            self.asked.append(message)
            node = message.metadata.dst_node_id
            try:
                reply = client_app.app(message, self.contexts[node])
            except Exception as error:
                reply = Message(Error(code=1, reason=str(error)), reply_to=message)
            self._replies[identity] = self.spoil(reply, node - 100)
            ids.append(identity)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = {identity: self._replies.get(identity) for identity in message_ids}
        here = {i: r for i, r in replies.items() if r is not None and not self.late(self, r.metadata.src_node_id - 100)}
        for identity in here:
            del self._replies[identity]
        return list(here.values())


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower's processes know of themselves, and put into every message."""
    for name, value in {"_run_id": 1, "_task_id": 1, "_node_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, name, value)


@pytest.fixture
def flower(tmp_path: Path) -> Callable[..., tuple[Any, Nodes]]:
    """Run the app on nodes in this process; its result, and the nodes."""

    def play(
        *,
        partitions: int = 4,
        spoil: Spoil = lambda reply, partition: reply,
        nodes: Sequence[Any] = (),
        late: Callable[[Nodes, int], bool] = lambda nodes, partition: False,
        **run: Any,
    ) -> tuple[Any, Nodes]:
        config = {"preset": "demo", "noise": "seed", "reply_timeout_s": 0.5, "rounds": 10}
        config |= {key.replace("__", "."): value for key, value in run.items()}
        config["out"] = str(tmp_path / run.get("out", "run"))
        grid = Nodes(config, partitions, spoil=spoil, node_config=dict(enumerate(nodes)), late=late)
        play.grids.append(grid)
        strategy = OverTheAir(settings.read(config))
        strategy.start(grid)
        return strategy.finished, grid

    play.grids = []
    return play
