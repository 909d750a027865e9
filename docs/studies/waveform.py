"""Is the model of the channel right? One round of the demo as a waveform, beside what the model makes of it.

python docs/studies/waveform.py

Devices train and PFELS forms their signals. These are sent twice. The waveform (`pfels.uplink.waveform`) takes them
through an IFFT, the cyclic prefix, echoes at their exact delays, timing offsets, carrier phases, the receiver's window
and its FFT. The model multiplies each coordinate by one number. The band has 300 subcarriers, 15 kHz apart. The
receiver's window begins as much before a symbol's useful part as devices may be early, at most half the prefix. It
takes a few seconds and writes docs/results/waveform.csv and docs/images/waveform.png.
"""

import argparse
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

from pfels.config.load import load_config
from pfels.experiment.setup import build
from pfels.runtime.csv_files import to_csv
from pfels.runtime.files import write_atomically
from pfels.schemes.memory import Memory
from pfels.schemes.round import local_updates, transmissions
from pfels.uplink import tdl, waveform
from pfels.uplink.effects.amplifier import clip_peaks, peaks_db

SUBCARRIERS, SPACING_HZ, FADE_LIMIT_DB = 300, 15e3, 10.0
GRID = waveform.Grid.of(subcarriers=SUBCARRIERS, spacing_hz=SPACING_HZ)
FINE = waveform.Grid.of(subcarriers=SUBCARRIERS, spacing_hz=SPACING_HZ, oversampling=32)
WITHIN_US = (0.05, 0.2, 1.0, 2.3)
BEYOND_US = (2.5, 3.0, 4.0, 6.0, 10.0, 20.0)
CLIPPING_DB = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)


