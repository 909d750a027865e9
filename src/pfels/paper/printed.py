"""Results beside the values that the paper prints."""

from collections.abc import Mapping
from typing import NamedTuple

from pfels.documents.paper import BesidePrinted, LinkCurvePoint, SchemeFigures, SeedSpread
from pfels.paper.benchmarks import Benchmark


class Measured(NamedTuple):
    """What a table of the paper prints of a scheme, as found here, and the test loss; without training neither loss nor
    accuracy."""

    accuracy: SeedSpread | None
    subcarriers: float
    energy: SeedSpread
    loss: SeedSpread | None = None

    @classmethod
    def of(cls, row: SchemeFigures | LinkCurvePoint) -> "Measured":
        """What a row of a table, or the end of a curve, has to be compared."""
        found = cls(row["accuracy"], row["subcarriers"], row["energy"])
        return found._replace(loss=row["loss"]) if "loss" in row else found


def beside_printed(benchmark: Benchmark, found: Mapping[str, Measured], *, same_size: bool) -> dict[str, BesidePrinted]:
    """The printed values of every scheme, the differences to them, and both relative to WFL-P.

    Energy and channel uses can be compared as they are only for the paper's own data and model (`same_size`);
    relative to WFL-P they can be compared at any size.
    """
    wfl_p, printed_wfl_p = found["wfl-p"], benchmark.printed["wfl-p"]
    rows: dict[str, BesidePrinted] = {}
    for name, (accuracy, subcarriers, energy, _) in found.items():
        printed = benchmark.printed[name]
        rows[name] = {
            "paper": {**printed},
            "difference": {
                "accuracy": None if accuracy is None else accuracy["mean"] - printed["accuracy"],
                "subcarriers": subcarriers - printed["subcarriers"] if same_size else None,
                "energy": energy["mean"] / printed["energy"] - 1 if same_size else None,
            },
            "to_wfl_p": {
                "energy": energy["mean"] / wfl_p.energy["mean"],
                "subcarriers": subcarriers / wfl_p.subcarriers,
                "paper_energy": printed["energy"] / printed_wfl_p["energy"],
                "paper_subcarriers": printed["subcarriers"] / printed_wfl_p["subcarriers"],
            },
        }
    return rows
