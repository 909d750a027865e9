"""The checks of every round of an audited training: of its noise, and of the server's part of it."""

from dataclasses import dataclass

import torch

from pfels.schemes.scheme import Scheme
from pfels.studies.audited_noise import AuditedNoise, Played
from pfels.studies.server_replay import Replay, Told


@dataclass
class RoundChecks:
    """Both checks. The servers of the replay work on a round while the next one is played, so the `last` one waits.
    `scheme` is that of the play without noise."""

    scheme: Scheme
    noise: AuditedNoise
    replay: Replay
    rounds: int = 0
    last: Played | None = None

    def add(self, played: Played) -> None:
        """One more round."""
        self.settle()
        heard, quiet = played.noisy.received, played.quiet.received
        assert heard is not None
        assert quiet is not None
        told = Told(played.round, played.theta.cpu().numpy(), heard.cpu().numpy())
        self.replay.tell(told, quiet=quiet.cpu().numpy())
        if not torch.equal(played.theta, played.after):
            self.replay.differs(played.round, "the model is changed in other ways than by the estimate")
        self.last, self.rounds = played, self.rounds + 1

    def settle(self) -> None:
        """Check the last round."""
        if self.last is None:
            return
        played, self.last = self.last, None
        other = self.replay.hear(played.round, played.plan, played.indices, played.estimate)
        if not self.noise.add(played, self.scheme, other):
            self.replay.differs(played.round, "who sends, or what, differs from play to play")
