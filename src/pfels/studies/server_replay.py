"""The server's part of a training, once more, by servers that never see an update.

Whatever a server does, it may do with what is public and with what it has received. So a copy of the process from
before the training, which is told the models and the received sums and nothing else, must come to the same plans, the
same index sets and the same estimates, to the bit. A second copy hears the same signals with the noise of another seed:
that noise and its estimates must know nothing of this training's noise.
"""

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pfels.errors import shown
from pfels.experiment.setup import Experiment
from pfels.runtime.forked import Forked
from pfels.schemes.draws import Draws
from pfels.schemes.exposure import plan_round
from pfels.schemes.memory import Memory
from pfels.schemes.plan import RoundPlan, RoundResult
from pfels.schemes.round import listen
from pfels.schemes.scheme import adds_noise, decodes, remembers
from pfels.seeding import Purpose, generator
from pfels.studies.canaries import QuietDraws
from pfels.training.updates import LocalUpdates

MOST_SENT = 2**22  # numbers of other updates that are formed at once
_OTHER_UPDATES, _OTHER_SEED = 4, 5  # the rounds of their addresses
Vector = NDArray[np.float32]


class Told(NamedTuple):
    """What a server is told of a round: the model, and the sum that it receives, or the sum of the uploads."""

    round: int
    theta: Vector
    received: Vector


class Answer(NamedTuple):
    """What a server does with it: digests of its plan and its index set, and its estimate. `failed`: why it could not.
    `noise` is that of another seed in the received sum, and `added` what each device adds of it as it sends it.
    `follows`: the index set is another one for another model."""

    plan: str = ""
    indices: str = ""
    estimate: Vector | None = None
    failed: str = ""
    noise: Vector | None = None
    added: Vector | None = None
    follows: bool = False


