"""What the training curves of the paper are drawn against: rounds, channel uses and energy."""

from pfels.documents.paper import CurvePoint

CURVE_AXES = {"training": ("round", "subcarriers"), "energy": ("energy",)}  # by kind of figure
LABELS = {"round": "rounds", "subcarriers": "channel uses, in d", "energy": "energy, Σ‖x‖²"}


def used(point: CurvePoint, axis: str) -> float:
    """How far along an axis a point is: what the training has used so far, mean over the seeds."""
    if axis == "energy":
        return point["energy"]["mean"]
    return point["subcarriers"] if axis == "subcarriers" else float(point["round"])


def used_by(point: CurvePoint, axis: str, seed: int) -> float:
    """The same for one seed, by its place among the seeds; rounds and channel uses are the same for all."""
    return point["energy"]["values"][seed] if axis == "energy" else used(point, axis)
