"""The table `[pfels-echo]` of the config."""

from typing import Literal

from pydantic import Field

from pfels.schemes.scheme import OwnSettings


class EchoSettings(OwnSettings):
    """`bands`: in how many rounds a device sends what it learned at a turn; 0: in as many as fit before its next turn.
    `weights`: with which weights, those of the square-root factorisation, or those that minimise the noise in the
    models of this training."""

    bands: int = Field(default=0, ge=0, le=10**9)
    weights: Literal["square-root", "optimised"] = "square-root"
