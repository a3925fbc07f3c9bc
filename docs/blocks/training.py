"""Studies of training: a warm-up, rankings of more than a mini-batch, recipes and the estimator."""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import mean, median
from typing import Any, NamedTuple

from .numbers import as_table, block, in_percent, study_of, with_error

WARM_KINDS = {"cold": "", "warm": ", warm-up", "warm, new optimizer": ", warm-up, new optimizer"}
"""How pos-AP starts, from the words of studies/results/ to those to show."""
WARM_NOISES = (0.0, 0.2, 0.4)
STARTS_OF_RANKING = ("below", "above")


class Ended(NamedTuple):
    """How a training of the study of the warm-up ended, on clean test data."""

    ap: float
    wrong_way: bool
    """AUC is below one half."""
    poor: bool
    """AP is below half of that of cross-entropy from the same start."""


@cache
def _warm_runs() -> dict[tuple[Any, ...], dict[str, Any]]:
    """The runs by table, noise, learning rate, seed and kind; of those of which there is every kind."""
    keys = "table", "noise", "rate", "seed", "kind"
    runs = dict(sorted((tuple(run[key] for key in keys), run) for run in study_of("warm_up")["runs"]))
    whole = [all((*key[:-1], kind) in runs for kind in ("x-ent", *WARM_KINDS)) for key in runs]
    return {key: run for (key, run), every in zip(runs.items(), whole, strict=True) if every}


def _ends(kind: str, epsilon: float, noise: float, start: str, table: str | None = None) -> list[Ended]:
    """All trainings of a kind with one ε from one kind of start."""
    of = STARTS_OF_RANKING.index(start)
    k = 0 if kind == "x-ent" else study_of("warm_up")["settings"]["epsilons"].index(epsilon)
    found = []
    for key, run in _warm_runs().items():
        if key[1] == noise and key[4] == kind and table in (None, key[0]):
            plain = _warm_runs()[(*key[:-1], "x-ent")]["ap"][of][0]
            found.append(Ended(run["ap"][of][k], run["auc"][of][k] < 0.5, run["ap"][of][k] < plain / 2))
    return found


def _warm_table(corner: str, cell: Callable[..., str], kinds: Iterable[str]) -> str:
    """One row for every ε and kind, one column for every noise and start."""
    columns = [(noise, start) for noise in WARM_NOISES for start in STARTS_OF_RANKING]
    header = [f"{level}, {start} ½" for level in in_percent(WARM_NOISES) for start in STARTS_OF_RANKING]
    rows = [["x-ent", *(cell("x-ent", 0.0, *column) for column in columns)]] if "x-ent" in kinds else []
    rows += [
        [f"ε = {epsilon:g}{WARM_KINDS[kind]}", *(cell(kind, epsilon, *column) for column in columns)]
        for epsilon in study_of("warm_up")["settings"]["epsilons"]
        for kind in kinds
        if kind != "x-ent"
    ]
    return as_table([corner, *header], rows)


def _recipes(part: str, noise: float) -> dict[str, dict[str, dict[str, float]]]:
    """Test AP at the longest training by recipe, average of weights and table: means over seeds."""
    runs = [run for run in study_of("recipes")["runs"] if (run["part"], run["noise"]) == (part, noise)]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for recipe, averages in runs[0]["test_ap"].items():
        for average in averages:
            by_table: dict[str, list[float]] = {}
            for run in runs:
                by_table.setdefault(run["table"], []).append(run["test_ap"][recipe][average][-1])
            found.setdefault(recipe, {})[average] = {table: mean(values) for table, values in by_table.items()}
    return found


RECIPE_AVERAGES = ("last", "mean of 50")
RECIPE_NOISES = (0.0, 0.2, 0.4)


@block
def recipes_confirmed() -> str:
    """The few recipes on the tables that the search did not see, and how far each is below x-ent at worst."""
    rows = []
    found = {noise: _recipes("confirm", noise) for noise in RECIPE_NOISES}
    for recipe in found[0.0]:
        for average in RECIPE_AVERAGES:
            means, worst = [], []
            for noise in RECIPE_NOISES:
                ours, plain = found[noise][recipe][average], found[noise]["x-ent"]["last"]
                best = max(mean(each[one].values()) for each in found[noise].values() for one in RECIPE_AVERAGES)
                value = mean(ours.values())
                means.append(f"**{value:.3f}**" if value == best else f"{value:.3f}")
                lost, table = min((ours[table] - plain[table], table) for table in ours)
                worst.append("–" if (recipe, average) == ("x-ent", "last") else f"{lost:+.2f} ({table})")
            rows.append([recipe, average, *means, *worst])
    levels = [f"{noise:.0%} flipped".replace("%", " %") for noise in RECIPE_NOISES]
    return as_table(["recipe", "weights", *levels, *(f"worst table, {level}" for level in levels)], rows)


