"""Every privacy figure of a config, without training."""

from pfels.config.load import require_config
from pfels.config.tree import Config
from pfels.documents.privacy import PresetPrivacy
from pfels.experiment.forecast import forecast_run


def privacy_figures(config: Config) -> PresetPrivacy:
    """The privacy figures that a run of this config will end with: its cohorts and channels are drawn, nobody trains.

    >>> import pfels
    >>> figures = pfels.privacy_figures(pfels.load_config("demo", {"rounds": 5}))
    >>> figures["server"]["adversary"], figures["server"]["neighbours"], figures["server"]["delta"]
    ('server', 'device-emptied', 0.01)
    """
    require_config(config)
    setting, ledger = forecast_run(config)
    figures = ledger.privacy(setting)
    return {**figures, "noise_multiplier": figures["noise_multiplier_min"]}