@dataclass(frozen=True)
class Case:
    """One channel: its echoes, bounds on errors of gain, phase and time, and the level at which amplifiers clip."""

    name: str
    model: str = "flat"
    delay_spread_ns: float = 100.0
    gain_db: float = 0.0
    phase_deg: float = 0.0
    timing_us: float = 0.0
    clipping_db: float | None = None

    @property
    def early(self) -> int:
        """How many samples before the useful part the receiver's window begins."""
        return min(math.ceil(self.timing_us * 1e-6 / GRID.step_s), GRID.prefix // 2)


def spread(count: int, bound: float, *, stream: int) -> np.ndarray:
    """Numbers evenly from −bound to bound, in random order."""
    return np.random.Generator(np.random.Philox(key=(17, stream))).permutation(np.linspace(-bound, bound, count))


def signals(rounds: int) -> tuple[list[np.ndarray], np.ndarray]:
    """β·vᵢ, the signals as the server is to receive them, of each cohort of the first rounds, trained from the initial
    model; and the gains of the first cohort."""
    experiment = build(load_config("demo", {"scheme": "pfels"}), workers=1)
    scheme, draws = experiment.scheme, experiment.draws
    found, first, theta = [], None, draws.start
    for t in range(rounds):
        plan, A = scheme.prepare(draws, t), scheme.indices(draws, theta, t)
        parts = local_updates(experiment.training, draws, theta, t, plan.training)
        sent = [transmissions(scheme, draws, plan, part, A, memory=Memory()).signals.clone() for part, _ in parts]
        x = torch.cat(sent).double().numpy()
        gains = plan.require_air().gains
        first = gains if first is None else first
        found.append(x * np.abs(gains)[:, None])
    return found, first


def play(case: Case, rows: np.ndarray, gains: np.ndarray) -> dict[str, Any]:
    """How far what the waveform delivers is from the ideal sum Σβv, and the model from the waveform; over ‖Σβv‖."""
    (count, width), frequencies = rows.shape, GRID.frequencies_hz
    order = np.random.Generator(np.random.Philox(key=(17, 0))).permutation(SUBCARRIERS)
    order = order if case.clipping_db is None else np.arange(SUBCARRIERS)
    turns = np.deg2rad(spread(count, case.phase_deg, stream=2))
    errors = 10 ** (spread(count, case.gain_db, stream=1) / 20) * np.exp(1j * turns)
    offsets = spread(count, case.timing_us, stream=3) * 1e-6
    delays, shares, selective = _paths(case, count)
    used = np.abs(selective) ** 2 >= 10 ** (-FADE_LIMIT_DB / 10)
    inverse = np.where(used, 1 / (gains[:, None] * selective), 0)

    # The waveform: what each device sends, through the paths of its channel.
    symbols = waveform.to_symbols(rows, order=order) * inverse[:, None, :]
    amplitudes = (gains * errors)[:, None] * shares
    if case.clipping_db is None:
        arriving = waveform.superposed(symbols, GRID, amplitudes=amplitudes, delays_s=delays + offsets[:, None])
        received = waveform.demodulate(arriving, GRID, early=case.early)
    else:
        received = waveform.demodulate(_clipped(symbols, amplitudes, case.clipping_db, width), FINE)
    seen = waveform.from_symbols(received, order=order, width=width).real

    # The model: one number per device and subcarrier.
    carried = rows
    if case.clipping_db is not None:
        kept = clip_peaks(torch.from_numpy(rows), clipping_db=case.clipping_db, subcarriers=SUBCARRIERS)
        carried = kept.numpy()
    factors = used * (errors[:, None] * np.exp(-2j * math.pi * frequencies * offsets[:, None])).real
    columns = factors[:, order][:, np.arange(width) % SUBCARRIERS]
    modelled = (columns * carried).sum(0)

    ideal = rows.sum(0)
    scale = float(np.linalg.norm(ideal))
    return asdict(case) | {
        "off_ideal": float(np.linalg.norm(seen - ideal)) / scale,
        "model_off_waveform": float(np.linalg.norm(modelled - seen)) / scale,
    }


def _paths(case: Case, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Delays in s and complex amplitudes of every device's echoes, and their sum G(f) at the subcarriers."""
    if case.model == "flat":
        return np.zeros((count, 1)), np.ones((count, 1)), np.ones((count, SUBCARRIERS))
    profile, spread_s = tdl.PROFILES[case.model], case.delay_spread_ns * 1e-9
    draw = np.random.Generator(np.random.Philox(key=(17, 4)))
    taps = draw.normal(size=(count, len(profile.delays), 2)).view(np.complex128)[..., 0] / math.sqrt(2)
    selective = tdl.response(taps, profile, GRID.frequencies_hz, delay_spread_s=spread_s)
    return np.tile(np.array(profile.delays) * spread_s, (count, 1)), taps * np.sqrt(profile.powers), selective


def _clipped(symbols: np.ndarray, amplitudes: np.ndarray, clipping_db: float, width: int) -> np.ndarray:
    """What arrives of the devices' samples, each clipped by its amplifier; without echoes, all on time."""
    total = 0
    for own, (gain,) in zip(symbols, amplitudes, strict=True):
        mean = np.sum(np.abs(own) ** 2) / (max(width / SUBCARRIERS, 1.0) * FINE.size)
        limit = math.sqrt(mean * 10 ** (clipping_db / 10))
        total = total + gain * waveform.clip_envelope(waveform.stream(own, FINE), limit=limit)
    return total


def noise_ratio() -> tuple[float, float]:
    """The variance of the noise in I of what the receiver reads, over σ₀², and its standard error."""
    draw = np.random.Generator(np.random.Philox(key=(17, 5)))
    symbols = 200
    noise = waveform.sample_noise(draw, samples=symbols * GRID.length, std=1.0)
    read = waveform.demodulate(noise, GRID, early=GRID.prefix // 2).real
    return float(np.mean(read**2)), math.sqrt(2 / read.size)


def prefix_energy(rows: np.ndarray) -> np.ndarray:
    """The energy of the samples that each device sends, prefix included, over ‖x‖²."""
    symbols = waveform.to_symbols(rows, order=np.arange(SUBCARRIERS))
    sent = [float(np.sum(np.abs(waveform.stream(own, GRID)) ** 2)) for own in symbols]
    return np.array(sent) / np.sum(rows**2, axis=1)


def cases() -> list[Case]:
    """What the table shows, in its order."""
    beyond = [Case(f"timing error ±{us:g} µs, beyond the prefix", timing_us=us) for us in BEYOND_US]
    return [
        Case("flat"),
        Case("tdl-a, 100 ns", "tdl-a"),
        Case("tdl-c, 100 ns", "tdl-c"),
        Case("tdl-c, 300 ns", "tdl-c", 300.0),
        Case("gain error ±1 dB", gain_db=1.0),
        Case("phase error ±30°", phase_deg=30.0),
        *(Case(f"timing error ±{us:g} µs", timing_us=us) for us in WITHIN_US),
        Case("tdl-c, 300 ns, ±1 dB, ±30°, ±1 µs", "tdl-c", 300.0, gain_db=1.0, phase_deg=30.0, timing_us=1.0),
        Case("tdl-c, 300 ns, ±2 µs, beyond the prefix", "tdl-c", 300.0, timing_us=2.0),
        *beyond,
        *(Case(f"clipping {db:g} dB above the mean", clipping_db=db) for db in CLIPPING_DB),
    ]


def draw(rows: list[dict[str, Any]], peaks: dict[str, np.ndarray], path: Path) -> None:
    """Timing errors, clipping, and how often peaks are how high."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    lines = {"off_ideal": ("waveform off the ideal sum", "#555555", "o")}
    lines["model_off_waveform"] = ("model off the waveform", "#c0392b", "s")
    # At the last level no peak of this round is clipped.
    for panel, key, values in ((left, "timing_us", WITHIN_US + BEYOND_US), (middle, "clipping_db", CLIPPING_DB[:-1])):
        mine = [next(row for row in rows if row["model"] == "flat" and row[key] == value) for value in values]
        for what, (label, colour, marker) in lines.items():
            panel.plot(values, [row[what] for row in mine], color=colour, marker=marker, label=label)
        panel.set_yscale("log")
        panel.set_ylabel("difference over the ideal sum")
    half_us = GRID.prefix_s * 1e6 / 2
    left.axvline(half_us, color="#1f6fb4", linestyle=":")
    left.annotate("half the prefix ", (half_us, 1e-9), ha="right", va="center", fontsize=8, color="#1f6fb4")
    left.set(xscale="log", xlabel="timing error, ± µs")
    middle.set_xlabel("clipping level over the mean power, dB")
    for (name, found), colour in zip(peaks.items(), ("#c0392b", "#1f6fb4", "#2c8a4b"), strict=True):
        right.step(np.sort(found), 1 - np.arange(len(found)) / len(found), where="post", color=colour, label=name)
    right.set(
        yscale="log", xlabel="peak over mean power, dB", ylabel="share of symbols above", xlim=(5, 17), ylim=(1e-3, 1.1)
    )
    right.legend(frameon=False, fontsize=8)
    figure.legend(*left.get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=2)
    for panel in (left, middle, right):
        panel.grid(alpha=0.25)
    figure.savefig(path, dpi=160)


def main() -> None:
    """Train, send, print the table, write it and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, default=Path("docs/results/waveform.csv"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/waveform.png"))
    asked = parser.parse_args()
    cohorts, gains = signals(20)
    count, width = cohorts[0].shape
    print(
        f"{count} devices, {width} coordinates in {-(-width // SUBCARRIERS)} OFDM symbols of {SUBCARRIERS} subcarriers"
    )
    print(f"{'':46}{'waveform off':>17}{'model off':>17}\n{'':46}{'the ideal sum':>17}{'the waveform':>17}")
    rows = []
    for case in cases():
        rows.append(play(case, cohorts[0], gains))
        print(f"{case.name:46}{rows[-1]['off_ideal']:17.2e}{rows[-1]['model_off_waveform']:17.1e}")
    ratio, error = noise_ratio()
    print(f"noise variance over σ₀²: {ratio:.4f}, standard error {error:.4f}")
    longer = np.concatenate([prefix_energy(each) for each in cohorts])
    print(f"energy with the prefix over ‖x‖²: mean {longer.mean():.3f}, maximum {longer.max():.3f}")
    normal = torch.from_numpy(np.random.Generator(np.random.Philox(key=(17, 6))).normal(size=(600, 3300)))
    full = width // SUBCARRIERS * SUBCARRIERS  # the last symbol is not
    peaks = {
        "demo, 300 subcarriers": peaks_db(torch.from_numpy(np.vstack(cohorts)[:, :full]), subcarriers=SUBCARRIERS),
        "random numbers, 300": peaks_db(normal[:, :3300], subcarriers=300),
        "random numbers, 3300": peaks_db(normal, subcarriers=3300),
    }
    print(f"{'peak over mean power, dB, exceeded by':46}{'50 %':>7}{'10 %':>7}{'1 %':>7}{'>10 dB':>9}")
    found = {name: each.flatten().numpy() for name, each in peaks.items()}
    for name, each in found.items():
        levels = "".join(f"{np.quantile(each, 1 - share):7.1f}" for share in (0.5, 0.1, 0.01))
        print(f"symbols of {name:35}{levels}{np.mean(each > 10):9.1%}")
    write_atomically(asked.csv, to_csv(rows))
    draw(rows, found, asked.picture)


if __name__ == "__main__":
    main()