@block
def recipes_searched() -> str:
    """All recipes on the ten tables of the search."""
    found = {noise: _recipes("search", noise) for noise in RECIPE_NOISES}
    rows = []
    for recipe in found[0.0]:
        cells = []
        for average in RECIPE_AVERAGES:
            cells += [f"{mean(found[noise][recipe][average].values()):.3f}" for noise in RECIPE_NOISES]
        rows.append([recipe, *cells])
    header = [f"{noise:.0%}, {average}".replace("%", " %") for average in RECIPE_AVERAGES for noise in RECIPE_NOISES]
    return as_table(["recipe", *header], rows)


@block
def recipes_runs() -> str:
    """How many tables and seeds there are."""
    said = []
    for part in ("search", "confirm"):
        runs = [run for run in study_of("recipes")["runs"] if run["part"] == part]
        tables = {run["table"] for run in runs}
        seeds = [
            f"{noise:.0%}: {len({run['seed'] for run in runs if run['noise'] == noise})}" for noise in RECIPE_NOISES
        ]
        said.append(f"{part}: {len(tables)} tables, seeds {', '.join(seeds)}".replace("%", " %"))
    return "; ".join(said)


@block
def estimator_tables() -> str:
    """Both estimators with their defaults on the tables that the search did not see, and the worst table of ours."""
    runs = study_of("estimator-tables")["runs"]
    rows = []
    for name in runs[0]["test_ap"]:
        means, worst = [], []
        for noise in RECIPE_NOISES:
            tables: dict[str, list[tuple[float, float]]] = {}
            for run in (run for run in runs if run["noise"] == noise):
                tables.setdefault(run["table"], []).append((run["test_ap"][name], run["test_ap"]["MLPClassifier"]))
            values = {table: tuple(map(mean, zip(*pairs, strict=True))) for table, pairs in tables.items()}
            means.append(f"{mean(ours for ours, _ in values.values()):.3f}")
            lost, table = min((ours - theirs, table) for table, (ours, theirs) in values.items())
            worst.append("–" if name == "MLPClassifier" else f"{lost:+.2f} ({table})")
        rows.append([name, *means, *worst])
    levels = [f"{noise:.0%} flipped".replace("%", " %") for noise in RECIPE_NOISES]
    return as_table(["estimator", *levels, *(f"worst table, {level}" for level in levels)], rows)


@block
def estimator_runs() -> str:
    """How many tables and seeds there are."""
    runs = study_of("estimator-tables")["runs"]
    return f"{len({run['table'] for run in runs})} tables, {len({run['seed'] for run in runs})} seeds"


@block
def warm_up_failures() -> str:
    """Trainings that end with an AUC below one half, or with less than half of the AP of cross-entropy."""

    def cell(*which: Any) -> str:
        ends = _ends(*which)
        return f"{sum(end.wrong_way for end in ends)} / {sum(end.poor for end in ends)}"

    count = len(_ends("x-ent", 0.0, 0.0, "below"))
    return _warm_table(f"of {count} trainings; flipped labels, AUC of the start", cell, ["x-ent", *WARM_KINDS])


@block
def warm_up_ap() -> str:
    """Mean test AP."""

    def cell(*which: Any) -> str:
        return f"{mean(end.ap for end in _ends(*which)):.3f}"

    return _warm_table("mean test AP; flipped labels, AUC of the start", cell, ["x-ent", *WARM_KINDS])


@block
def warm_up_differences() -> str:
    """AP with a warm-up minus without, in pairs."""

    def cell(kind: str, *which: Any) -> str:
        pairs = zip(_ends(kind, *which), _ends("cold", *which), strict=True)
        return with_error([warm.ap - cold.ap for warm, cold in pairs], "+")

    return _warm_table("test AP minus that without warm-up", cell, [kind for kind in WARM_KINDS if kind != "cold"])


@block
def warm_up_tables() -> str:
    """Trainings of each table that failed in either way, at all noises and starts."""
    names = sorted({key[0] for key in _warm_runs()})

    def ends(kind: str, epsilon: float, name: str) -> list[Ended]:
        return [end for k in WARM_NOISES for start in STARTS_OF_RANKING for end in _ends(kind, epsilon, k, start, name)]

    rows = [
        [f"ε = {e:g}{shown}", *(str(sum(end.wrong_way or end.poor for end in ends(kind, e, name))) for name in names)]
        for e in study_of("warm_up")["settings"]["epsilons"]
        for kind, shown in WARM_KINDS.items()
    ]
    header = [f"{name} (of {len(ends('cold', 1.0, name))})" for name in names]
    return as_table(["failed in either way", *header], rows)


