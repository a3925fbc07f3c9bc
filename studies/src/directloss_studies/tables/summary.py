"""What the study shows: mean AP and mean rank by noise, wins and worst tables, and a leaderboard to sort and filter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from ..harness.study import Claim, Comparison, Figure, Leaderboard, Record, Summary, Table
from ..report.figures import slug
from ..report.outcomes import Outcomes, Unit, records
from ..report.summary import methods_table, of_group
from ..report.words import percent, signed
from ..sweep import choose
from .boosting import TREES
from .config import LENGTHS, OFFICIAL, PROTOCOLS, Noise, Run
from .diagrams import critical_difference, mean_lines
from .objectives import METHODS, WARM
from .ranks import Ranks, holm, rank
from .tools import TOOLS

__all__ = ["summarise"]

ALL = (*METHODS, *TREES, *TOOLS)
BASELINE = "x-ent"
OURS = f"{WARM}pos-AP"
TIE = 0.005
"""Means that differ by less are a tie."""
EARLY = "stopped early"
ENDS = tuple(f"{length}×" for length in LENGTHS)
SHOWN = (ENDS[0], ENDS[-1])
"""Lengths with tables of their own."""
EXPLAINED = (
    "Mean over tables of the mean over seeds. Oracles know the rate of the noise. LightGBM and XGBoost are another "
    "model."
)

TIMES = {SHOWN[0]: "once", SHOWN[1]: "eightfold"}
"""How long a training is, in names of figures."""


class Variant(NamedTuple):
    """Protocol, kind of noise and training length."""

    protocol: str
    kind: str
    length: str

    @property
    def name(self) -> str:
        """In tables and published records."""
        return ", ".join(self)


def summarise(runs: Sequence[Run]) -> Summary:
    """Every length, and early stopping on noisy validation labels."""
    test, seconds = _collected(runs)
    official = _official(runs)
    variants = [
        Variant(protocol, kind, length)
        for protocol in PROTOCOLS
        for kind in dict.fromkeys(run.config.noise.kind for run in runs)
        for length in (*ENDS, EARLY)
        if test.levels(Variant(protocol, kind, length).name)
    ]
    shown = [of for of in variants if of.length in SHOWN]
    cells = {of: {noise: _cell(test, of.name, noise) for noise in test.levels(of.name)} for of in variants}
    means = {of: {noise: _of_all(cell) for noise, cell in levels.items()} for of, levels in cells.items()}
    ranks = {(of, noise): some for of in shown for noise, cell in cells[of].items() if (some := _ranks(cell))}
    flat = [
        *(record for of in variants for record in _mean_records(of, means[of])),
        *(record for (of, noise), some in ranks.items() for record in _rank_records(of, noise, some)),
        *(record for of in variants if of.length in (SHOWN[-1], EARLY) for record in _by_table(test, of)),
        *_official_records(official),
        *records("tables", "seconds", seconds),
    ]
    by_noise = [_table_by_noise(protocol, length, variants, means) for protocol, length in _pairs(variants)]
    lengths = [_table_by_length(of, means) for of in variants if of.length == SHOWN[0]]
    against = [_table_against(of, noise, means[of][noise], some) for (of, noise), some in ranks.items()]
    tables = [*by_noise, *lengths, *against, *_official_tables(official), *_seconds_table(seconds)]
    return Summary(
        flat,
        _claims(test, shown),
        tables,
        lambda: _figures(means, ranks, variants),
        _headline(means, variants),
        [_short(table) for table in by_noise[:2]],
        [_leaderboard(cells)] if variants else [],
    )


def _collected(runs: Sequence[Run]) -> tuple[Outcomes, Outcomes]:
    """Test AP by variant; and seconds of a training to the greatest length."""
    test, seconds = Outcomes(), Outcomes()
    for run in runs:
        config, result = run.config, run.result
        unit, protocol = Unit(config.seed, config.table), config.source.protocol
        for method in config.settings:
            validation, curve = result.validation[method], result.test[method]
            for place, length in enumerate(ENDS):
                value = choose(validation[: place + 1]).value(curve)
                test.put(Variant(protocol, config.noise.kind, length).name, config.noise.rate, method, unit, value)
            value = choose(validation, early_stopping=True).value(curve)
            test.put(Variant(protocol, config.noise.kind, EARLY).name, config.noise.rate, method, unit, value)
            timed = Unit(config.seed, f"{config.table}, {config.noise.kind} {config.noise.rate}")
            seconds.put(f"{protocol}, {ENDS[-1]}", 0.0, method, timed, result.seconds[method])
    return test, seconds


def _tables(units: Mapping[Unit, float]) -> dict[str, float]:
    """The mean over seeds of every table."""
    names = dict.fromkeys(unit.class_ or "" for unit in units)
    return {name: fmean(value for unit, value in units.items() if unit.class_ == name) for name in names}


Cell = dict[str, dict[str, float]]
"""By method: the mean over seeds of every table, at one noise."""
Means = dict[float, Cell]
"""By noise, of the tables that all networks have."""


def _cell(test: Outcomes, variant: str, noise: float) -> Cell:
    means = {method: _tables(test.units(variant, noise, method)) for method in ALL}
    return {method: tables for method, tables in means.items() if tables}


def _shared(cell: Cell) -> list[str]:
    """The tables that all networks have, or all methods if there is no network."""
    networks = [set(tables) for method, tables in cell.items() if method in METHODS]
    return sorted(set.intersection(*(networks or map(set, cell.values())))) if cell else []


def _of_all(cell: Cell) -> Cell:
    """The methods that have all tables that the networks share, on these tables."""
    shared = set(_shared(cell))
    return {
        method: {name: value for name, value in tables.items() if name in shared}
        for method, tables in cell.items()
        if shared and shared <= tables.keys()
    }


def _mean_records(of: Variant, means: Means) -> Iterator[Record]:
    for noise, methods in means.items():
        for method, values in methods.items():
            names = "tables", method, noise, of.name, None
            yield Record(*names, "test_ap", round(fmean(values.values()), 6), None, len(values))
            if method != BASELINE and BASELINE in methods:
                gains = _gains(methods, method)
                worst = min(gains, key=lambda name: gains[name])
                yield Record(*names, "minus_x-ent", round(fmean(gains.values()), 6), None, len(gains))
                yield Record(*names[:4], worst, "worst_minus_x-ent", round(gains[worst], 6), None, 1)


def _gains(methods: Mapping[str, Mapping[str, float]], method: str) -> dict[str, float]:
    """A method minus cross-entropy, by table."""
    return {name: value - methods[BASELINE][name] for name, value in methods[method].items()}


def _rank_records(of: Variant, noise: float, ranks: Ranks) -> Iterator[Record]:
    for method, value in ranks.means.items():
        yield Record("tables", method, noise, of.name, None, "mean_rank", round(value, 6), None, ranks.tables)


def _by_table(test: Outcomes, of: Variant) -> Iterator[Record]:
    for noise in test.levels(of.name):
        outcomes = test.only(of.name, noise)
        for name in dict.fromkeys(unit.class_ for method in ALL for unit in test.units(of.name, noise, method)):
            of_table = records("tables", "test_ap", outcomes.of_class(name or ""))
            for record in sorted(of_table, key=lambda record: ALL.index(record.method)):
                yield record._replace(class_=name)


def _ranks(cell: Cell) -> Ranks | None:
    """Of the networks, on the tables that all of them have."""
    networks, shared = [method for method in cell if method in METHODS], _shared(cell)
    if len(networks) < 2 or len(shared) < 2:
        return None
    return rank({method: [cell[method][name] for name in shared] for method in networks})


def _pairs(variants: Sequence[Variant]) -> list[tuple[str, str]]:
    lengths = (*SHOWN, EARLY)
    return [
        (protocol, length)
        for protocol in PROTOCOLS
        for length in lengths
        if any(of.protocol == protocol and of.length == length for of in variants)
    ]


def _table_by_noise(protocol: str, length: str, variants: Sequence[Variant], means: Mapping[Variant, Means]) -> Table:
    """Methods down; kinds of noise and their rates across."""
    columns = {
        _words(Noise(of.kind, noise)): methods
        for of in variants
        if (of.protocol, of.length) == (protocol, length)
        for noise, methods in means[of].items()
        if methods
    }
    number = {len(next(iter(methods.values()))) for methods in columns.values()}
    note = f"{EXPLAINED} Tables: {' or '.join(map(str, sorted(number)))}." if number else EXPLAINED
    return _over_columns(f"Test AP by noise, {protocol}, {_of(length)}", columns, note)


def _over_columns(title: str, cells: Mapping[str, Mapping[str, Mapping[str, float]]], note: str) -> Table:
    """Means over tables of all methods: `cells` has columns, methods and tables."""
    columns = {name: lambda method, of=methods: list(of.get(method, {}).values()) for name, methods in cells.items()}
    return methods_table(title, columns, ALL, note, shown=lambda values: f"{fmean(values):.3f}")


def _words(noise: Noise) -> str:
    if noise.given:
        return f"{noise.given} human labels"
    return "right labels" if not noise.rate else f"{percent(noise.rate)} {noise.kind}"


def _of(length: str) -> str:
    return "stopped early on noisy validation labels" if length == EARLY else f"length {length}"


def _table_by_length(of: Variant, means: Mapping[Variant, Means]) -> Table:
    """Methods down, lengths across, at the highest noise."""
    noise = max(means[of], default=0.0)
    columns = {length: means.get(of._replace(length=length), {}).get(noise, {}) for length in (*ENDS, EARLY)}
    title = f"Test AP by training length, {of.protocol}, {_words(Noise(of.kind, noise))}"
    return _over_columns(title, columns, EXPLAINED)


def _table_against(of: Variant, noise: float, methods: Cell, ranks: Ranks) -> Table:
    """Of every method: mean rank, wins, ties and losses against cross-entropy, and the worst table."""
    gains = {method: _gains(methods, method) for method in methods if method != BASELINE and BASELINE in methods}
    chances = holm({method: list(some.values()) for method, some in gains.items()})
    rows = []
    for method, values in methods.items():
        place = f"{ranks.means[method]:.1f}" if method in ranks.means else "–"
        cells = [method, f"{fmean(values.values()):.3f}", place]
        if method in gains:
            mine = gains[method]
            won = sum(gain > TIE for gain in mine.values())
            lost = sum(gain < -TIE for gain in mine.values())
            worst = min(mine, key=lambda name: mine[name])
            cells += [
                signed(fmean(mine.values())), f"{won} / {len(mine) - won - lost} / {lost}", f"{chances[method]:.3f}",
                f"{worst}: {signed(mine[worst])}",
            ]  # fmt: skip
        else:
            cells += ["–"] * 4
        rows.append(cells)
    header = ["method", "AP", "mean rank", "− x-ent", "won / tied / lost", "Wilcoxon, Holm", "worst table − x-ent"]
    note = (
        f"Means that differ by at most {TIE} are tied. Ranks are among networks. {ranks.tables} tables. "
        f"Friedman: p = {ranks.friedman:.2g}. Nemenyi's critical difference of mean ranks: {ranks.critical:.2f}."
    )
    title = f"Against cross-entropy: {of.protocol}, {_words(Noise(of.kind, noise))}, {_of(of.length)}"
    return Table(title, header, rows, note)


def _official(runs: Sequence[Run]) -> dict[tuple[str, float], dict[str, Outcomes]]:
    """Metrics of tables with lists at the greatest length, by variant and noise, then by metric; untuned runs."""
    official: dict[tuple[str, float], dict[str, Outcomes]] = {}
    for run in runs:
        config = run.config
        if config.source.protocol == PROTOCOLS[0]:
            for metric, curves in run.result.official.items():
                for place in (0, -1):
                    name = f"{config.table}, {Variant(PROTOCOLS[0], config.noise.kind, ENDS[place]).name}"
                    here = official.setdefault((name, config.noise.rate), {}).setdefault(metric, Outcomes())
                    for method, curve in curves.items():
                        here.put(name, config.noise.rate, method, Unit(config.seed), fmean(curve[place]))
    return official


def _official_records(official: Mapping[tuple[str, float], Mapping[str, Outcomes]]) -> Iterator[Record]:
    for metrics in official.values():
        for metric, outcomes in metrics.items():
            yield from records("tables", metric, outcomes)


def _official_tables(official: Mapping[tuple[str, float], Mapping[str, Outcomes]]) -> Iterator[Table]:
    for (name, noise), metrics in official.items():
        there = [m for m in ALL if metrics[OFFICIAL[0]].values(name, noise, m)]
        rows = [[m, *(f"{fmean(metrics[metric].values(name, noise, m)):.3f}" for metric in OFFICIAL)] for m in there]
        note = "Means over lists. High is good for top 1, low for the others. The error is that of sigmoids of scores."
        yield Table(f"Official metrics of {name}, {percent(noise)} wrong", ["method", *OFFICIAL], rows, note)


def _seconds_table(seconds: Outcomes) -> list[Table]:
    columns = {name: of_group(seconds, name) for name in dict.fromkeys(group.variant for group in seconds.groups())}
    note = "Processor seconds of one training to the greatest length, mean over runs. Networks train side by side."
    table = methods_table("Time of a training", columns, ALL, note, shown=lambda values: f"{fmean(values):.2f}")
    return [replace(table, best=())] if table.rows else []


def _claims(test: Outcomes, shown: Sequence[Variant]) -> list[Claim]:
    claims = []
    for method in (OURS, "pos-AP"):
        for other in (BASELINE, "GCE"):
            for of in shown:
                wrong = [noise for noise in test.levels(of.name) if Noise(of.kind, noise).is_wrong]
                compared = [_comparison(test, of, noise, method, other) for noise in wrong]
                if compared:
                    claims.append(Claim(f"With wrong labels, {method} beats {other}", of.name, compared, "ours"))
    return claims


def _comparison(test: Outcomes, of: Variant, noise: float, method: str, other: str) -> Comparison:
    """Differences of tables' means, so that seeds of a table are not taken for tables."""
    ours, theirs = (test.units(of.name, noise, name) for name in (method, other))
    shared = ours.keys() & theirs.keys()
    means = [_tables({unit: some[unit] for unit in sorted(shared)}) for some in (ours, theirs)]
    differences = tuple(means[0][name] - means[1][name] for name in means[0])
    human = Noise(of.kind, noise).given
    name = f"{method} − {other} at {percent(noise)}" if not human else f"{method} − {other}, {human} labels"
    return Comparison(name, differences, len({unit.seed for unit in shared}))


