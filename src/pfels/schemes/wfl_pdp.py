"""WFL-PDP: WFL-P held to the privacy limit as well (eq. (37))."""

from dataclasses import dataclass

from pfels.schemes.draws import Draws
from pfels.schemes.plan import RoundPlan
from pfels.schemes.wfl_p import WflP, whole_updates


@dataclass(frozen=True)
class WflPdp(WflP):
    """Whole updates over the air, limited by power and by the claim per round; sends and receives as WFL-P."""

    def prepare(self, draws: Draws, t: int) -> RoundPlan:
        """Who takes part in round t, and at what level β."""
        limit = self.setting.privacy_limit
        return whole_updates(self.setting, draws, t, privacy_limit=limit, claimed=True)  # eq. (37)
