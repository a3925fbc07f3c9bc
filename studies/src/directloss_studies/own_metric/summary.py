"""What the study shows: a table of methods by metrics for every set of data, and what became of each own metric."""

from collections.abc import Mapping, Sequence
from statistics import mean

from ..harness.study import Claim, Comparison, Figure, Record, Summary, Table
from ..report.figures import canvas_and_axes, finish, slug
from ..report.outcomes import Outcomes, Unit, records
from ..report.summary import choices_table, collect, methods_table, of_group
from ..report.words import cell
from ..sweep import choose
from .config import AT_ZERO, METRICS, Config, Run
from .objectives import DIRECT, FALLING, OTHERS

__all__ = ["BOOSTED", "summarise"]

BOOSTED = "LambdaMART"
ROWS = (*DIRECT.values(), *FALLING.values(), *OTHERS, BOOSTED)
STRENGTHS = {
    **dict.fromkeys((*DIRECT.values(), *FALLING.values()), "ε"),
    **{name: of.strength for name, of in OTHERS.items()},
    BOOSTED: "leaves",
}
"""What the strength of each method is."""


def summarise(runs: Sequence[Run]) -> Summary:
    """Settings and checkpoint are chosen on validation data by the metric of the column, alike for every method."""
    outcomes = {metric: _outcomes(runs, metric, early_stopping=True) for metric in (*METRICS, AT_ZERO)}
    to_the_end = {metric: _outcomes(runs, metric, early_stopping=False) for metric in METRICS}
    names = list(dict.fromkeys(run.config.data for run in runs))
    dead = collect(runs, _place, lambda run: mean(run.result.dead))
    flat = [
        *(record for metric in outcomes for record in records("own-metric", f"test {metric}", outcomes[metric])),
        *(record for metric in METRICS for record in _differences(metric, DIRECT, "own", outcomes[metric])),
        *(record for metric in FALLING for record in _differences(metric, FALLING, "falling", outcomes[metric])),
        *(
            record._replace(variant=f"{record.variant}, to the end")
            for metric in METRICS
            for record in records("own-metric", f"test {metric}", to_the_end[metric])
        ),
        *records("own-metric", "dead_gradients", dead),
    ]
    tables = [_table(f"Test data of {name}", outcomes, name) for name in names]
    ends = [_table(f"Test data of {name}, trained to the end", to_the_end, name) for name in names]
    short = [_table(f"Test data of {name}", outcomes, name, spread=False) for name in names]
    choices = [_choices(runs, name) for name in names]
    at_zero = [_table_at_zero(outcomes, names)] if names else []
    return Summary(
        flat,
        [claim for name in names for claim in _claims(outcomes, name)],
        [*tables, *at_zero, *ends, *choices],
        lambda: [_figure(outcomes, name) for name in names],
        _headline(outcomes, names),
        short,
    )


def _place(config: Config) -> tuple[str, float]:
    return config.data, 0.0


def _outcomes(runs: Sequence[Run], metric: str, early_stopping: bool) -> Outcomes:
    def value(run: Run) -> float:
        return choose(run.result.validation[metric], early_stopping).value(run.result.test[metric])

    return collect(runs, _place, value)


def _differences(metric: str, ours_of: Mapping[str, str], word: str, outcomes: Outcomes) -> list[Record]:
    """The method that trains on the metric minus every other one, seed by seed."""
    pairs = Outcomes()
    for name, noise, method in outcomes.groups():
        if method != ours_of[metric]:
            ours, theirs = (outcomes.units(name, noise, each) for each in (ours_of[metric], method))
            for unit in sorted(ours.keys() & theirs.keys()):
                pairs.put(name, noise, method, unit, ours[unit] - theirs[unit])
    return records("own-metric", f"{word} minus this {metric}", pairs)


def _table(title: str, outcomes: dict[str, Outcomes], name: str, spread: bool = True) -> Table:
    columns = {metric: of_group(outcomes[metric], name) for metric in METRICS}
    note = "Mean ± standard deviation over splits. Chosen on validation data by the metric of the column."
    shown = cell if spread else lambda values: f"{mean(values):.3f}"
    return methods_table(title, columns, ROWS, note if spread else "", corner="trained on", shown=shown)


def _table_at_zero(outcomes: dict[str, Outcomes], names: Sequence[str]) -> Table:
    title = "F1 of the items whose score is at least 0, no threshold tuned"
    columns = {name: of_group(outcomes[AT_ZERO], name) for name in names}
    return methods_table(title, columns, (DIRECT["F1"], "BCE"), corner="trained on")


def _choices(runs: Sequence[Run], name: str) -> Table:
    """Of every method by its own metric; of the others by AP on tables, NDCG@10 on queries."""
    mine = [run for run in runs if run.config.data == name]
    own = {method: metric for names in (DIRECT, FALLING) for metric, method in names.items()}
    usual = "NDCG@10" if any(run.config.method == "RankNet" for run in mine) else "AP"
    title = f"{name}: what was tried and chosen, direct losses by their own metric, the others by {usual}"
    return choices_table(
        title, mine, lambda run: choose(run.result.validation[own.get(run.config.method, usual)], True), STRENGTHS
    )


