"""From a config to the parts of an experiment: data on devices, a network, the scheme and its draws."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from pfels.config.tree import Config
from pfels.data import datasets, features, partition, synthetic
from pfels.data.partition import Federation
from pfels.data.synthetic import SyntheticFederation
from pfels.documents.data import DataNote
from pfels.errors import InputError
from pfels.experiment.link import data_notes, setting_of
from pfels.runtime.distributed import Ranks
from pfels.runtime.memory import available_memory
from pfels.runtime.threads import OrderedPool
from pfels.schemes.draws import Draws
from pfels.schemes.registry import load_scheme
from pfels.schemes.release import require_sound
from pfels.schemes.scheme import Scheme, decodes
from pfels.schemes.setting import Setting
from pfels.seeding import Purpose, Seed, generator
from pfels.training import networks, precision
from pfels.training.local import LocalTraining, resolve
from pfels.training.networks import Network

# At the peak of a run: the start, models, and a device's gradient, velocity and update, in float32. Measured: 42 to 62.
BYTES_PER_PARAMETER = 40


@dataclass(frozen=True)
class Experiment:
    """A config made real: data on devices, a network and how it is trained, the scheme, its draws, and the ranks that
    share the run."""

    config: Config
    federation: Federation
    network: Network
    training: LocalTraining
    scheme: Scheme
    draws: Draws
    ranks: Ranks
    data_notes: Sequence[DataNote] = ()  # what a reader of its privacy figures must know about the data

    @property
    def setting(self) -> Setting:
        """The constants of the problem."""
        return self.draws.setting


def build(
    config: Config,
    *,
    workers: int | None = None,
    engine: str | None = None,
    ranks: Ranks | None = None,
    federation: Federation | None = None,
    seed: Seed | None = None,
) -> Experiment:
    """Everything a run needs, built from its config; wrong data are found here, before anything is written.

    `engine` is the one that a run was begun with, if it was; otherwise the config says which. `ranks` are the
    processes that share the run. `federation` replaces the config's, where a machine has data of its own. `seed`
    replaces the config's, where that is the label of a secret one.
    """
    seed = config.seed if seed is None else seed
    if config.run.device != "cpu" and not torch.cuda.is_available():
        raise InputError(f"run.device = {config.run.device!r}: no CUDA device here; use cpu")
    ranks = Ranks(device=config.run.device) if ranks is None else ranks
    notes = data_notes(config) if federation is None else []
    federation = federate(config, seed) if federation is None else federation
    model, training = config.model, config.training
    network = networks.build(model.name, shape=federation.shape, classes=federation.classes, hidden=model.hidden)
    require_fitting(config, network.dimension)
    local = LocalTraining(
        network, federation, learning_rate=training.learning_rate, epochs=training.local_epochs,
        batch_size=training.batch_size, momentum=training.momentum,
        engine=engine or resolve(config.run.engine, network),
        pool=OrderedPool(config.run.workers or workers or ranks.cores),
        factors=precision.factors(config.run.precision, device=config.run.device),
    )  # fmt: skip
    start = network.initial(generator(seed, Purpose.MODEL))
    setting = setting_of(config, dimension=network.dimension)
    draws = Draws(setting, seed, device=ranks.device, start=start)
    scheme = load_scheme(config.scheme, setting)
    require_sound(scheme, draws, start)  # what the scheme itself refuses, such as a δ too large, shows here too
    return Experiment(config, federation, network, local, scheme, draws, ranks, notes)


def require_fitting(config: Config, dimension: int, *, runs: int = 1) -> None:
    """An InputError if a network cannot be trained in the memory that is free, `runs` times at once: whatever the
    scheme, the engine and the cohort are."""
    free, needed = available_memory() if config.run.device == "cpu" else None, BYTES_PER_PARAMETER * dimension * runs
    if free is not None and needed > free:
        model = config.model
        key, value = ("hidden", model.hidden) if model.name in ("mlp", "cnn") else ("name", model.name)
        several = f", in each of {runs} runs at once," if runs > 1 else ""
        raise InputError(
            f"model.{key} = {value!r}: the training of {dimension:,} parameters{several} takes at least "
            f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; choose a smaller network"
            f"{' or fewer jobs' if several else ''}"
        )


def require_memory(experiment: Experiment, *, copies: int) -> None:
    """An InputError if what devices keep to repeat it does not fit in memory `copies` times, with the number of bands
    that would fit. A checkpoint copies it twice."""
    if not decodes(experiment.scheme):
        return
    echo, free = experiment.scheme.echo_plan(), available_memory()
    needed = echo["memory_bytes"] * copies
    if free is not None and needed > free:
        per_band = needed // (echo["bands"] - 1)
        raise InputError(
            f"{experiment.config.scheme}.bands = {echo['bands']}: what devices repeat would take "
            f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; at most {1 + free // per_band} bands fit"
        )


def federate(config: Config, seed: Seed | None = None) -> Federation:
    """The devices of a config and their examples, as the config's seed or another one spreads them."""
    data, seed = config.data, config.seed if seed is None else seed
    if data.name == "synthetic":
        features.shape_of(data.features, (synthetic.FEATURES,))  # refused, since these are not images
        return SyntheticFederation(
            seed=seed, devices=data.devices, per_device=data.per_device,
            alpha=data.alpha, beta=data.beta, iid=data.partition == "iid",
        )  # fmt: skip
    dataset = features.extract(datasets.load(data.name, data.path, classes=data.classes), data.features)
    return partition.split(
        dataset, generator(seed, Purpose.PARTITION), kind=data.partition,
        devices=data.devices, per_device=data.per_device, alpha=data.alpha,
    )  # fmt: skip