@dataclass
class Server:
    """The scheme as it was before the training. It plans with draws that have no noise to tell; `other` are those whose
    noise it hears beside what it is told, if any."""

    experiment: Experiment
    other: Draws | None = None
    memory: Memory = field(default_factory=Memory)
    draws: QuietDraws = field(init=False)

    def __post_init__(self) -> None:
        honest = self.experiment.draws
        self.draws = QuietDraws(honest.setting, honest.seed, honest.device, start=honest.start)

    def answer(self, told: Told) -> Answer:
        """The server's part of a round."""
        try:
            return self._answer(told)
        except Exception as error:  # whatever a scheme misses that only an update could have told it
            return Answer(failed=f"{type(error).__name__}: {error}")

    def _answer(self, told: Told) -> Answer:
        scheme, theta = self.experiment.scheme, torch.from_numpy(told.theta)
        plan = plan_round(scheme, self.draws, told.round)
        A = scheme.indices(self.draws, theta, plan.round)
        said = Answer(digest(plan), digest(A))
        y = torch.from_numpy(told.received)
        if self.other is not None:
            noise, added = self._noise(self.other, plan, A)
            y = y + noise
            follows = digest(scheme.indices(self.draws, -theta.flip(0), plan.round)) != said.indices
            said = said._replace(noise=noise.numpy(), added=added.numpy(), follows=follows)
        self._send_something_else(plan, A)
        return said._replace(estimate=self._estimate(plan, y, A).numpy())

    def _estimate(self, plan: RoundPlan, y: Tensor, A: Tensor | None) -> Tensor:
        scheme, decoded = self.experiment.scheme, None
        if plan.air is not None and plan.air.used_share < 1:
            y = y / plan.air.used_share
        if decodes(scheme):
            y = decoded = scheme.decode(plan, y, self.memory.decoded)
        estimate = scheme.receive(plan, y, A)
        self.memory = self.memory.after(plan, RoundResult(estimate, None, 0, None, decoded=decoded))
        return estimate

    def _noise(self, other: Draws, plan: RoundPlan, A: Tensor | None) -> tuple[Tensor, Tensor]:
        """The noise in a received sum under another seed, and of it what each device adds."""
        scheme, noise = self.experiment.scheme, listen(other, plan, A)
        if not adds_noise(scheme) or not len(plan.training):
            return noise, torch.zeros(0, len(noise))
        devices, width = plan.training.tolist(), len(noise)
        stds = [scheme.noise_std(plan, device) for device in devices]
        pairs = zip(devices, stds, strict=True)
        added = torch.stack([other.device_noise(plan.round, i, width=width, std=std) for i, std in pairs])
        return noise + plan.arriving(added, slice(0, len(added))), added

    def _send_something_else(self, plan: RoundPlan, A: Tensor | None) -> None:
        """The devices send what they never learned: a scheme that keeps updates for its server has kept others then."""
        scheme, setting, count = self.experiment.scheme, self.experiment.setting, len(plan.training)
        rows = max(1, min(count, MOST_SENT // setting.dimension))
        draw = generator(self.draws.seed, Purpose.CANARY, round=_OTHER_UPDATES, device=plan.round)
        drawn = torch.from_numpy(draw.standard_normal((rows, setting.dimension), dtype=np.float32))
        drawn *= 2 * setting.bound / math.sqrt(setting.dimension)
        for start in range(0, count, rows):
            places = slice(start, min(start + rows, count))
            size = places.stop - places.start
            part = LocalUpdates(places, drawn[:size].clone(), np.zeros(size))
            with suppress(Exception):  # what counts is what the server does after it
                if remembers(scheme):
                    scheme.send_and_keep(plan, part, A, Memory(decoded=self.memory.decoded))
                else:
                    scheme.send(plan, part, A)


def digest(value: object) -> str:
    """A short text that differs where a plan or an index set differs in a single bit."""
    hashed = hashlib.sha256()
    _feed(hashed.update, value)
    return hashed.hexdigest()


def _feed(update: Callable[[bytes], None], value: object) -> None:
    if is_dataclass(value):
        for each in fields(value):
            _feed(update, getattr(value, each.name))
    elif isinstance(value, Tensor):
        _feed(update, value.cpu().numpy())
    elif isinstance(value, np.ndarray):
        update(f"{value.dtype} {value.shape}".encode())
        update(np.ascontiguousarray(value).tobytes())
    else:
        update(repr(value).encode())
    update(b";")


@dataclass
class Replay:
    """Both copies, and the first round in which the server's part could not be repeated: `saw` says what differed."""

    same: Forked[Told, Answer]
    other: Forked[Told, Answer]
    exact: bool
    saw: str = ""

    @classmethod
    def of(cls, experiment: Experiment) -> "Replay":
        """Before the first round. Both work on the CPU: a GPU does not outlive a fork, and it rounds otherwise."""
        draws = replace(experiment.draws, device="cpu")
        seed = int(generator(draws.seed, Purpose.CANARY, round=_OTHER_SEED).integers(2**62))
        on_cpu = replace(experiment, draws=draws)
        other = Server(on_cpu, other=replace(draws, seed=seed))
        return cls(Forked(Server(on_cpu).answer), Forked(other.answer), experiment.draws.device == "cpu")

    def tell(self, told: Told, *, quiet: Vector) -> None:
        """Tell both servers of a round: what was received, and what would have been without noise. They work on it
        while the next one is played."""
        self.same.ask(told)
        self.other.ask(told._replace(received=quiet))

    def hear(self, t: int, plan: RoundPlan, A: Tensor | None, estimate: Tensor) -> Answer:
        """Hold what the first made of round t against what the training did, and return what the other made of it."""
        found, other = self.same.answer(), self.other.answer()
        self.differs(t, self._difference(Answer(digest(plan), digest(A), estimate.cpu().numpy()), found))
        return other

    def differs(self, t: int, what: str) -> None:
        """Remember what differed in round t, unless it is nothing, or something differed before."""
        if what and not self.saw:
            self.saw = f"in round {t + 1} {what}"

    def _difference(self, said: Answer, found: Answer) -> str:
        """What a server without the updates did otherwise."""
        if found.failed:
            return f"a server without the updates fails ({shown(found.failed)})"
        if said.plan != found.plan:
            return "who sends, or at what level, depends on more than is public"
        if said.indices != found.indices:
            return "the index set depends on more than is public"
        if not self._alike(said.estimate, found.estimate):
            return "the estimate depends on more than what was received"
        return ""

    def _alike(self, one: Vector | None, other: Vector | None) -> bool:
        if one is None or other is None or one.shape != other.shape:
            return False
        if self.exact:
            return one.tobytes() == other.tobytes()
        return bool(np.allclose(one, other, rtol=1e-5, atol=1e-6 * float(np.abs(one).max(initial=0.0))))

    def close(self) -> None:
        """End both copies."""
        self.same.close()
        self.other.close()
