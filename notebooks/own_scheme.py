# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A scheme of your own
#
# PFELS draws k of the d coordinates anew in every round. What if the coordinates took turns instead? Cut them once, at
# random, into d/k blocks, and send one block per round: then each coordinate is sent equally often.
#
# A scheme is a frozen dataclass with four steps: `prepare` (who takes part, at what level), `indices` (which
# coordinates are sent), `send` (on the devices) and `receive` (on the server). Ours differs from PFELS in one of them:

# %%
# %matplotlib inline
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas

import pfels
from pfels.schemes.draws import Draws
from pfels.schemes.pfels import Pfels
from pfels.schemes.registry import AIR, BudgetBy, SchemeEntry, register


@dataclass(frozen=True)
class CyclicPfels(Pfels):
    """PFELS whose coordinates take turns."""

    def indices(self, draws: Draws, theta, t: int):
        """The block that round t carries, from the shared seed: it is never sent."""
        return draws.block(t, round(1 / self.setting.share))


# %% [markdown]
# The entry in the registry says which settings the scheme reads, that it makes the paper's claim per round, and that a
# budget sets its noise through that claim. `register` makes it known in this process. A package names its entry under
# the entry point `pfels.schemes` instead, so that the command and worker processes know it too (CONTRIBUTING.md).

# %%
entry = SchemeEntry(
    CyclicPfels,
    uses=AIR | {"clip", "ratio", "claim"},
    claims=True,
    budget=BudgetBy.CLAIM,
)
register("cyclic", entry)

# %% [markdown]
# ## Is it sound?
#
# Nothing about it is taken on trust. Limits on norms and power are enforced whatever `send` does, and `audit` holds its
# privacy figure against an attack: 200 canary devices, each of which sends as much as it can or nothing.

# %%
settings = {
    "compression.ratio": 0.2,
    "training.learning_rate": 0.1,
    "server.learning_rate": 0.5,
    "server.average": 0.95,
}
config = pfels.load_config("demo", {"scheme": "cyclic", "rounds": 100, **settings})
found = pfels.audit(config, canaries=200)
assert not found["rejected"]
audited = pandas.DataFrame({"claimed": found["claimed"], "estimated": found["estimate"]}).T
audited[["epsilon", "low", "high", "adversary"]]

# %% [markdown]
# The claim is not below the interval of what the attack finds, so it is not rejected. A scheme that forgets to clip
# does not get that far: the transmission is never formed, and the audit says so.


# %%
@dataclass(frozen=True)
class Unclipped(CyclicPfels):
    """The same without its clip."""

    def send(self, plan, part, A):
        """Updates as long as they are."""
        return plan.transmit(10 * part.updates[:, A], part.places)


register("unclipped", SchemeEntry(Unclipped, uses=entry.uses, claims=True, budget=BudgetBy.CLAIM))
broken = pfels.audit(pfels.load_config(config, {"scheme": "unclipped"}), canaries=20)
print(broken["rejected"], broken["rejected_by"], broken["stopped"])
assert broken["rejected"]

# %% [markdown]
# ## Is it better?
#
# Both schemes on one budget of ε = 16 against the server (δ = 0.01, one device's data emptied), same settings,
# four seeds:

# %%
home = Path(tempfile.mkdtemp())
found = pfels.compare(
    "demo", schemes=["pfels", "cyclic"], seeds=[0, 1, 2, 3], overrides={"rounds": 150, **settings},
    budget=pfels.Budget(16.0, "server"), out=home / "compare",
)  # fmt: skip
frame = pfels.to_frame(found)
frame[["accuracy.mean", "accuracy.standard_error", "energy.mean", "subcarriers", "privacy.server.epsilon"]]

# %%
(pair,) = found["pairs"]
print(f"{pair['better']} − {pair['other']}: {pair['by']:+.4f} ± {pair['standard_error']:.4f}: {pair['verdict']}")
axes = frame["accuracy.mean"].plot.barh(
    figsize=(6, 2), xerr=frame["accuracy.standard_error"], xlim=(0, 1), xlabel="test accuracy"
)