def _claims(outcomes: dict[str, Outcomes], name: str) -> list[Claim]:
    says = "On its own metric, training on a metric beats cross-entropy"
    compared = [outcomes[of].compare(name, 0.0, DIRECT[of], "BCE", f"{DIRECT[of]} − BCE, {of}") for of in METRICS]
    claims = [Claim(says, name, compared, "ours")]
    says = "On its own metric, training on a metric beats the mean of training on the five others"
    claims.append(Claim(says, name, [_against_others(outcomes[of], name, of) for of in METRICS], "ours"))
    for says, rival in (
        ("On a metric of few ranks, a falling k beats a fixed one", DIRECT),
        ("On a metric of few ranks, a falling k beats cross-entropy", dict.fromkeys(FALLING, "BCE")),
    ):
        compared = [
            outcomes[of].compare(name, 0.0, ours, rival[of], f"{ours} − {rival[of]}, {of}")
            for of, ours in FALLING.items()
        ]
        claims.append(Claim(says, name, compared, "ours"))
    rivals = [method for method in (*OTHERS, BOOSTED) if method != "BCE" and outcomes["AP"].values(name, 0.0, method)]
    for of in ("NDCG@10", "AP") if rivals else ():
        says = f"{DIRECT[of]} beats the usual losses of learning to rank on {of}"
        compared = [outcomes[of].compare(name, 0.0, DIRECT[of], rival, f"{DIRECT[of]} − {rival}") for rival in rivals]
        claims.append(Claim(says, name, compared, "ours"))
    return claims


def _against_others(outcomes: Outcomes, name: str, metric: str) -> Comparison:
    """The method that trains on the metric minus the mean of those that train on another one."""
    ours = outcomes.units(name, 0.0, DIRECT[metric])
    theirs = [outcomes.units(name, 0.0, method) for of, method in DIRECT.items() if of != metric]
    shared: list[Unit] = sorted(unit for unit in ours if all(unit in other for other in theirs))
    differences = tuple(ours[unit] - mean(other[unit] for other in theirs) for unit in shared)
    return Comparison(f"{DIRECT[metric]} − others, {metric}", differences, len({unit.seed for unit in shared}))


def _best(outcomes: dict[str, Outcomes], name: str, metric: str) -> str:
    """The row with the highest mean of a column."""
    means = {method: mean(values) for method in ROWS if (values := outcomes[metric].values(name, 0.0, method))}
    return max(means, key=lambda method: means[method])


def _headline(outcomes: dict[str, Outcomes], names: Sequence[str]) -> str:
    """How often the highest number of a column belongs to the loss on that metric."""
    if not names or not all(outcomes[of].values(name, 0.0, DIRECT[of]) for name in names for of in METRICS):
        return ""
    parts = []
    for name in names:
        own = [metric for metric in METRICS if _best(outcomes, name, metric) == DIRECT[metric]]
        parts.append(f"{name}: {', '.join(own) if own else 'none'}")
    return f"The metrics whose highest mean on test data belongs to the loss on that metric ({'; '.join(parts)})."


def _figure(outcomes: dict[str, Outcomes], name: str) -> Figure:
    """Every cell of the table, darker where it is nearer to the best of its column."""
    methods = [method for method in ROWS if all(outcomes[metric].values(name, 0.0, method) for metric in METRICS)]
    means = [[mean(outcomes[metric].values(name, 0.0, method)) for metric in METRICS] for method in methods]
    shades = [[0.0] * len(METRICS) for _ in methods]
    for column in range(len(METRICS)):
        values = [row[column] for row in means]
        low, high = (min(values), max(values)) if values else (0.0, 0.0)
        for row, value in enumerate(values):
            shades[row][column] = (value - low) / (high - low) if high > low else 1.0
    title = f"Trained on (rows), measured by (columns): {name}"
    with canvas_and_axes(5.6, 1.2 + 0.3 * len(methods)) as (canvas, axes):
        if methods:
            axes.imshow(shades, cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
        for row, method in enumerate(methods):
            for column, metric in enumerate(METRICS):
                own = DIRECT[metric] == method
                weight = "bold" if shades[row][column] == 1 else "normal"
                text = f"[{means[row][column]:.3f}]" if own else f"{means[row][column]:.3f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=8.5, fontweight=weight)
        axes.set_xticks(range(len(METRICS)), METRICS, fontsize=8.5)
        axes.set_yticks(range(len(methods)), methods, fontsize=8.5)
        axes.tick_params(length=0)
        axes.set_xlabel("brackets: trained on this metric; bold: the highest of its column", fontsize=8.5)
        best = ", ".join(f"{metric} {_best(outcomes, name, metric)}" for metric in METRICS) if methods else "no runs"
        return finish(canvas, slug("own-metric", name), title, f"{title}. The highest mean of each metric: {best}.")
