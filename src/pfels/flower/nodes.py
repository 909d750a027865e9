"""The nodes of a run: which node carries which device, and the exchange of messages with connected nodes."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from logging import WARNING

from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore import log

from pfels.arrays import DeviceIds
from pfels.errors import RunError, shown
from pfels.flower.messages import REASON, Greeting, NodeShare, UnusableError

FORGET = "query.forget"  # message type: the run is over
POLL_S = 0.2  # pause between two polls for replies
FIRST_NODE_S = 300.0  # timeout for the first node, which may be busy or start after the server


@dataclass
class Nodes:
    """The nodes that replied to a greeting, by node id, and the timeout for replies."""

    grid: Grid
    greeting: Greeting
    timeout_s: float
    shares: dict[int, NodeShare] = field(default_factory=dict)
    greeted: set[int] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)  # ids of greetings without a reply so far

    def wait(self, *, resume: bool = False) -> None:
        """Greet nodes until every partition has one. After the timeout, connected nodes suffice; none is an error.

        A node that cannot take part is an error before the first round. A run that continues leaves it out.
        """
        until = time.monotonic() + FIRST_NODE_S
        while not self.complete and time.monotonic() < until:
            empty = not self.shares
            refused = self.greet()
            if refused and not resume:
                raise RunError(refused[0])
            for line in refused:
                log(WARNING, "%s", line)
            if empty and self.shares:
                until = time.monotonic() + self.timeout_s
            time.sleep(POLL_S)
        if not self.shares:
            raise RunError(f"no node has answered within {FIRST_NODE_S:g} s; are SuperNodes connected?")

    def greet(self) -> list[str]:
        """Greet new nodes and read the replies that have arrived; one line for each node that cannot take part.

        It does not wait: a late reply is read the next time.
        """
        new = [node for node in self.grid.get_node_ids() if node not in self.greeted]
        self.greeted.update(new)
        if new:
            greetings = [Message(self.greeting.record(), node, MessageType.QUERY) for node in new]
            self.unanswered.update(i for i in self.grid.push_messages(greetings) if i)
        replies = self.grid.pull_messages(self.unanswered) if self.unanswered else ()
        return [line for reply in replies if (line := self._register(reply))]

    def _register(self, reply: Message) -> str:
        """Add the node that sent this reply, or say why it cannot take part."""
        node = reply.metadata.src_node_id
        self.unanswered.discard(reply.metadata.reply_to_message_id)
        if reply.has_error():
            log(WARNING, "node %d does not take part: %s", node, shown(reply.error.reason, maximum=REASON))
            return ""
        try:
            share = NodeShare.read(reply.content)
        except UnusableError as error:
            log(WARNING, "node %d does not take part: %s", node, error)
            return ""
        reason = share.refused or self._conflict(share)
        if reason:
            return f"node {node} (partition-id {share.partition}): {reason}"
        self.shares[node] = share
        return ""

    def _conflict(self, share: NodeShare) -> str:
        """All nodes must use the same number of partitions: else a device could be on two nodes and count twice."""
        devices = self.greeting.config["data.devices"]
        if share.partitions > devices:
            return f"num-partitions = {share.partitions}: must be at most data.devices = {devices}"
        others = {other.partitions for other in self.shares.values()} - {share.partitions}
        return f"num-partitions = {share.partitions}, {others.pop()} on other nodes" if others else ""

    @property
    def complete(self) -> bool:
        """Whether every partition has a node."""
        here = {share.partition for share in self.shares.values()}
        return bool(here) and len(here) == next(iter(self.shares.values())).partitions

    def farewell(self) -> None:
        """Have every connected node delete what its devices kept for this run, and wait for that until the timeout."""
        nodes = set(self.grid.get_node_ids()) & set(self.shares)
        deque(self.exchange([Message(RecordDict(), node, FORGET) for node in sorted(nodes)]), maxlen=0)

    def by_node(self, devices: DeviceIds) -> dict[int, DeviceIds]:
        """The given devices by the connected node that carries them; of two nodes, the one that replied last."""
        connected = set(self.grid.get_node_ids())
        newest = {share.partition: node for node, share in self.shares.items() if node in connected}
        carried = {node: self.shares[node].of(devices) for node in newest.values()}
        return {node: mine for node, mine in carried.items() if len(mine)}

    def exchange(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Send messages and yield each reply as it arrives, until all have arrived or the timeout is over."""
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
                time.sleep(POLL_S)
