"""`pfels compare` on a terminal: what each scheme reached and used, the settings chosen, and what is undecided."""

from collections.abc import Sequence

from pfels.documents.studies import AggregateRow, Comparison, Pair
from pfels.report.terminal import ERRORS, PROVEN, claim_note, data_sentences, marked, not_audited, number, spread
from pfels.report.text import claimed_epsilon, counted, epsilon, listed, own_noise, server_is_smaller
from pfels.schemes.registry import scheme_entry
from pfels.studies.verdicts import Verdict

COLUMNS = ("scheme", "accuracy", "channel uses", "energy", "claimed ε", "server ε", "at 1e-5")
SHORT = {"training.learning_rate": "η", "server.learning_rate": "server step", "compression.ratio": "p"}


def rows(table: Comparison) -> list[Sequence[str]]:
    """One row per scheme, as in the paper's tables; † marks a scheme that a budget does not set."""
    return [
        (
            marked(name, row),
            spread(row["accuracy"], ".3f"),
            f"{row['subcarriers']:.2e}".replace("e+0", "e").replace("e+", "e"),
            "–" if row["energy"] is None else f"{row['energy']['mean']:.1e}".replace("e+0", "e").replace("e+", "e"),
            claimed_epsilon(row["privacy"]["claimed"]),
            epsilon(row["privacy"]["server"]),
            epsilon(row["server_small_delta"]),
        )
        for name, row in table["schemes"].items()
    ]


def chosen(table: Comparison) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The columns and rows of the settings that were chosen; a star marks an end of the grid."""
    tuned = {name: row["tuned"] for name, row in table["schemes"].items() if "tuned" in row}
    keys = [key for key, values in _values(table).items() if len(values) > 1 or len(tuned) == 1]
    names = [SHORT.get(key, key.rpartition(".")[2].replace("_", " ")) for key in keys]
    return (
        ("scheme", *names, "trials", "ε if private"),
        [
            (
                name,
                *(_value(each["settings"].get(key), starred=key in each["at_edge"]) for key in keys),
                str(each["trials"]),
                epsilon({"name": "", "epsilon": each.get("epsilon_on_same_data")}),
            )
            for name, each in tuned.items()
        ],
    )


def _values(table: Comparison) -> dict[str, set[object]]:
    """The values that were chosen for each setting."""
    found: dict[str, set[object]] = {}
    for row in table["schemes"].values():
        for key, value in row["tuned"]["settings"].items():
            found.setdefault(key, set()).add(value)
    return found


def _value(value: object, *, starred: bool) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}{'*' * starred}" if isinstance(value, float) else f"{value}{'*' * starred}"


def chosen_notes(table: Comparison) -> list[str]:
    """How the settings were chosen."""
    row = next(iter(table["schemes"].values()))
    first, server = row["tuned"], row["privacy"]["server"]
    several = len(table["schemes"]) > 1
    same = [f"{key} = {value}" for key, (value, *others) in _values(table).items() if several and not others]
    common = [f"For all schemes that have it: {listed(same)}."] if same else []
    return [
        *common,
        "Chosen for each scheme out of one grid, by mean accuracy on seeds "
        f"{listed([str(seed) for seed in first['seeds']])}, which no row above reports; trials: combinations tried. "
        "– marks a setting that the scheme does not have, * the smallest or largest value tried: the best may lie "
        "beyond.",
        f"ε if private: what server ε would be, at δ = {server['delta']:g}, had the settings been chosen on the same "
        "private data, by a random number of trials with this mean, one run each, the best of which is released. "
        "A fixed grid has no such bound. Settings chosen on public data, or on other users' data, cost nothing.",
    ]


def pair_notes(found: Sequence[Pair]) -> list[str]:
    """Which pairs of schemes are undecided."""
    unclear = [pair for pair in found if pair["verdict"] == Verdict.UNDECIDED]
    if not found:
        return []
    if found[0]["standard_error"] is None:
        return ["One seed decides nothing: every difference in accuracy is undecided."]
    if not unclear:
        return ["Every difference in accuracy is above two standard errors of the paired differences over the seeds."]
    named = listed([f"{p['better']} − {p['other']} {p['by']:+.4f}±{_error(p)}" for p in unclear])
    return [
        f"Undecided, within two standard errors of the paired differences over the seeds: {named}. "
        f"The other {counted(len(found) - len(unclear), 'difference')} in accuracy are beyond it."
    ]


def _error(pair: Pair) -> str:
    return number(pair["standard_error"], ".4f")


def notes(table: Comparison) -> list[str]:
    """What the columns mean, and against whom each ε holds."""
    every = list(table["schemes"].values())
    server, several = every[0]["privacy"]["server"], len(every[0]["seeds"]) > 1
    found = [ERRORS] if several else []
    known = [figure["why"] for row in every if (figure := row["privacy"]["server"])["epsilon"] and not figure["valid"]]
    found.append(
        f"server ε: against the server, over the whole training, for the worst device of the worst seed, at "
        f"δ = {server['delta']:g}, and beside it at δ = 1e-5; neighbours: one device's data emptied; "
        + (f"NOT valid here: {known[0]}." if known else f"{PROVEN}.")
    )
    found += not_audited(table["schemes"])
    found += [
        f"{name} also assumes that {assumes}{own_noise(row['privacy'])}."
        for name, row in table["schemes"].items()
        if (assumes := scheme_entry(name).assumes)
    ]
    found += [f"{line}." for line in data_sentences(row["privacy"] for row in every)]
    found += claim_note([row["privacy"]["claimed"] for row in every], delta=server["delta"])
    return found + [line for name, row in table["schemes"].items() for line in _outsider(name, row)]


def _outsider(name: str, row: AggregateRow) -> list[str]:
    outsider, server = row["privacy"]["outsider"], row["privacy"]["server"]
    if outsider["epsilon"] is None:
        return []
    known = "" if server["valid"] else " NOT valid here either."
    if server_is_smaller(row["privacy"]):
        why = outsider["why"] if server["valid"] and not outsider["valid"] else "a bound of its own is larger"
        return [
            f"{name} against an outsider who sees only the models: ε = {server['display']} at δ = {server['delta']:g}, "
            f"{server['neighbours']} neighbours, as against the server, who sees more; {why}.{known}"
        ]
    return [
        f"{name} against an outsider who sees only the models: ε = {outsider['display']} at δ = "
        f"{outsider['delta']:g}, {outsider['neighbours']} neighbours ({outsider['accountant']}).{known}"
    ]
