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
# # A first run
#
# Devices train on their own data and send their updates at the same time on the same radio channel. The channel adds
# them up, its noise hides each one, and the server sees only the noisy sum.
#
# The preset `demo` has 100 devices with 8×8 images of digits, 20 of them per round. A run of PFELS takes a second:

# %%
# %matplotlib inline
import tempfile
from pathlib import Path

import pfels

config = pfels.load_config("demo", {"scheme": "pfels-plus", "rounds": 100})
result = pfels.run(config)
result

# %% [markdown]
# A result is a picture, and a frame with one row per round:

# %%
result.plot()

# %%
columns = ["test_accuracy", "train_loss", "beta", "energy", "privacy.server.epsilon"]
result.to_frame()[columns].dropna().tail()

# %% [markdown]
# ## What did it cost?
#
# Energy is Σ‖x‖², in units of the receiver's noise; spectrum is counted in channel uses. A privacy figure never stands
# alone: it has an adversary, a neighbouring relation and a δ.

# %%
server = result.summary["privacy"]["server"]
print(f"channel uses {result.summary['subcarriers']:,}, energy {result.summary['energy']:.3g}")
print(f"ε = {server['display']} at δ = {server['delta']:g}, against the {server['adversary']}, {server['neighbours']}")
assert server["epsilon"] <= 16  # the budget of the preset

# %% [markdown]
# ## Schemes side by side
#
# Five schemes over three seeds, all on one budget: ε = 16 against the server, at δ = 0.01, for the worst device. FedAvg
# has no noise and no privacy, and shows what the data allow.

# %%
home = Path(tempfile.mkdtemp())
schemes = ["pfels", "wfl-pdp", "pfels-plus", "pfels-echo", "fedavg"]
found = pfels.compare(
    "demo", schemes=schemes, seeds=[0, 1, 2], overrides={"rounds": 100},
    budget=pfels.Budget(16.0, "server"), out=home / "compare",
)  # fmt: skip
frame = pfels.to_frame(found)
frame[["accuracy.mean", "energy.mean", "subcarriers", "privacy.server.epsilon"]]

# %%
axes = frame["accuracy.mean"].plot.barh(
    figsize=(6, 3),
    xerr=frame["accuracy.standard_error"],
    xlabel="test accuracy, mean ± standard error over three seeds",
)

# %% [markdown]
# Which differences are more than chance? Every pair of schemes has its paired difference over the seeds, and whether it
# is beyond two standard errors:

# %%
for pair in found["pairs"]:
    print(f"{pair['better']} − {pair['other']}: {pair['by']:+.3f} ± {pair['standard_error']:.3f}, {pair['verdict']}")

# %% [markdown]
# ## A sweep, and a page of everything
#
# One axis, one line of pandas:

# %%
grid = {"compression.ratio": [0.1, 0.3, 1.0]}
swept = pfels.sweep("demo", grid, overrides={"scheme": "pfels-plus", "rounds": 100}, out=home / "sweep")
axes = pfels.to_frame(swept)["accuracy.mean"].plot(
    figsize=(6, 3), marker="o", logx=True, ylabel="test accuracy", xlabel="p = k/d"
)

# %% [markdown]
# `write_report` puts runs on one HTML page that needs nothing else:

# %%
page = pfels.write_report(home / "compare", out=home / "report.html")
page["runs"], page["damaged"]
