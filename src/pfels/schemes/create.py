"""How each scheme is built for a setting. Its module, and PyTorch with it, is imported when it is needed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pfels.schemes.scheme import Scheme
    from pfels.schemes.setting import Setting


def pfels(setting: "Setting") -> "Scheme":
    """PFELS, with error feedback where it is asked for."""
    from pfels.schemes.pfels import Pfels
    from pfels.schemes.pfels_feedback import PfelsWithFeedback

    return PfelsWithFeedback(setting) if setting.error_feedback else Pfels(setting)


def wfl_p(setting: "Setting") -> "Scheme":
    """WFL-P."""
    from pfels.schemes.wfl_p import WflP

    return WflP(setting)


def wfl_pdp(setting: "Setting") -> "Scheme":
    """WFL-PDP."""
    from pfels.schemes.wfl_pdp import WflPdp

    return WflPdp(setting)


def dp_fedavg(setting: "Setting") -> "Scheme":
    """DP-FedAvg."""
    from pfels.schemes.dp_fedavg import DpFedAvg

    return DpFedAvg(setting)


def fedavg(setting: "Setting") -> "Scheme":
    """FedAvg."""
    from pfels.schemes.fedavg import FedAvg

    return FedAvg(setting)


def pfels_plus(setting: "Setting") -> "Scheme":
    """PFELS+."""
    from pfels.schemes.pfels_plus import create

    return create(setting)


def pfels_echo(setting: "Setting") -> "Scheme":
    """PFELS-echo."""
    from pfels.schemes.pfels_echo import create

    return create(setting)


def liu_simeone(setting: "Setting") -> "Scheme":
    """Adaptive power control."""
    from pfels.schemes.liu_simeone import LiuSimeone

    return LiuSimeone(setting)


def artificial_noise(setting: "Setting") -> "Scheme":
    """Artificial noise."""
    from pfels.schemes.artificial_noise import ArtificialNoise

    return ArtificialNoise(setting)


def truncated_inversion(setting: "Setting") -> "Scheme":
    """Truncated inversion."""
    from pfels.schemes.truncated_inversion import TruncatedInversion

    return TruncatedInversion(setting)
