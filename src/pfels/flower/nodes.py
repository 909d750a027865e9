"""The nodes of a run: which devices live where, and the exchange of messages with those that are there."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from logging import WARNING

import numpy as np
from flwr.app import Message, MessageType
from flwr.serverapp import Grid
from flwr.supercore import log
from numpy.typing import NDArray

from pfels.errors import RunError
from pfels.flower.messages import Hello, Place, UnusableError

PAUSE_S = 0.2  # between two looks for replies
FIRST_S = 300.0  # how long to wait for somebody: a node may be busy, or start after the server


@dataclass
class Fleet:
    """Nodes that have answered a greeting, by their node id, and how long to wait for an answer."""

    grid: Grid
    hello: Hello
    timeout_s: float
    places: dict[int, Place] = field(default_factory=dict)
    greeted: set[int] = field(default_factory=set)
    greetings: set[str] = field(default_factory=set)  # ids of those that have had no answer yet

    def gather(self) -> None:
        """Greet nodes until every partition has one; after the wait, whoever is there will do. Nobody is an error."""
        until = time.monotonic() + FIRST_S
        while not self.complete and time.monotonic() < until:
            alone = not self.places
            refused = self.greet()
            if refused:
                raise RunError(refused[0])
            if alone and self.places:
                until = time.monotonic() + self.timeout_s
            time.sleep(PAUSE_S)
        if not self.places:
            raise RunError(f"no node has answered within {FIRST_S:g} s; are SuperNodes connected?")

    def greet(self) -> list[str]:
        """Greet nodes that are new here, and hear who has answered: why some of them cannot take part.

        It waits for nobody. Who answers late is heard next time.
        """
        new = [node for node in self.grid.get_node_ids() if node not in self.greeted]
        self.greeted.update(new)
        if new:
            hellos = [Message(self.hello.record(), node, MessageType.QUERY) for node in new]
            self.greetings.update(i for i in self.grid.push_messages(hellos) if i)
        refused = []
        for reply in self.grid.pull_messages(self.greetings) if self.greetings else ():
            self.greetings.discard(reply.metadata.reply_to_message_id)
            if reply.has_error():
                log(WARNING, "node %d does not take part: %s", reply.metadata.src_node_id, reply.error.reason)
                continue
            try:
                place = Place.read(reply.content)
            except UnusableError:
                continue
            reason = place.refused or self._misfit(place)
            if reason:
                refused.append(f"node {reply.metadata.src_node_id} (partition-id {place.partition}): {reason}")
            else:
                self.places[reply.metadata.src_node_id] = place
        return refused

    def _misfit(self, place: Place) -> str:
        """All nodes must cut the devices the same way: a device on two of them would be heard twice."""
        others = {other.partitions for other in self.places.values()} - {place.partitions}
        return f"num-partitions = {place.partitions}, {others.pop()} on other nodes" if others else ""

    @property
    def complete(self) -> bool:
        """Whether every partition has a node."""
        here = {place.partition for place in self.places.values()}
        return bool(here) and here == set(range(next(iter(self.places.values())).partitions))

    def carriers(self, devices: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        """Each of these devices on the node that carries it, where that node is there; of two, the one greeted last."""
        present = set(self.grid.get_node_ids())
        newest = {place.partition: node for node, place in self.places.items() if node in present}
        held = {node: self.places[node].carries(devices) for node in newest.values()}
        return {node: mine for node, mine in held.items() if len(mine)}

    def exchange(self, messages: Sequence[Message]) -> Iterator[Message]:
        """The replies, each as soon as it is there, until all are or the wait is over."""
        if not messages:
            return
        waiting, until = {i for i in self.grid.push_messages(messages) if i}, time.monotonic() + self.timeout_s
        while waiting:
            for reply in self.grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                yield reply
            if waiting:
                if time.monotonic() > until:
                    return
                time.sleep(PAUSE_S)
