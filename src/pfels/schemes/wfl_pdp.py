"""WFL-PDP: WFL-P held to the privacy limit as well (eq. (37))."""

from pfels.schemes.plan import Air, Link
from pfels.schemes.system import System
from pfels.schemes.wfl_p import indices, receive, send
from pfels.uplink.power import align

__all__ = ["indices", "prepare", "receive", "send"]


def prepare(system: System, t: int) -> Link:
    """Who takes part in round t, and at what level β."""
    cohort = system.cohort(t)
    h, P = system.gains(t, cohort), system.powers(cohort)
    beta, limit = align(h, P, bound=system.bound, share=1.0, privacy_limit=system.privacy_limit)  # eq. (37)
    air = Air(h, P, beta, limit, bound=system.bound, share=1.0)
    return system.air_link(t, cohort, air, width=system.dimension, claimed=True)
