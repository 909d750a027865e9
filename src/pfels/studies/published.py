"""Figures that are published with all their inputs (published.json), and how each is computed anew."""

import hashlib
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from pfels.config.load import validate
from pfels.config.tree import Config
from pfels.documents.validate import validated
from pfels.documents.verify import Published
from pfels.experiment.forecast import forecast_run
from pfels.experiment.loop import run
from pfels.privacy import claim
from pfels.privacy.accountant import exact_per_round, outsider_loss, server_loss
from pfels.privacy.calibration import calibrate
from pfels.privacy.events import Adversary, Sampling, noise_multiplier_at
from pfels.privacy.gaussian import gaussian_mu, mu_squared
from pfels.runtime.lazy_torch import torch
from pfels.training.products import linear
from pfels.uplink.power import align, expected_energy

FILES = ("rounds.jsonl", "checkpoint.safetensors")  # of a run: the same to the bit where the arithmetic is


def published() -> Published:
    """The published figures, as they ship with the package."""
    content = resources.files("pfels.studies").joinpath("published.json").read_bytes()
    return validated(Published, content, "pfels/studies/published.json")


def figure(kind: str, inputs: Mapping[str, Any]) -> float:
    """A figure of one kind, computed from its inputs."""
    return KINDS[kind](**inputs)


def _exact_of_claim(*, claimed_epsilon: float, delta: float, devices: int, cohort: int) -> float:
    z = claim.claimed_noise_multiplier(epsilon=claimed_epsilon, delta=delta, devices=devices, cohort=cohort)
    return exact_per_round(noise_multiplier=z, delta=delta, devices=devices, cohort=cohort)


def _known(value: float | None) -> float:
    return math.nan if value is None else value  # not equal to any published value


def _server(*, noise_multiplier: float, participations: int, delta: float) -> float:
    mu2 = mu_squared(noise_multiplier, times=participations)
    return _known(server_loss(mu_squared=mu2, participations=participations, delta=delta).epsilon)


def _at_another_delta(*, epsilon: float, delta: float, other_delta: float) -> float:
    mu2 = gaussian_mu(epsilon=epsilon, delta=delta) ** 2
    return _known(server_loss(mu_squared=mu2, participations=0, delta=other_delta).epsilon)


def _outsider(
    sampling: Sampling, *, noise_multiplier: float, rounds: int, devices: int, cohort: int, delta: float
) -> float:
    loss = outsider_loss({noise_multiplier: rounds}, devices=devices, cohort=cohort, sampling=sampling, delta=delta)
    return _known(loss.epsilon)


def _noise(adversary: Adversary, sampling: Sampling, **inputs: Any) -> float:
    return calibrate(adversary=adversary, sampling=sampling, **inputs).noise_multiplier


def _beta(
    *, gains: Sequence[float], powers: Sequence[float], bound: float, share: float, noise_std: float,
    epsilon: float, delta: float, devices: int, cohort: int,
) -> float:  # fmt: skip
    c2 = claim.c2(bound=bound, noise_std=noise_std, delta=delta, devices=devices, cohort=cohort)
    return align(np.array(gains), np.array(powers), bound=bound, share=share, privacy_limit=epsilon / c2).beta


def _round_energy(**round_: Any) -> float:
    energies = expected_energy(
        np.array(round_["gains"]), beta=_beta(**round_), bound=round_["bound"], share=round_["share"]
    )
    return math.fsum(energies)


def _round_noise(**round_: Any) -> float:
    return noise_multiplier_at(beta=_beta(**round_), bound=round_["bound"], noise_std=round_["noise_std"])


def training_energies(*, config: Mapping[str, Any], seeds: Sequence[int]) -> list[float]:
    """The expected energy of a whole training with every update at its norm bound, for each seed."""
    return [_known(forecast_run(flat_config({**config, "seed": seed}))[1].energy_bound) for seed in seeds]


def _training_energy(**inputs: Any) -> float:
    return statistics.fmean(training_energies(**inputs))


KINDS: dict[str, Callable[..., float]] = {
    "claimed-noise-multiplier": claim.claimed_noise_multiplier,
    "exact-per-round": _exact_of_claim,
    "server-epsilon": _server,
    "server-epsilon-at-another-delta": _at_another_delta,
    "outsider-epsilon-poisson": partial(_outsider, Sampling.POISSON),
    "outsider-epsilon-fixed-size": partial(_outsider, Sampling.WITHOUT_REPLACEMENT),
    "noise-for-server": partial(_noise, Adversary.SERVER, Sampling.POISSON),
    "noise-for-outsider-poisson": partial(_noise, Adversary.OUTSIDER, Sampling.POISSON),
    "level": _beta,
    "noise-of-round": _round_noise,
    "energy-of-round": _round_energy,
    "energy-of-training": _training_energy,
}


def flat_config(settings: Mapping[str, Any]) -> Config:
    """The config with these settings, given as `table.key`; all others have their defaults."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        table, _, leaf = key.rpartition(".")
        (tree.setdefault(table, {}) if table else tree)[leaf] = value
    return validate(tree)


def run_figures(config: Config, folder: Path) -> tuple[dict[str, float | None], dict[str, str]]:
    """Train: the figures of a run, and the hashes of its log and checkpoint."""
    result = run(config, folder)
    summary = result.summary
    figures = {
        "accuracy": summary["accuracy"],
        "loss": summary["loss"],
        "energy": summary["energy"],
        "channel uses": summary["subcarriers"],
        "server ε": summary["privacy"]["server"]["epsilon"],
        "norm of the model": float(torch.linalg.vector_norm(result.parameters.double())),
    }
    return figures, {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def arithmetic() -> str:
    """A hash of a few computations: hashes of results can be compared only between machines where it is the same."""
    draw = np.random.Generator(np.random.Philox(key=7))
    a = torch.from_numpy(draw.standard_normal((300, 300), dtype=np.float32))
    b = draw.standard_normal(4096)
    parts = [(a @ a).numpy(), torch.softmax(a, 1).numpy(), np.exp(b), np.cos(b), np.log(np.abs(b)), a[:8] @ a[:8].T]
    parts += [linear(a[:280, :64].contiguous(), a[:64, :32].contiguous(), a[0, :32].contiguous()).numpy()]
    parts += [torch.log_softmax(a[:20].view(20, 10, 30), 1).numpy()]
    parts += [np.array([b[:n] @ b[n : 2 * n] for n in range(1, 99)])]  # OpenBLAS has kernels of its own by processor
    digest = hashlib.sha256(f"{torch.__version__} {np.__version__} {scipy.__version__}".encode())
    for part in parts:
        digest.update(np.asarray(part).tobytes())
    return digest.hexdigest()[:16]
