"""From a config to the system of its link, which needs no data, no network and no PyTorch."""

from typing import TYPE_CHECKING

from pfels.config import Config
from pfels.privacy import Adversary, Sampling
from pfels.ranks import Ranks
from pfels.schemes import POISSON_ONLY
from pfels.system import Budget, GainLaw, SnrLaw, System
from pfels.torch_later import Tensor

if TYPE_CHECKING:
    from pfels.training import LocalTraining


def link_system(
    config: Config,
    *,
    dimension: int,
    training: "LocalTraining | None" = None,
    start: Tensor | None = None,
    ranks: Ranks | None = None,
) -> System:
    """The system of a config; without `training`, the link alone, for which d is all one needs to know of the model."""
    channel = config.channel
    return System(
        seed=config.seed,
        devices=config.data.devices,
        cohort_size=config.cohort.size,
        sampling=Sampling("poisson" if config.scheme in POISSON_ONLY else config.cohort.sampling),
        dimension=dimension,
        ratio=config.compression.ratio,
        bound=config.training.update_bound,
        epsilon=config.privacy.epsilon,
        delta=config.delta,
        noise_std=channel.noise_std,
        gain_law=GainLaw(channel.gain_mean, channel.gain_min, channel.gain_max),
        silent_below=channel.silent_below,
        snr_law=SnrLaw(channel.snr_min_db, channel.snr_max_db, channel.snr_scale),
        budget=Budget(config.privacy.total_epsilon, Adversary(config.privacy.adversary), config.rounds),
        mask=config.compression.kind,
        error_feedback=config.compression.error_feedback,
        start=start,
        training=training,
        ranks=Ranks() if ranks is None else ranks,
    )
