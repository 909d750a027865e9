"""A run whose devices are on machines of their own: what carries its rounds, and whether its figures hold."""

from dataclasses import dataclass

from pfels.documents.privacy import RunPrivacy
from pfels.documents.run import Environment, RoundRecord
from pfels.privacy.events import Neighbours
from pfels.seeding import Secret

KNOWN_NOISE = (
    'the noise was drawn from the seed (noise = "seed"), which every participant knows, so it hides nothing from them; '
    "with secret noise the figure would hold"
)
KNOWN_COHORTS = (
    "who is drawn follows from the seed, which was given as a number and so can be guessed; with seed = "
    '"secret" the figure would hold'
)


@dataclass(frozen=True)
class Deployment:
    """What carries the rounds, whether the noise is `secret` or that of the `seed`, and the secret seed if the software
    drew one; the config's seed is then its label."""

    carrier: str
    noise: str
    secret: Secret | None = None

    def environment(self) -> Environment:
        """What environment.json says of it."""
        return {"carrier": self.carrier, "noise": self.noise, "seed": "given" if self.secret is None else "secret"}

    def checked_record(self, record: RoundRecord) -> RoundRecord:
        """A round's record, whose figures are not valid where the noise is known; and where the cohorts can be guessed,
        that against an outsider is not."""
        privacy, exact = record["privacy"], record["privacy"]["exact_per_round"]
        if self.noise == "seed":
            for figure in (privacy["claimed"], privacy["server"]):
                if figure is not None:
                    figure["valid"] = False
        if exact is not None and (self.noise == "seed" or self.secret is None):
            exact["valid"] = False
        return record

    def checked_privacy(self, privacy: RunPrivacy) -> RunPrivacy:
        """A run's figures, which are not valid where the noise is known, with the reason; and where the cohorts can be
        guessed, those that count on hidden ones are not."""
        return checked_privacy(privacy, self.environment())


def checked_privacy(privacy: RunPrivacy, about: Environment) -> RunPrivacy:
    """The figures of a deployment with this environment, by the rules of `Deployment.checked_privacy`."""
    if about.get("noise", "seed") == "seed":
        for figure in (privacy["claimed"], privacy["exact_per_round"], privacy["server"], privacy["outsider"]):
            if figure is not None:
                figure["valid"], figure["why"] = False, KNOWN_NOISE
        if privacy["claimed"] is not None:
            privacy["claimed_valid"] = False
        privacy.pop("assumptions", None)  # prices of a figure that does not hold
    elif about.get("seed") != "secret":
        for hidden in (privacy["exact_per_round"], privacy["outsider"]):
            if hidden is not None and hidden["valid"] and hidden["neighbours"] != Neighbours.DEVICE_EMPTIED:
                hidden["valid"], hidden["why"] = False, KNOWN_COHORTS  # in turns nobody is hidden, nor counted on
    return privacy
