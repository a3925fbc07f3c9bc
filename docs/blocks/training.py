"""Studies of training: a warm-up, and rankings of more than a mini-batch."""

from collections.abc import Callable, Iterable

from directloss_studies.warm_up import METHODS, STARTS

from .numbers import Key, as_table, block, error_cell, in_percent, records_of

NOISES = (0.0, 0.2, 0.4)


def _count(method: str, metric: str, start: str, noise: float, of: str | None = None) -> int:
    """The number of trainings of which something is true, from their share."""
    record = records_of("warm-up")[start, method, noise, of, metric]
    return round(record["mean"] * record["n"])


def _warm_table(corner: str, cell: Callable[[Key], str], metric: str, methods: Iterable[str] = METHODS) -> str:
    """One row for every method, one column for every noise and start."""
    columns = {
        f"{level}, {start}": (start, noise)
        for noise, level in zip(NOISES, in_percent(NOISES), strict=True)
        for start in STARTS
    }
    rows = [
        [method, *(cell(Key(start, method, noise, None, metric)) for start, noise in columns.values())]
        for method in methods
    ]
    return as_table([corner, *columns], rows)


@block
def warm_up_failures() -> str:
    """Trainings that end with an AUC below one half, or with less than half of the AP of cross-entropy."""

    def cell(key: Key) -> str:
        start, method, noise, *_ = key
        return f"{_count(method, 'wrong_way', start, noise)} / {_count(method, 'poor', start, noise)}"

    number = records_of("warm-up")[STARTS[0], METHODS[0], 0.0, None, "poor"]["n"]
    return _warm_table(f"of {number} trainings; flipped labels, AUC of the start", cell, "poor")


@block
def warm_up_ap() -> str:
    """Mean test AP."""
    return _warm_table(
        "mean test AP; flipped labels, AUC of the start",
        lambda key: f"{records_of('warm-up')[key]['mean']:.3f}",
        "test_ap",
    )


@block
def warm_up_differences() -> str:
    """AP with a warm-up minus without, in pairs."""
    warm = [method for method in METHODS if "warm-up" in method]
    corner = "test AP minus that without warm-up"
    return _warm_table(corner, lambda key: error_cell("warm-up", key, "+"), "minus_cold", warm)


def _classes(prefix: str) -> list[str]:
    """The classes of trainings: step sizes, or with an empty prefix tables."""
    found = {of for *_, of, _ in records_of("warm-up") if of is not None}
    rates = {of for of in found if of.startswith("learning rate ")}
    return sorted(rates if prefix else found - rates)


@block
def warm_up_tables() -> str:
    """Trainings of each table that failed in either way, at all noises and starts."""
    records, names = records_of("warm-up"), _classes("")
    places = [(start, noise) for noise in NOISES for start in STARTS]
    rows = [
        [method, *(str(sum(_count(method, "failed", *place, of=name) for place in places)) for name in names)]
        for method in METHODS[1:]
    ]
    totals = [sum(records[start, METHODS[1], noise, of, "failed"]["n"] for start, noise in places) for of in names]
    header = [f"{name} (of {total})" for name, total in zip(names, totals, strict=True)]
    return as_table(["failed in either way", *header], rows)


@block
def warm_up_rates() -> str:
    """How many trainings without a warm-up went the wrong way, by learning rate."""
    cold = [method for method in METHODS[1:] if "warm-up" not in method]
    parts = []
    for of in _classes("learning rate"):
        wrong = sum(_count(method, "wrong_way", STARTS[0], NOISES[-1], of) for method in cold)
        number = len(cold) * records_of("warm-up")[STARTS[0], cold[0], NOISES[-1], of, "wrong_way"]["n"]
        parts.append(f"{wrong} of {number} at {of}")
    return f"{' and '.join(parts)} (all {len(cold)} ε together)"


@block
def warm_up_command() -> str:
    """What was run."""
    records = records_of("warm-up")
    seeds = [
        f"{records[STARTS[0], 'x-ent', 0.0, of, 'failed']['n'] // len(_classes(''))} seeds at {of}"
        for of in _classes("learning rate")
    ]
    trainings = sum(record["n"] for (*_, of, metric), record in records.items() if (of, metric) == (None, "test_ap"))
    return (
        f"`directloss reproduce warm-up --preset paper --data DIR`: {' and '.join(seeds)}, counted from 0, "
        f"{trainings:,} trainings, in [warm-up.json](../../studies/results/warm-up.json)."
    )


MEMORY_METHODS = {  # from studies/results/ to the words to show
    "x-ent": "x-ent",
    "batch": "pos-AP, plain batches",
    "two passes": "pos-AP, `accumulate`, 8 batches a step",
    "memory": "pos-AP, `ScoreMemory`",
}


def _memory_cells(method: str, metric: str, batch: int, places: Iterable[tuple[str, float]]) -> list[str]:
    """Of a method by table and noise: AP, gain or seconds."""
    keys = [Key(f"{table}, batches of {batch}", method, noise, None, metric) for table, noise in places]
    if metric == "median_seconds":
        return [f"{records_of('score-memory')[key]['mean']:.1f}" for key in keys]
    return [error_cell("score-memory", key, "+" if metric.startswith("minus") else "") for key in keys]


def _memory_table(corner: str, metric: str, methods: Iterable[str] = MEMORY_METHODS) -> str:
    places = [(table, noise) for table in ("cover", "celeba") for noise in (0.0, 0.4)]
    header = [f"{table}, {in_percent([noise])[0]}" for table, noise in places]
    rows = [[MEMORY_METHODS[method], *_memory_cells(method, metric, 512, places)] for method in methods]
    return as_table([corner, *header], rows)


def _memory_seeds() -> int:
    return records_of("score-memory")["cover, batches of 512", "memory", 0.0, None, "test_ap"]["n"]


@block
def score_memory_ap() -> str:
    """Test AP in batches of 512."""
    return _memory_table(f"test AP, mean of {_memory_seeds()} seeds; flipped labels", "test_ap")


@block
def score_memory_gains() -> str:
    """What is gained over plain batches of 512."""
    others = [method for method in MEMORY_METHODS if method != "batch"]
    return _memory_table("test AP minus that of plain batches", "minus_plain_batches", others)


@block
def score_memory_seconds() -> str:
    """CPU seconds of a training in batches of 512."""
    return _memory_table("CPU seconds of a training, median", "median_seconds")


@block
def score_memory_small() -> str:
    """Test AP, gain and CPU seconds in batches of 32."""
    metrics = ("test_ap", "minus_plain_batches", "median_seconds")
    rows = [
        [
            table,
            MEMORY_METHODS[method],
            *(cell for metric in metrics for cell in _memory_cells(method, metric, 32, [(table, 0.0)])),
        ]
        for table in ("cover", "celeba")
        for method in ("x-ent", "batch", "memory")
    ]
    return as_table(
        ["table", "", f"test AP, mean of {_memory_seeds()} seeds", "minus plain batches", "CPU seconds"], rows
    )
