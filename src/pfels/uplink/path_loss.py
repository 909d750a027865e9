"""Path loss by distance: 3GPP TR 38.901, table 7.4.1-1, urban micro (street canyon) and urban macro.

No shadow fading and no loss into buildings: the gains of the channel vary by themselves.
"""

import math
from dataclasses import dataclass

LIGHT_M_S = 3.0e8  # the report's own value (note 1 of the table)
DEVICE_M = 1.5  # height of a device's antenna
ENVIRONMENT_M = 1.0  # effective height of the environment; for urban macro too, with devices below 13 m


@dataclass(frozen=True)
class Urban:
    """The coefficients of a scenario: loss = start + slope·log₁₀(d₃D) + 20·log₁₀(f) in line of sight.

    Beyond the breakpoint the slope is 40, and `bend` joins the two. `nlos` has the same three for no line of sight:
    start, slope, and the factor of log₁₀(f).
    """

    server_m: float
    start: float
    slope: float
    bend: float
    nlos: tuple[float, float, float]


SCENARIOS = {
    "umi": Urban(10.0, 32.4, 21.0, 9.5, (22.4, 35.3, 21.3)),
    "uma": Urban(25.0, 28.0, 22.0, 9.0, (13.54, 39.08, 20.0)),
}


def path_loss_db(scenario: str, *, distance_m: float, carrier_ghz: float) -> float:
    """The loss in dB at this distance on the ground; `scenario` is umi-los, umi-nlos, uma-los or uma-nlos.

    >>> round(path_loss_db("umi-los", distance_m=100.0, carrier_ghz=3.5), 1)
    85.3
    """
    place, sight = scenario.split("-")
    urban = SCENARIOS[place]
    apart = math.hypot(distance_m, urban.server_m - DEVICE_M)
    clear = _line_of_sight(urban, distance_m, apart, carrier_ghz)
    if sight == "los":
        return clear
    start, slope, frequency = urban.nlos
    return max(clear, start + slope * math.log10(apart) + frequency * math.log10(carrier_ghz))


def breakpoint_m(urban: Urban, *, carrier_ghz: float) -> float:
    """The distance at which the reflection from the ground begins to cancel the direct wave."""
    return 4 * (urban.server_m - ENVIRONMENT_M) * (DEVICE_M - ENVIRONMENT_M) * carrier_ghz * 1e9 / LIGHT_M_S


def _line_of_sight(urban: Urban, distance_m: float, apart: float, carrier_ghz: float) -> float:
    frequency, bend_m = 20 * math.log10(carrier_ghz), breakpoint_m(urban, carrier_ghz=carrier_ghz)
    if distance_m <= bend_m:
        return urban.start + urban.slope * math.log10(apart) + frequency
    bend = urban.bend * math.log10(bend_m**2 + (urban.server_m - DEVICE_M) ** 2)
    return urban.start + 40 * math.log10(apart) + frequency - bend
