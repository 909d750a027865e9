"""From a config to the system of its link, which needs no data, no network and no PyTorch."""

from typing import TYPE_CHECKING, NamedTuple

from pfels.config.tree import Config
from pfels.data.catalog import find
from pfels.privacy.calibration import Budget
from pfels.privacy.events import Adversary, Sampling
from pfels.runtime.distributed import Ranks
from pfels.runtime.lazy_torch import Tensor
from pfels.schemes.registry import POISSON_ONLY
from pfels.schemes.system import System
from pfels.training import architectures
from pfels.uplink.channel import GainLaw, SnrLaw

if TYPE_CHECKING:
    from pfels.training.local import LocalTraining


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


class Example(NamedTuple):
    """The shape of one example, and how many classes there are."""

    shape: tuple[int, ...]
    classes: int


def example(config: Config) -> Example:
    """What an example of this config's data looks like; a user's own data are read to find out."""
    if config.data.name == "file":
        from pfels.data import datasets

        own = datasets.load(config.data.name, config.data.path)
        return Example(own.shape, own.classes)
    entry = find(config.data.name)
    return Example(entry.shape, entry.classes)


def dimension(config: Config) -> int:
    """The number d of parameters of this config's network."""
    shape, classes = example(config)
    network = architectures.layers(config.model.name, shape=shape, classes=classes, hidden=config.model.hidden)
    return architectures.dimension(network)
