"""The physical units of a config: joules of a unit of energy, the loss at a gain of 1, seconds of local training."""

from pfels.config.tree import Config
from pfels.data.counts import mean_examples
from pfels.experiment.link import example
from pfels.training.work import training_flops
from pfels.uplink import units
from pfels.uplink.path_loss import path_loss_db


def noise_density_j(config: Config) -> float:
    """N₀ = kTF of the receivers."""
    radio = config.radio
    return units.noise_density_j(temperature_k=radio.temperature_k, noise_figure_db=radio.noise_figure_db)


def reference_loss_db(config: Config) -> float:
    """The loss at a gain of 1: as it is set, or so that the mean gain has the path loss of the scenario."""
    radio, mean = config.radio, config.channel.gain_mean
    if radio.scenario == "none":
        return radio.reference_loss_db
    loss = path_loss_db(radio.scenario, distance_m=radio.distance_m, carrier_ghz=radio.carrier_ghz)
    return loss + units.decibels(mean**2)


def joules_per_energy(config: Config) -> float:
    """What a device radiates for ‖x‖² = 1 in the units of `rounds.jsonl` and `energy`."""
    noise, loss = noise_density_j(config), reference_loss_db(config)
    return units.joules_per_unit(noise_density_j=noise, reference_loss_db=loss) / config.channel.noise_std**2


def training_seconds(config: Config) -> float:
    """Seconds of local training per round and device: as stated, or the work over the device's speed."""
    radio = config.radio
    if radio.compute_s is not None:
        return radio.compute_s
    shape, classes = example(config)
    flops = training_flops(
        config.model.name, shape=shape, classes=classes, hidden=config.model.hidden,
        examples=_mean_examples(config), epochs=config.training.local_epochs,
    )  # fmt: skip
    return flops / (radio.compute_gflops * 1e9)


def _mean_examples(config: Config) -> float:
    data, by_writer = config.data, config.data.partition == "writer"
    if data.name != "file":
        return mean_examples(data.name, devices=data.devices, per_device=data.per_device, by_writer=by_writer)
    from pfels.data import datasets

    own = datasets.load(data.name, data.path, classes=data.classes)
    writers = 0 if own.writers is None else len(set(own.writers.tolist()))
    if by_writer and writers:
        return max(len(own.train) / writers, data.per_device or 1)
    return len(own.train) / data.devices if data.per_device is None else data.per_device
