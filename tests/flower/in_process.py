"""Nodes in this process: the real ClientApp and the real Strategy, without Flower's network."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid

from pfels.config.load import load_config
from pfels.errors import RunError
from pfels.experiment import loop
from pfels.experiment.result import Result
from pfels.flower import client_app, settings
from pfels.flower.messages import REFUSED
from pfels.flower.strategy import OverTheAir

Change = Callable[[Message, int], Message | None]  # of a reply, given its node's partition; None: it never arrives
Late = Callable[["InProcessGrid", int], bool]
FIRST_NODE = 100  # its id; the others follow
PLAIN = {"server__learning_rate": 1.0, "server__average": 0.0}  # the model moves by the estimate, and is delivered


def unchanged(reply: Message, partition: int) -> Message:
    return reply


class InProcessGrid(Grid):
    """A grid whose nodes reply at once, or as soon as they are not `late`. `change` may alter or drop a reply.

    `restarts` are, by round, the nodes that are started again before it, and so lose their state.
    """

    def __init__(
        self,
        run_config: dict[str, Any],
        partitions: int,
        *,
        change: Change = unchanged,
        node_config: dict[int, dict[str, Any]] | None = None,
        late: Late = lambda grid, partition: False,
        newest_first: bool = False,
        restarts: Mapping[int, Collection[int]] | None = None,
    ) -> None:
        self.change, self.late, self.newest_first, self.restarts = change, late, newest_first, restarts or {}
        self.sent: list[Message] = []
        self._replies: dict[str, Message | None] = {}
        self._ids = count(1)
        self.contexts = {
            FIRST_NODE + i: Context(
                run_id=1,
                node_id=FIRST_NODE + i,
                node_config={"partition-id": i, "num-partitions": partitions, **(node_config or {}).get(i, {})},
                state=RecordDict(),
                run_config=run_config,
            )
            for i in range(partitions)
        }

    @property
    def requests(self) -> list[Message]:
        """The requests to train."""
        return [message for message in self.sent if "request" in message.content]

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        return None

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise AssertionError("deprecated")

    def send_and_receive(self, *args: Any, **kwargs: Any) -> Iterable[Message]:
        raise AssertionError("would hold every reply until the last one has arrived")

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            identity = str(next(self._ids))
            message.metadata.__dict__["_message_id"] = identity
            self.sent.append(message)
            node = message.metadata.dst_node_id
            if "request" in message.content:
                again = self.restarts.get(message.content["request"]["round"], ())
                if node - FIRST_NODE in again:
                    self.contexts[node].state = RecordDict()
            try:
                reply = client_app.app(message, self.contexts[node])
            except Exception as error:
                reply = Message(Error(code=1, reason=str(error)), reply_to=message)
            self._replies[identity] = self.change(reply, node - FIRST_NODE)
            ids.append(identity)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        arrived = {}
        for identity in sorted(message_ids, key=int, reverse=self.newest_first):
            reply = self._replies.get(identity)
            if reply is not None and not self.late(self, reply.metadata.src_node_id - FIRST_NODE):
                arrived[identity] = reply
        for identity in arrived:
            del self._replies[identity]
        return list(arrived.values())


def play(out: Path, *, partitions: int = 4, nodes: Any = (), contexts: Any = None, **options: Any) -> Any:
    """Run the app on nodes in this process, with its run directory `out`: the result, and the grid.

    `nodes` are the nodes' own configs, and `contexts` those of an earlier grid, if its nodes go on. Options of the grid
    are taken as such; others are settings, with `__` for a dot.
    """
    grid_options = {key: options.pop(key) for key in ("change", "late", "newest_first", "restarts") if key in options}
    config = {"preset": "demo", "noise": "seed", "reply_timeout_s": 0.1, "rounds": 10, "out": str(out)}
    config |= {key.replace("__", "."): value for key, value in options.items()}
    grid = InProcessGrid(config, partitions, node_config=dict(enumerate(nodes)), **grid_options)
    grid.contexts = contexts or grid.contexts
    strategy = OverTheAir(settings.read(config))
    strategy.start(grid)
    return strategy.finished, grid


def simulated(**changes: Any) -> Result:
    """The simulator's result for the same settings."""
    return loop.run(load_config("demo", {"rounds": 10} | {k.replace("__", "."): v for k, v in changes.items()}))


RADIO = {"assumptions", "server_by_antennas", "blind_server"}  # what only a radio has, or prices otherwise


def figures(privacy: Any) -> Any:
    """Privacy figures without the verdict: with the noise of the seed they are the simulator's, and not valid."""
    if not isinstance(privacy, dict):
        return privacy
    verdict = {"valid", "claimed_valid", "why", "reason"}
    return {key: figures(value) for key, value in privacy.items() if key not in verdict | RADIO}


def without_radio(result: Result) -> Any:
    """The privacy figures of a run, without those that only a radio has."""
    return {key: value for key, value in result.summary["privacy"].items() if key not in RADIO}


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Relative to the second."""
    return float((one - other).norm() / other.norm())


def has_signals(reply: Message) -> bool:
    return not reply.has_error() and "x" in reply.content


def without_node_1(reply: Message, partition: int) -> Message | None:
    """Node 1 never replies in a round."""
    return None if partition == 1 and has_signals(reply) else reply


@contextmanager
def refused(caplog: pytest.LogCaptureFixture, line: str) -> Iterator[None]:
    """The node refuses what is asked of it here: the server reads one constant text, the owner this line."""
    caplog.clear()
    with pytest.raises(RunError, match=f"^{re.escape(REFUSED)}$") as caught:
        yield
    assert caught.value.__cause__ is None
    assert re.search(line, caplog.text)
