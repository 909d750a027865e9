"""The tables of the config that belong to schemes of the related work."""

from pydantic import Field

from pfels.schemes.scheme import OwnSettings


class TruncatedInversionSettings(OwnSettings):
    """`private`: whether the claim per round limits the level, as it does in WFL-PDP; a common budget sets it."""

    private: bool = False


class LiuSimeoneSettings(OwnSettings):
    """`contraction`: by which factor one round shrinks the distance to the optimum, and with it earlier noise; 1 splits
    the budget evenly, less gives later rounds more of it."""

    contraction: float = Field(default=0.99, gt=0, le=1)
