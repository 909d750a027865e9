"""The Strategy: any scheme of `pfels` over Flower's messages. What surrounds a round is the simulator's own loop."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from logging import WARNING
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log
from torch import Tensor

from pfels.config.tree import Config
from pfels.errors import RunError
from pfels.experiment import loop
from pfels.flower import settings
from pfels.flower.messages import Ask, Hello
from pfels.flower.nodes import Fleet
from pfels.flower.round import Begun, Turn
from pfels.flower.settings import Settings
from pfels.schemes.plan import Link, Tally
from pfels.schemes.scheme import Scheme
from pfels.schemes.system import System

Progress = Callable[[Mapping[str, Any]], None]


class OverTheAir(Strategy):  # type: ignore[misc]
    """Rounds, privacy, checkpoints and resume are the simulator's; this class carries a round to the nodes and back."""

    def __init__(self, wanted: Settings, *, progress: Progress = lambda record: None) -> None:
        self.wanted, self.progress = wanted, progress
        self.noise_seed = secrets.randbits(64) if wanted.secret_noise else None
        self.turn: Turn | None = None
        self.fleet: Fleet | None = None
        self.finished: loop.Result | None = None

    def start(self, grid: Grid) -> Result:  # rounds, model and waiting time are in the settings
        """Run to the end, or go on from where the run directory stands."""
        config = self.wanted.config
        self.fleet = Fleet(grid, Hello(settings.shared(config), settings.digest(config)), self.wanted.reply_timeout_s)
        self.fleet.gather()
        begun = (self.wanted.out / "config.toml").exists()
        self.finished = loop.run(
            _saved_every_round(config), self.wanted.out, resume=begun, progress=self.progress, uplink=self.carry,
            carrier=f"Flower {version('flwr')}",
        )  # fmt: skip
        return Result(arrays=ArrayRecord([self.finished.parameters.numpy()]))

    def carry(self, scheme: Scheme, system: System, link: Link, theta: Tensor, tally: Tally) -> Tensor:
        """One round over Flower, in the place of `rounds.play`."""
        assert self.fleet is not None
        self.turn = Turn.begin(scheme, replace(system, noise_seed=self.noise_seed), link, theta, tally)
        if self.wanted.secret_noise and not Begun(self.wanted.out).claim(link.round):
            log(WARNING, "round %d was under way when the run ended: counted, and not asked for again", link.round + 1)
            return self.turn.lost()
        for line in self.fleet.greet():  # who joined meanwhile, and may not; the run goes on
            log(WARNING, "%s", line)
        number = link.round + 1
        messages = self.configure_train(number, ArrayRecord(), ConfigRecord(), self.fleet.grid)
        self.aggregate_train(number, self.fleet.exchange(list(messages)))
        return self.turn.estimate()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """What each node is asked in this round: to train those of its devices that were drawn."""
        turn, fleet = self._under_way()
        sending = fleet.carriers(turn.link.sending)
        waiting = fleet.carriers(turn.link.waiting) if turn.system.error_feedback else {}
        for node in sorted({*sending, *waiting}):
            devices, silent = (held[node].tolist() if node in held else [] for held in (sending, waiting))
            turn.asked[node] = devices
            ask = Ask(turn.link.round, fleet.hello.digest, turn.theta, devices, silent)
            yield Message(ask.record(), node, MessageType.TRAIN, ttl=fleet.timeout_s, group_id=turn.group)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Superpose the replies as they come. What becomes of the sum is up to the scheme, and then to the loop."""
        turn, _ = self._under_way()
        turn.take(replies)
        return None, MetricRecord({"used": len(turn.used), "expected": len(turn.link.sending)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: the model is evaluated at the server, since what devices measure on their data is theirs."""
        return ()

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing, see `configure_evaluate`."""
        return None

    def summary(self) -> None:
        """Nothing: the run directory says what is run."""

    def _under_way(self) -> tuple[Turn, Fleet]:
        if self.turn is None or self.fleet is None:
            raise RunError("no round is under way; OverTheAir.start plays them")
        return self.turn, self.fleet


def _saved_every_round(config: Config) -> Config:
    """What was released is never taken back, so no finished round may be forgotten."""
    return config.model_copy(update={"run": config.run.model_copy(update={"checkpoint_every": 1})})
