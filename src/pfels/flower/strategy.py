"""The Strategy: any scheme of `pfels` over Flower's messages. Everything around a round is the simulator's own loop."""

from collections.abc import Iterable
from importlib.metadata import version
from logging import WARNING

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result as FlowerResult
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log
from torch import Tensor

from pfels.config.tree import Config
from pfels.errors import RunError
from pfels.experiment import loop, secret_seed
from pfels.experiment.deployment import Deployment
from pfels.experiment.loop import Progress
from pfels.experiment.result import Result
from pfels.experiment.setup import Experiment
from pfels.flower import settings
from pfels.flower.messages import Greeting, TrainRequest
from pfels.flower.nodes import Nodes
from pfels.flower.round import RoundJournal, ServerRound
from pfels.flower.settings import Settings
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.scheme import keeps_unsent, remembers


class OverTheAir(Strategy):  # type: ignore[misc]
    """Plays each round on the nodes; rounds, privacy, checkpoints and resume are the simulator's."""

    def __init__(self, wanted: Settings, *, progress: Progress = lambda record: None) -> None:
        self.wanted, self.progress = wanted, progress
        self.nodes: Nodes | None = None
        self.journal = RoundJournal(wanted.out)
        self.round: ServerRound | None = None
        self.heard: dict[int, set[int]] = {}  # by round: the devices heard at their turn, while echoes of it may follow
        self.finished: Result | None = None

    def start(self, grid: Grid) -> FlowerResult:  # rounds, model and timeout are in the settings
        """Run to the end, or continue from the last round in the run directory."""
        config, noise = self.wanted.config, self.wanted.noise
        greeting = Greeting(settings.shared(config, noise), settings.digest(config, noise))
        self.nodes = Nodes(grid, greeting, self.wanted.reply_timeout_s)
        begun = (self.wanted.out / "config.toml").exists()
        self.nodes.wait(resume=begun)
        self.finished = loop.run(
            _saved_every_round(config),
            self.wanted.out,
            resume=begun,
            progress=self.progress,
            play_round=self.play_round,
            deployment=Deployment(f"Flower {version('flwr')}", noise, self.wanted.secret_seed),
        )
        secret_seed.delete(self.wanted.out)  # also after a run that was finished, but killed before it got here
        if self.round is not None and remembers(self.round.scheme):
            self.nodes.farewell()
        return FlowerResult(arrays=ArrayRecord([self.finished.parameters.numpy()]))

    def play_round(self, experiment: Experiment, plan: RoundPlan, theta: Tensor, memory: Memory) -> RoundResult:
        """One round over Flower, instead of `loop.simulate`. What devices remember stays on the nodes."""
        assert self.nodes is not None
        secret = self.wanted.secret_noise
        self.round = ServerRound.begin(
            experiment.scheme, experiment.draws, plan, theta, decoded=memory.decoded, heard=self.heard, secret=secret
        )
        number = plan.round + 1
        if secret and not self.journal.begin(plan.round):
            log(WARNING, "round %d was in progress when the run stopped: charged, not repeated", number)
            return self.round.lost()
        for line in self.nodes.greet():  # nodes that joined late and cannot take part; the run continues
            log(WARNING, "%s", line)
        messages = self.configure_train(number, ArrayRecord(), ConfigRecord(), self.nodes.grid)
        self.aggregate_train(number, self.nodes.exchange(list(messages)))
        result = self.round.result()
        self.heard = {t: who for t, who in self.heard.items() if t in memory.decoded} | {plan.round: self.round.at_turn}
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One request per node: to train those of its devices that were drawn, and to repeat what others kept."""
        current, nodes = self._in_progress()
        plan = current.plan
        sending = nodes.by_node(plan.sending)
        waiting = nodes.by_node(plan.waiting) if keeps_unsent(current.scheme) else {}
        for node in sorted({*sending, *waiting}):
            devices, silent = (share[node].tolist() if node in share else [] for share in (sending, waiting))
            current.asked[node] = devices
            request = TrainRequest(
                plan.round, nodes.greeting.digest, self.wanted.secret_seed, current.theta, devices, silent
            )
            yield Message(request.record(), node, MessageType.TRAIN, ttl=nodes.timeout_s, group_id=current.group)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Superpose the replies as they arrive. The estimate is the scheme's, the step the loop's."""
        current, _ = self._in_progress()
        current.add(replies)
        return None, MetricRecord({"used": len(current.used), "expected": len(current.plan.sending)})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Nothing: the model is evaluated at the server, since metrics on devices' data would be private too."""
        return ()

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Nothing, see `configure_evaluate`."""
        return None

    def summary(self) -> None:
        """Nothing: the run directory has the config."""

    def _in_progress(self) -> tuple[ServerRound, Nodes]:
        if self.round is None or self.nodes is None:
            raise RunError("no round is in progress; OverTheAir.start plays them")
        return self.round, self.nodes


def _saved_every_round(config: Config) -> Config:
    """A checkpoint after each round: a release cannot be undone, so no finished round may be forgotten."""
    return config.model_copy(update={"run": config.run.model_copy(update={"checkpoint_every": 1})})
