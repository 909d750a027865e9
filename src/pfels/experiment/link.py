"""From a config to the setting and draws of its link, which need no data, no network and no PyTorch."""

import math
from typing import NamedTuple

from pfels.config.tree import Config
from pfels.data import features, users
from pfels.data.catalog import find
from pfels.documents.data import DataNote
from pfels.privacy.calibration import Budget
from pfels.schemes.draws import Draws
from pfels.schemes.registry import is_foreign, load_scheme
from pfels.schemes.scheme import Scheme
from pfels.schemes.setting import Setting
from pfels.training import architectures
from pfels.uplink.frame import Band, Frame


class Example(NamedTuple):
    """The shape of one example, and how many classes there are."""

    shape: tuple[int, ...]
    classes: int


class Link(NamedTuple):
    """The part of an experiment that needs no data: the scheme, and the draws that it plans its rounds with."""

    scheme: Scheme
    draws: Draws

    @property
    def setting(self) -> Setting:
        """The constants of the problem."""
        return self.draws.setting


def example(config: Config) -> Example:
    """What the network sees of an example of this config's data: its features, if the config has any."""
    shape, classes = stored_example(config)
    return Example(features.shape_of(config.data.features, shape), classes)


def stored_example(config: Config) -> Example:
    """What an example of this config's data looks like as stored; a user's own data are read to find out."""
    if config.data.name == "file":
        from pfels.data import datasets

        own = datasets.load(config.data.name, config.data.path, classes=config.data.classes)
        return Example(own.shape, own.classes)
    entry = find(config.data.name)
    return Example(entry.shape, entry.classes)


def data_notes(config: Config) -> list[DataNote]:
    """What a reader of the privacy figures of this config must know about its data."""
    data = config.data
    return users.notes(
        data.name, data.path, partition=data.partition, devices=data.devices, per_device=data.per_device,
        classes=data.classes,
    )  # fmt: skip


def model_dimension(config: Config) -> int:
    """The number d of parameters of this config's network."""
    shape, classes = example(config)
    network = architectures.layers(config.model.name, shape=shape, classes=classes, hidden=config.model.hidden)
    return architectures.dimension(network)


def setting_of(config: Config, *, dimension: int) -> Setting:
    """The constants that a config gives its scheme; d is all that it needs to know of the model."""
    frame = frame_of(config)
    return Setting(
        devices=config.data.devices,
        cohort_size=config.cohort.size,
        sampling=config.sampling,
        rounds=config.rounds,
        dimension=dimension,
        ratio=config.compression.ratio,
        bound=config.training.update_bound,
        epsilon=config.privacy.epsilon,
        delta=config.delta,
        budget=Budget(config.privacy.total_epsilon, config.privacy.adversary),
        cell=config.cell(Band(frame.subcarriers, frame.spacing_hz)),
        mask=config.compression.kind,
        error_feedback=config.compression.error_feedback,
        momentum=config.server.momentum,
        average=config.server.average,
        own=config.own,
        audited=not is_foreign(config.scheme),
    )


def frame_of(config: Config) -> Frame:
    """How this config's coordinates become OFDM symbols."""
    channel, radio = config.channel, config.radio
    spacing = radio.subcarrier_khz * 1000
    subcarriers = channel.subcarriers
    if radio.bandwidth_mhz is not None:
        subcarriers = math.floor(radio.bandwidth_mhz * 1e6 / spacing * (1 + 1e-12))
    if radio.frame == "nr":
        return Frame.nr(subcarriers=subcarriers, spacing_hz=spacing, pilot_symbols=radio.pilot_symbols)
    return Frame.paper(subcarriers=subcarriers, spacing_hz=spacing, slot_s=channel.slot_ms / 1000)


def link_of(config: Config, *, dimension: int | None = None) -> Link:
    """The link of a config: its scheme and its draws, without training. d is worked out where it is not given."""
    setting = setting_of(config, dimension=model_dimension(config) if dimension is None else dimension)
    return Link(load_scheme(config.scheme, setting), Draws(setting, config.seed))