def _headline(means: Mapping[Variant, Means], variants: Sequence[Variant]) -> str:
    """The best of short and long trainings, at the highest symmetric noise."""
    parts = []
    noise = 0.0
    for length in SHOWN:
        of = Variant(PROTOCOLS[0], "symmetric", length)
        if of not in variants or not means[of] or not (methods := means[of][noise := max(means[of])]):
            return ""
        means_of = {method: fmean(values.values()) for method, values in methods.items() if method in METHODS}
        best = max(means_of, key=lambda method: means_of[method])
        named = dict.fromkeys((best, OURS, BASELINE))
        words = ", ".join(f"{method} {means_of[method]:.3f}" for method in named if method in means_of)
        parts.append(f"{words} (length {length})")
    where = f"With {percent(noise)} flipped labels" if noise else "With right labels"
    return f"{where}, untuned, mean test AP, the best network first: {'; '.join(parts)}."


def _leaderboard(cells: Mapping[Variant, Means]) -> Leaderboard:
    """A row for every table, noise, method, length and protocol."""
    rows = [
        (
            name, _words(Noise(of.kind, noise)), method, of.length, of.protocol, round(value, 4),
            round(value - cell[BASELINE][name], 4) if name in cell.get(BASELINE, {}) else None,
        )
        for of, levels in cells.items()
        if of.length in (*SHOWN, EARLY)
        for noise, cell in levels.items()
        for method, tables in cell.items()
        for name, value in tables.items()
    ]  # fmt: skip
    keys = "table", "noise", "method", "length", "protocol"
    begin = "mean", "each", "each", SHOWN[0], next(iter(cells)).protocol
    return Leaderboard("Leaderboard", keys, ("test AP", "− x-ent"), rows, begin)


