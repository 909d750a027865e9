"""Every privacy figure of a config, without training."""

from pfels.config.load import require_config
from pfels.config.tree import Config
from pfels.documents.privacy import EverySeed, PresetPrivacy
from pfels.errors import InputError
from pfels.experiment.assumptions import with_assumptions, with_data_notes
from pfels.experiment.forecast import forecast_run
from pfels.experiment.link import data_notes, link_of
from pfels.privacy.calibration import Budget, RequiredNoise
from pfels.privacy.events import Adversary, Sampling, turns_per_device
from pfels.privacy.gaussian import gaussian_epsilon, mu_squared
from pfels.schemes.registry import scheme_entry
from pfels.schemes.scheme import CalibratesItself
from pfels.schemes.setting import Setting
from pfels.studies.budget import required_noise


def privacy_figures(config: Config) -> PresetPrivacy:
    """The privacy figures that a run of this config will end with: its cohorts and channels are drawn, nobody trains.

    >>> import pfels
    >>> figures = pfels.privacy_figures(pfels.load_config("demo", {"rounds": 5}))
    >>> figures["server"]["adversary"], figures["server"]["neighbours"], figures["server"]["delta"]
    ('server', 'device-emptied', 0.01)
    """
    require_config(config)
    setting, ledger = forecast_run(config)
    figures = with_assumptions(
        ledger.privacy(setting), ledger.server, link_of(config), rounds=config.rounds, over_air=True
    )
    figures = with_data_notes(figures, data_notes(config), ledger.server, delta=setting.delta)
    return {
        **figures,
        "noise_multiplier": figures["noise_multiplier_min"],
        "seed": config.seed,
        "every_seed": every_seed(config),
    }


def every_seed(config: Config) -> EverySeed:
    """What holds against the server whatever the seed draws: for a device that is drawn as often as it can be, in
    rounds with as little noise as there can be."""
    link = link_of(config)
    setting = link.setting
    if isinstance(link.scheme, CalibratesItself) and setting.budget.adversary is Adversary.SERVER:
        loss = link.scheme.required_noise().loss
        return {
            "epsilon": loss.epsilon,
            "why": "the scheme sets its level, and how often a device sends, by the budget",
        }
    times, plan = _most_rounds(setting), link.scheme.prepare(link.draws, 0)
    if plan.air is None and plan.event.noise_multiplier > 0:
        z, exposed = plan.event.server_noise_multiplier, 1.0
    elif isinstance(link.scheme, CalibratesItself):
        z, exposed = plan.event.noise_multiplier, setting.cell.exposure_bound
    elif scheme_entry(config.scheme).claims:  # β is at most the claim's, whoever is drawn
        z, exposed = (
            setting.noise_std / (setting.privacy_limit * setting.bound * setting.cell.margin),
            setting.cell.exposure_bound,
        )
    else:
        return {"epsilon": None, "why": "nothing but the power limits of those who are drawn limits the level"}
    mu = (exposed * mu_squared(z, times=times)) ** 0.5
    return {
        "epsilon": gaussian_epsilon(mu=mu, delta=setting.delta),
        "why": f"a device that takes part in {times} of {setting.rounds} rounds, each with the least noise allowed",
    }


def _most_rounds(setting: Setting) -> int:
    if setting.sampling is Sampling.TURNS:
        return turns_per_device(devices=setting.devices, cohort=setting.cohort_size, rounds=setting.rounds)
    return setting.rounds


def required_by_adversary(config: Config, epsilon: float) -> dict[Adversary, RequiredNoise | str]:
    """The noise that a budget of ε requires against each adversary, or why there is no figure against it."""
    found: dict[Adversary, RequiredNoise | str] = {}
    for adversary in Adversary:
        try:
            found[adversary] = required_noise(config, Budget(epsilon, adversary))
        except InputError as error:
            if adversary is Adversary.SERVER:
                raise
            found[adversary] = str(error).partition(": ")[2].partition("; ask for")[0]
    return found
