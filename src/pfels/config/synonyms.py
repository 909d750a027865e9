"""What people type for a setting: the names that other tools and papers have for it."""

import difflib
from collections.abc import Iterable

_OPTIMIZER = "optimizer optimiser opt sgd"
# Words, and the keys that they may mean; case, hyphens and underscores do not count.
MEANT = {
    "lr learningrate eta stepsize rate initlr baselr": ("training.learning_rate", "server.learning_rate"),
    "serverlr globallr": ("server.learning_rate",),
    "clientlr locallr": ("training.learning_rate",),
    "epoch epochs localepochs localsteps tau localiterations e": ("training.local_epochs",),
    "batch bs batchsize minibatch localbatchsize b": ("training.batch_size",),
    _OPTIMIZER: ("training.momentum", "server.momentum"),
    "clipping clipnorm maxgradnorm c gradclip normbound clippingnorm": ("training.clip",),
    "round numrounds nrounds t iterations steps commrounds globalrounds maxrounds globalepochs": ("rounds",),
    "clients numclients nclients users numusers nusers numdevices ndevices nodes workersnum n totalclients": (
        "data.devices", "cohort.size",
    ),
    "r cohort cohortsize clientsperround devicesperround fraction frac participation samplingrate q fractionfit": (
        "cohort.size",
    ),
    "sampler samplingkind": ("cohort.sampling",),
    "eps epsilon privacybudget budget": ("privacy.epsilon", "privacy.total_epsilon"),
    "totaleps targetepsilon targeteps": ("privacy.total_epsilon",),
    "targetdelta": ("privacy.delta",),
    "dataset datasets": ("data.name",),
    "datapath dataroot datadir file root": ("data.path",),
    "iid noniid split partitioning heterogeneity": ("data.partition",),
    "dirichlet dirichletalpha": ("data.alpha",),
    "samples numsamples examples perclient perdevice localsize": ("data.per_device",),
    "network net arch architecture modelname": ("model.name",),
    "hiddensize hiddendim width units hiddenunits": ("model.hidden",),
    "noise sigma noisestd sigma0 std noisemultiplier noisepower": ("channel.noise_std",),
    "snr snrdb": ("channel.snr_min_db", "channel.snr_max_db"),
    "snrmin minsnr": ("channel.snr_min_db",),
    "snrmax maxsnr": ("channel.snr_max_db",),
    "gain h fading channelgain": ("channel.gain_mean", "channel.model"),
    "antenna numantennas": ("channel.antennas",),
    "bandwidth bw": ("radio.bandwidth_mhz", "channel.subcarriers"),
    "carrier frequency fc": ("radio.carrier_ghz",),
    "distance": ("radio.distance_m",),
    "p k sparsity sparsification compressionratio compression topk randk keep": ("compression.ratio",),
    "ef feedback errorfeedback": ("compression.error_feedback",),
    "ema averaging polyak": ("server.average",),
    "gpu cuda dev": ("run.device",),
    "threads numworkers nworkers numthreads nthreads cores jobs": ("run.workers",),
    "evalevery evaluate evalinterval evalfreq testevery": ("run.eval_every",),
    "checkpoint saveevery checkpointevery": ("run.checkpoint_every",),
    "dtype amp fp16 bf16 half": ("run.precision",),
    "seeds randomseed rngseed": ("seed",),
    "algorithm algo method strategy aggregator schemes": ("scheme",),
}  # fmt: skip
_KEYS = {word: keys for words, keys in MEANT.items() for word in words.split()}
_REMARK = {"data.devices": " (all devices)", "cohort.size": " (per round)"}
CUTOFF = 0.7  # of similarity: a slip of the finger, not another word


def meant(typed: str, known: Iterable[str]) -> list[str]:
    """Of the known keys, those that somebody may have meant: the same name in another table, another name for it, or
    what one slip of the finger makes of it.

    >>> meant("training.lr", ["training.learning_rate", "server.learning_rate", "training.clip"])
    ['training.learning_rate']
    >>> meant("xyzzy", ["rounds", "training.clip"])
    []
    """
    known, table, leaf = list(known), typed.rpartition(".")[0], typed.rpartition(".")[2]
    if typed.count(".") > 1 or len(typed) > 100:
        return []
    here = [key for key in known if key.rpartition(".")[0] == table] if table else known
    for among in (here, known):
        words = {word: [key for key in keys if key in among] for word, keys in _KEYS.items()}
        for key in among:
            words[_plain(_leaf(key))] = [each for each in among if _leaf(each) == _leaf(key)]
        words = {word: keys for word, keys in words.items() if keys}
        if found := words.get(_plain(leaf)):
            return found
        if close := difflib.get_close_matches(_plain(leaf), words, n=1, cutoff=CUTOFF):
            return words[close[0]]
    return []


def question(typed: str, known: Iterable[str]) -> str:
    """A question that names what somebody may have meant; nothing where that cannot be told.

    >>> question("num_clients", ["data.devices", "cohort.size"])
    '; did you mean data.devices (all devices) or cohort.size (per round)?'
    """
    keys = meant(typed, known)
    sgd = "; SGD is the only optimizer" if _plain(_leaf(typed)) in _OPTIMIZER.split() and keys else ""
    return f"{sgd}; did you mean {' or '.join(key + _REMARK.get(key, '') for key in keys)}?" if keys else ""


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