def _short(table: Table) -> Table:
    """At most six columns, for a terminal."""
    columns = len(table.header[:6])
    best = {place for place in table.best if place[1] < columns}
    return Table(table.title, table.header[:6], [row[:6] for row in table.rows], table.note, best)


def _figures(
    means: Mapping[Variant, Means], ranks: Mapping[tuple[Variant, float], Ranks], variants: Sequence[Variant]
) -> list[Figure]:
    drawn = []
    for protocol in dict.fromkeys(of.protocol for of in variants):
        for length in SHOWN:
            if levels := means.get(Variant(protocol, "symmetric", length)):
                name = slug("tables", protocol, "mean AP", TIMES[length])
                flat = {100 * noise: _flat(cell) for noise, cell in levels.items()}
                drawn.append(mean_lines(name, f"Tables, {protocol}, {length}", flat, "flipped labels, %"))
        by_length = {length: means.get(Variant(protocol, "symmetric", length), {}) for length in ENDS}
        noise = max(by_length[SHOWN[0]], default=0.0)
        flat = {float(length[:-1]): _flat(levels[noise]) for length, levels in by_length.items() if levels}
        name = slug("tables", protocol, "training length", percent(noise), "flipped")
        title = f"Tables, {protocol}, {percent(noise)} flipped labels"
        drawn.append(mean_lines(name, title, flat, "training length", doubling=True))
    for (of, noise), some in ranks.items():
        words = f"{_words(Noise(of.kind, noise))}, {of.protocol}, {_of(of.length)}"
        name = slug("tables ranks", of.protocol, of.kind, percent(noise), TIMES[of.length])
        drawn.append(critical_difference(name, f"Mean ranks: {words}", some))
    return drawn


def _flat(cell: Cell) -> dict[str, float]:
    return {method: fmean(tables.values()) for method, tables in cell.items()}
