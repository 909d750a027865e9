"""`pfels plan` on a terminal: small tables with one row per scheme, each with its notes, within 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pfels.privacy.events import rounded_up
from pfels.report.plan_notes import drowned, echo_notes, privacy_notes, show_theory
from pfels.report.terminal import marked, number, print_notes, print_table
from pfels.report.text import at_most, claimed_epsilon, duration, epsilon, joules, listed, short

if TYPE_CHECKING:
    from pfels.documents.privacy import ExplainedFigure
    from pfels.documents.radio import DigitalCase, Joules, RadioUnits
    from pfels.documents.studies import Plan, SchemePlan

Cells = Callable[["SchemePlan"], Sequence[str]]
LEVELS = ("β min", "median", "max", "privacy-limited", "z min", "median")
NOISE = ("round", "sum", "per coordinate", "Σ‖x‖²", "channel uses")
RADIO = ("mean dBm", "99 %", "peak", "uploads", "broadcasts", "battery")
JOULES = ("radiated", "amplifier", "circuit", "compute", "total")
PRIVACY = ("ε claimed", "ε exact", "ε server", "ε outsider")
CASES = {
    "without_weakest": "without the slowest tenth",
    "at_23_dbm": "at up to 23 dBm",
    "at_23_dbm_without_weakest": "both",
}


def show_plan(planned: Plan, name: str, budget_notes: Sequence[str]) -> None:
    """The link budget in words and tables."""
    print_notes(
        [
            f"{name}: d = {planned['dimension']:,}, k = {planned['kept']:,}, T = {planned['rounds']}, "
            f"r = {planned['cohort']} of N = {planned['devices']}, seed {planned['seed']}"
        ],
        style="bold",
    )
    print_notes(budget_notes)
    _table(planned, "Levels", LEVELS, _levels)
    print_notes(["z: the noise's standard deviation over β and the norm bound of an update."])
    _table(planned, "Noise over signal, and the channel", NOISE, _noise)
    print_notes(
        [
            *drowned(planned),
            "Round: norm of the noise in the server's estimate over ητC₁, median. Sum: in the sum of all estimates, "
            "over the largest possible signal T·p·ητC₁; with real updates it is higher. Energy Σ‖x‖²: with every "
            "update at its norm bound.",
            *echo_notes(planned),
        ]
    )
    _show_radio(planned)
    _table(planned, "Privacy", PRIVACY, _privacy)
    print_notes(privacy_notes(planned))
    show_theory(planned["theory"])


def _table(planned: Plan, title: str, columns: Sequence[str], cells: Cells) -> None:
    rows = [(marked(name, row), *cells(row)) for name, row in planned["schemes"].items()]
    print_notes([""])
    print_table(("", *columns), rows, title=title)


def _levels(row: SchemePlan) -> Sequence[str]:
    beta, limits = row["beta"], row["limits"]
    return (
        number(beta and beta["min"]),
        number(beta and beta["median"]),
        number(beta and beta["max"]),
        f"{limits.get('privacy', 0.0):.0%}" if limits else "–",
        at_most(row["noise_multiplier_min"]),
        at_most(row["noise_multiplier_median"]),
    )


def _noise(row: SchemePlan) -> Sequence[str]:
    ratios = (row["noise_ratio_round"], row["noise_ratio_sum"], row["noise_ratio_coordinate"])
    return (
        *["–" if ratio is None else short(ratio, ".3g") for ratio in ratios],
        "–" if row["energy"] is None else short(row["energy"], ".2e"),
        f"{row['subcarriers']:,}",
    )


def _show_radio(planned: Plan) -> None:
    units, rows = planned["radio"], planned["schemes"]
    _table(planned, "Radio: transmit power, total time, share of a battery", RADIO, _radio)
    print_notes(_units(units))
    _table(planned, "Energy per device and round", JOULES, lambda row: _joules(row["radio"]["per_round_j"]))
    _table(planned, "Energy of the whole training, all devices", JOULES, lambda row: _joules(row["radio"]["energy_j"]))
    digital = [name for name, row in rows.items() if row["radio"]["link"] == "digital"]
    if digital:
        _show_digital(planned, digital)
    print_notes(
        [
            f"Power: averaged over the slots of a transmission; peak: {units['peak_to_average_db']:g} dB above the "
            "maximum. Total: amplifier, circuit and compute; radiated is part of what the amplifier draws. Battery: of "
            f"{units['battery_wh']:g} Wh, a device that takes part, whole training (docs/radio.md)."
        ]
    )


def _units(units: RadioUnits) -> list[str]:
    source = {"stated": "as stated", "flops": "from its FLOPs", "measured": "measured here"}[units["compute_from"]]
    return [
        f"{units['bandwidth_hz'] / 1e6:g} MHz at {units['carrier_ghz']:g} GHz, {units['frame']} frames: "
        f"{units['slot_coordinates']:,} coordinates in {units['slot_s'] * 1000:g} ms. Loss {units['mean_loss_db']:.1f} "
        f"dB at the mean gain. σ₀² = {short(units['noise_j'])} J. Local training: {duration(units['compute_s'])} per "
        f"round ({source}).",
    ]


def _radio(row: SchemePlan) -> Sequence[str]:
    radio, power = row["radio"], row["radio"]["tx_power_dbm"]
    share = radio["battery_share"]
    return (
        number(power and power["mean"], ".1f"),
        number(power and power["p99"], ".1f"),
        number(power and power["peak"], ".1f"),
        duration(radio["airtime_s"]),
        duration(radio["downlink_s"]),
        "–" if share is None else f"{short(100 * share)} %",
    )


def _joules(spent: Joules) -> Sequence[str]:
    return [joules(spent[key]) for key in ("radiated", "amplifier", "circuit", "compute", "total")]


def _show_digital(planned: Plan, names: Sequence[str]) -> None:
    """The digital links under other assumptions; schemes with the same figures share their rows."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(str(planned["schemes"][name]["radio"]), []).append(name)
    rows = []
    for alike in groups.values():
        radio = planned["schemes"][alike[0]]["radio"]
        mean = radio["tx_power_dbm"] and radio["tx_power_dbm"]["mean"]
        as_is: DigitalCase = {
            "airtime_s": radio["airtime_s"], "total_j": radio["energy_j"]["total"], "mean_dbm": mean
        }  # fmt: skip
        cases = {listed(alike): as_is, **{CASES[key]: case for key, case in radio["alternatives"].items()}}
        rows += [
            (label, number(case["mean_dbm"], ".1f"), duration(case["airtime_s"]), joules(case["total_j"]))
            for label, case in cases.items()
        ]
    units = planned["radio"]
    print_notes([""])
    print_table(("", "mean dBm", "uploads", "total"), rows, title="Digital links under other assumptions")
    print_notes(
        [
            f"Digital: {units['upload_bits']} bits per coordinate at a Shannon gap of {units['shannon_gap_db']:g} dB, "
            "one device after the other on the whole band, at the power that costs the least energy, up to what "
            "devices may use per resource element over the air."
        ]
    )


def _privacy(row: SchemePlan) -> Sequence[str]:
    privacy = row["privacy"]
    return (
        claimed_epsilon(privacy["claimed"]),
        _epsilon(privacy["exact_per_round"]),
        epsilon(privacy["server"]),
        epsilon(privacy["outsider"]),
    )


def _epsilon(figure: ExplainedFigure | None) -> str:
    if figure is None or figure["epsilon"] is None:
        return "none"
    return f"{short(rounded_up(figure['epsilon'], digits=3), '.3g')}{'' if figure['valid'] else '*'}"
