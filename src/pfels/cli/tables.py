"""Summaries as rows of a table, and privacy figures as sentences that always say against whom."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pfels.cli.common import number

COMPARE_COLUMNS = ("scheme", "accuracy", "subcarriers", "energy", "airtime", "claimed ε", "server ε")


def compare_rows(table: Mapping[str, Any]) -> list[Sequence[str]]:
    """One row a scheme, as in the paper's tables."""
    return [
        (
            name,
            spread(row["accuracy"], ".3f"),
            f"{row['subcarriers']:,.0f}",
            scientific(row["energy"]),
            f"{row['airtime_s']:,.1f} s",
            _claim(row["privacy"]),
            _short(row["privacy"]["server"]),
        )
        for name, row in table["schemes"].items()
    ]


def compare_notes(table: Mapping[str, Any]) -> list[str]:
    """What the privacy columns mean."""
    rows = list(table["schemes"].values())
    server = rows[0]["privacy"]["server"]
    notes = [
        f"server ε: against the server, over the whole training, for the worst device, at δ = {server['delta']:g}; "
        "neighbours: one device's data emptied. It holds.",
    ]
    claims = [row["privacy"]["claimed"] for row in rows if row["privacy"]["claimed"] is not None]
    if claims:
        notes.append(
            f"claimed ε: the paper's, against the server, for one round, at δ = {server['delta']:g}; neighbours: one "
            "device added or removed. * marks a value outside the range of its proof, "
            f"ε < 2r/N = {claims[0]['valid_below']:g}."
        )
    for name, row in table["schemes"].items():
        outsider = row["privacy"]["outsider"]
        if outsider["epsilon"] is not None:
            notes.append(
                f"{name} against an outsider who sees only the models: ε = {outsider['display']} at δ = "
                f"{outsider['delta']:g}, {outsider['neighbours']} neighbours ({outsider['accountant']})."
            )
    return notes


def run_rows(summary: Mapping[str, Any]) -> list[Sequence[str]]:
    """A finished run, a figure a row."""
    return [
        ("accuracy", number(summary["accuracy"], ".4f")),
        ("test loss", number(summary["loss"], ".4f")),
        ("parameters d", f"{summary['dimension']:,}"),
        ("subcarriers", f"{summary['subcarriers']:,}"),
        ("energy Σ‖x‖²", number(summary["energy"])),
        ("airtime", f"{summary['airtime_s']:,.1f} s"),
        ("least noise multiplier", number(summary["privacy"]["noise_multiplier_min"])),
        ("seconds", number(summary["seconds"], ".1f")),
    ]


def privacy_lines(privacy: Mapping[str, Any]) -> list[str]:
    """Every privacy figure of a run as a sentence."""
    claimed, server, outsider = privacy["claimed"], privacy["server"], privacy["outsider"]
    lines = []
    if claimed is not None:
        verdict = "within" if claimed["valid"] else "outside"
        lines.append(
            f"claimed: ε = {claimed['epsilon']:g} a round at δ = {claimed['delta']:g}, {verdict} the range of the "
            f"paper's proof (ε < {claimed['valid_below']:g})"
        )
    if server["epsilon"] is None:
        lines.append(f"server: no ε ({server['reason']})")
    else:
        lines.append(
            f"server: ε = {server['display']} over the whole training at δ = {server['delta']:g} for the worst device, "
            f"which took part {server['participations']} times; neighbours: one device's data emptied"
        )
    if outsider["epsilon"] is None:
        lines.append(f"outsider: no ε ({outsider['reason']})")
    else:
        lines.append(
            f"outsider: ε = {outsider['display']} over the whole training at δ = {outsider['delta']:g}, "
            f"{outsider['neighbours']} neighbours ({outsider['accountant']})"
        )
    return lines


def scientific(figure: Mapping[str, float] | None, *, digits: int = 1) -> str:
    """Mean ± standard deviation of a large number, with one power of ten for both."""
    if figure is None:
        return "–"
    if figure["mean"] <= 0:
        return "0"
    power = math.floor(math.log10(figure["mean"]))
    return f"({figure['mean'] / 10**power:.{digits}f}±{figure['std'] / 10**power:.{digits}f})e{power}"


def spread(figure: Mapping[str, float] | None, form: str) -> str:
    """Mean ± standard deviation."""
    return "–" if figure is None else f"{number(figure['mean'], form)}±{number(figure['std'], form)}"


def _short(loss: Mapping[str, Any]) -> str:
    if loss["epsilon"] is None:
        return "none"
    return "> 100" if loss["exceeds_100"] else f"{loss['epsilon']:.2f}"


def _claim(privacy: Mapping[str, Any]) -> str:
    claimed = privacy["claimed"]
    return "–" if claimed is None else f"{claimed['epsilon']:g}{'' if claimed['valid'] else '*'}"
