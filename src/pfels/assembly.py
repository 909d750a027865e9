"""From a config to the parts of an experiment: data on devices, a network, and the system the scheme runs on."""

import os
from dataclasses import dataclass

import torch

from pfels import datasets, models, partition
from pfels.config import Config
from pfels.datasets import Dataset
from pfels.engines import resolve
from pfels.errors import InputError
from pfels.models import Network
from pfels.privacy import Sampling
from pfels.schemes import Scheme, load_scheme
from pfels.seeding import Purpose, generator
from pfels.system import GainLaw, SnrLaw, System
from pfels.training import LocalTraining
from pfels.workers import Crew


@dataclass(frozen=True)
class Experiment:
    """A config made real: data on devices, a network and how it is trained, and the system that the scheme runs on."""

    config: Config
    dataset: Dataset
    network: Network
    training: LocalTraining
    system: System
    scheme: Scheme


def build(config: Config, *, workers: int | None = None, engine: str | None = None) -> Experiment:
    """Everything a run needs, built from its config; wrong data are found here, before anything is written.

    `engine` is the one that a run was begun with, if it was; otherwise the config says which.
    """
    if config.run.device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"run.device = {config.run.device!r}: no CUDA device here; use cpu")
    data, training = config.data, config.training
    dataset = datasets.load(data.name, data.path)
    federation = partition.split(
        dataset, generator(config.seed, Purpose.PARTITION), kind=data.partition,
        devices=data.devices, per_device=data.per_device, alpha=data.alpha,
    )  # fmt: skip
    network = models.build(config.model.name, shape=dataset.shape, classes=dataset.classes, hidden=config.model.hidden)
    local = LocalTraining(
        network, federation, learning_rate=training.learning_rate, epochs=training.local_epochs,
        batch_size=training.batch_size, momentum=training.momentum,
        engine=engine or resolve(config.run.engine, network),
        crew=Crew(config.run.workers or workers or len(os.sched_getaffinity(0))),
    )  # fmt: skip
    system = link_system(config, dimension=network.dimension, training=local)
    return Experiment(config, dataset, network, local, system, load_scheme(config.scheme))


def link_system(config: Config, *, dimension: int, training: LocalTraining | None = None) -> System:
    """The system of a config; without `training`, the link alone, for which d is all one needs to know of the model."""
    channel = config.channel
    return System(
        seed=config.seed,
        devices=config.data.devices,
        cohort_size=config.cohort.size,
        sampling=Sampling(config.cohort.sampling),
        dimension=dimension,
        ratio=config.compression.ratio,
        bound=config.training.update_bound,
        epsilon=config.privacy.epsilon,
        delta=config.delta,
        noise_std=channel.noise_std,
        gain_law=GainLaw(channel.gain_mean, channel.gain_min, channel.gain_max),
        snr_law=SnrLaw(channel.snr_min_db, channel.snr_max_db, channel.snr_scale),
        training=training,
    )