@block
def warm_up_rates() -> str:
    """How many trainings without a warm-up went the wrong way, by learning rate."""
    epsilons = study_of("warm_up")["settings"]["epsilons"]
    found = {}
    for (*_, noise, rate, _, kind), run in _warm_runs().items():
        if kind == "cold" and noise == WARM_NOISES[-1]:
            found.setdefault(rate, []).extend(auc < 0.5 for auc in run["auc"][0])
    parts = [f"{sum(wrong)} of {len(wrong)} at learning rate {rate:g}" for rate, wrong in sorted(found.items())]
    return f"{' and '.join(parts)} (all {len(epsilons)} ε together)"


@block
def warm_up_command() -> str:
    """What was run."""
    runs = _warm_runs()
    rates = sorted({key[2] for key in runs})
    seeds = [f"{len({key[3] for key in runs if key[2] == rate})} seeds at learning rate {rate:g}" for rate in rates]
    trainings = sum(len(row) for run in runs.values() for row in run["ap"])
    return (
        f"`python -m studies.benchmarks.warm_up`: {' and '.join(seeds)}, counted from 0, {trainings:,} trainings, in "
        "[warm_up.json](../studies/results/warm_up.json)."
    )


MEMORY_METHODS = {  # from studies/results/ to the words to show
    "x-ent": "x-ent",
    "batch": "pos-AP, plain batches",
    "two passes": "pos-AP, `accumulate`, 8 batches a step",
    "memory": "pos-AP, `ScoreMemory`",
}


def _memory_runs(table: str, noise: float, method: str) -> list[dict[str, Any]]:
    runs = study_of("score_memory")["runs"]
    return [run for run in runs if (run["table"], run["noise"], run["method"]) == (table, noise, method)]


def _chosen(table: str, noise: float, method: str) -> list[dict[str, Any]]:
    """Of every seed the run whose learning rate is best on validation."""
    runs = _memory_runs(table, noise, method)
    seeds = sorted({run["seed"] for run in runs})
    return [max((run for run in runs if run["seed"] == seed), key=lambda run: run["validation"]) for seed in seeds]


def _memory_table(corner: str, cell: Callable[..., str], methods: Iterable[str]) -> str:
    columns = [(table, noise) for table in ("cover", "celeba") for noise in (0.0, 0.4)]
    header = [f"{table}, {in_percent([noise])[0]}" for table, noise in columns]
    rows = [[MEMORY_METHODS[method], *(cell(*column, method) for column in columns)] for method in methods]
    return as_table([corner, *header], rows)


def _memory_ap(table: str, noise: float, method: str) -> str:
    """Test AP ± standard error, of the learning rate chosen on validation."""
    return with_error([run["test"] for run in _chosen(table, noise, method)])


def _memory_gain(table: str, noise: float, method: str) -> str:
    """Test AP minus that of plain batches of the same size ± standard error, in pairs."""
    plain = "batch of 32" if method.endswith(" of 32") else "batch"
    if method == plain:
        return "–"
    pairs = zip(_chosen(table, noise, method), _chosen(table, noise, plain), strict=True)
    return with_error([this["test"] - other["test"] for this, other in pairs], "+")


def _memory_seconds(table: str, noise: float, method: str) -> str:
    return f"{median(run['seconds'] for run in _memory_runs(table, noise, method)):.1f}"


@block
def score_memory_ap() -> str:
    """Test AP in batches of 512."""
    seeds = len(_chosen("cover", 0.0, "memory"))
    return _memory_table(f"test AP, mean of {seeds} seeds; flipped labels", _memory_ap, MEMORY_METHODS)


@block
def score_memory_gains() -> str:
    """What is gained over plain batches of 512."""
    methods = [method for method in MEMORY_METHODS if method != "batch"]
    return _memory_table("test AP minus that of plain batches", _memory_gain, methods)


@block
def score_memory_seconds() -> str:
    """CPU seconds of a training in batches of 512."""
    return _memory_table("CPU seconds of a training, median", _memory_seconds, MEMORY_METHODS)


@block
def score_memory_small() -> str:
    """Test AP, gain and CPU seconds in batches of 32."""
    rows = [
        [
            table,
            MEMORY_METHODS[method],
            *(cell(table, 0.0, f"{method} of 32") for cell in (_memory_ap, _memory_gain, _memory_seconds)),
        ]
        for table in ("cover", "celeba")
        for method in ("x-ent", "batch", "memory")
    ]
    seeds = len(_chosen("cover", 0.0, "memory of 32"))
    return as_table(["table", "", f"test AP, mean of {seeds} seeds", "minus plain batches", "CPU seconds"], rows)
