"""Own metric: losses and metrics as their papers say, whole lists, splits that share nothing, and choices."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from directloss_studies.data import tabular
from directloss_studies.data.queries import read_lambdarank, read_letor
from directloss_studies.data.tabular import TableError, read_table
from directloss_studies.harness.options import DataOptions
from directloss_studies.harness.study import Provenance
from directloss_studies.own_metric.boosting import is_installed
from directloss_studies.own_metric.config import AT_ZERO, METRICS, Config, Result, Run
from directloss_studies.own_metric.lists import Lists
from directloss_studies.own_metric.metrics import measure
from directloss_studies.own_metric.objectives import DIRECT, FALLING, OTHERS, direct, falling
from directloss_studies.own_metric.sets import MADE, SETS, split
from directloss_studies.own_metric.study import STUDY, _tasks, prepare
from directloss_studies.sweep import Setting

from directloss import NDCG

SIZES = (3, 7, 5)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def lists(sizes=SIZES, positive=2, columns=4, seed=0):
    items = sum(sizes)
    grades = torch.randint(4, (items,), generator=generator(seed))
    starts = np.cumsum([0, *sizes[:-1]])
    grades[starts], grades[starts + 1] = 0, 3  # every list has a positive and a negative
    return Lists(torch.randn((items, columns), generator=generator(seed)), grades, torch.tensor(sizes), positive)


def problems(networks=2, **options):
    """Padded lists, and the same as separate lists: scores, grades."""
    some = lists(**options)
    scores = torch.randn((networks, len(some.grades)), generator=generator(1), dtype=torch.float64)
    padded = some.pad(scores, torch.arange(len(some.grades)))
    parts = [list(zip(part, some.grades.split(SIZES), strict=True)) for part in (row.split(SIZES) for row in scores)]
    return padded, parts


def test_a_falling_k_goes_from_half_of_the_longest_list_to_that_of_the_metric():
    some = lists(sizes=(3, 40, 5))
    scores = torch.randn((2, len(some.grades)), generator=generator(1), dtype=torch.float64)
    padded, strengths = some.pad(scores, torch.arange(len(some.grades))), torch.ones(2, dtype=torch.float64)
    loss = falling("NDCG@10", 5, iterations=3).loss
    values = [loss(padded, strengths) for _ in range(4)]
    for value, k in zip(values, (20, 10, 5, 5), strict=True):
        torch.testing.assert_close(value, direct(NDCG(k), graded=True).loss(padded, strengths))


def test_padding_keeps_every_list_and_gradients_go_back():
    some = lists()
    scores = torch.arange(15.0).repeat(2, 1).requires_grad_()
    chosen = some.items(torch.tensor([2, 0]))
    assert chosen.tolist() == [10, 11, 12, 13, 14, 0, 1, 2]
    padded = some.pad(scores[:, chosen], chosen)
    assert padded.scores[0].tolist() == [[10, 11, 12, 13, 14], [0, 1, 2, 0, 0]]
    assert padded.mask.tolist() == [[True] * 5, [True] * 3 + [False] * 2]
    assert padded.grades[0].tolist() == some.grades[10:].tolist()
    assert torch.equal(padded.target, (padded.grades >= 2) & padded.mask)
    padded.scores.sum().backward()
    assert scores.grad is not None
    assert scores.grad.sum(1).tolist() == [8, 8]


def test_batches_are_whole_lists_pass_after_pass():
    some = lists()
    batches = some.batches(2, generator())
    for _ in range(6):
        items = next(batches)
        assert items is not None
        assert sorted(some.sizes[some.numbers[items].unique()].tolist()) == sorted(
            some.numbers[items].bincount()[some.numbers[items].unique()].tolist()
        )
        assert len(some.numbers[items].unique()) == 2
    assert next(some.batches(None, generator())) is None


def ranknet(scores, grades, scale):
    pairs = [(i, j) for i in range(len(scores)) for j in range(len(scores)) if grades[i] > grades[j]]
    return sum(math.log1p(math.exp(-scale * (scores[i] - scores[j]))) / scale for i, j in pairs) / len(pairs)


def dcg(order, k=None):
    return sum((2 ** int(grade) - 1) / math.log2(rank + 2) for rank, grade in enumerate(order[:k]))


def lambdarank(scores, grades, scale):
    order = scores.argsort(descending=True).tolist()
    total = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if grades[i] > grades[j]:
                swapped = list(order)
                a, b = order.index(i), order.index(j)
                swapped[a], swapped[b] = j, i
                change = abs(dcg(grades[swapped], 10) - dcg(grades[order], 10))
                best = dcg(grades.sort(descending=True).values, 10)
                total += change / best * math.log1p(math.exp(-scale * (scores[i] - scores[j]))) / scale
    return total


def listnet(scores, grades, temperature):
    wanted, found = (grades / temperature).softmax(0), scores.softmax(0)
    return -sum(float(p) * math.log(q) for p, q in zip(wanted, found, strict=True))


def approx_ndcg(scores, grades, temperature):
    total = 0.0
    for i in range(len(scores)):
        rank = 1 + sum(1 / (1 + math.exp((scores[i] - scores[j]) / temperature)) for j in range(len(scores)) if j != i)
        total += (2 ** int(grades[i]) - 1) / math.log2(1 + rank)
    return 1 - total / dcg(grades.sort(descending=True).values)


def cross_entropy(scores, grades, weight):
    values = [
        weight * math.log1p(math.exp(-score)) if grade >= 2 else math.log1p(math.exp(score))
        for score, grade in zip(scores.tolist(), grades, strict=True)
    ]
    return sum(values) / len(values)


PLAIN = {
    "BCE": cross_entropy,
    "RankNet": ranknet,
    "ListNet": listnet,
    "LambdaRank": lambdarank,
    "ApproxNDCG": approx_ndcg,
}


@pytest.mark.parametrize("name", OTHERS)
def test_losses_are_those_of_their_papers(name):
    padded, parts = problems()
    strengths = torch.tensor([0.7, 3.0], dtype=torch.float64)
    expected = [
        sum(PLAIN[name](scores, grades, float(strength)) for scores, grades in part) / len(part)
        for part, strength in zip(parts, strengths, strict=True)
    ]
    found = OTHERS[name].loss(padded, strengths)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_masked_changes_nothing(name):
    padded, _ = problems()
    other = padded._replace(scores=padded.scores.where(padded.mask, 50.0).requires_grad_())
    strengths = torch.tensor([0.7, 3.0], dtype=torch.float64)
    value = OTHERS[name].loss(other, strengths)
    torch.testing.assert_close(value, OTHERS[name].loss(padded, strengths))
    (gradient,) = torch.autograd.grad(value.sum(), other.scores)
    assert (gradient[:, ~padded.mask] == 0).all()
    assert gradient.any()


def test_metrics_are_those_of_scikit_learn():
    from sklearn.metrics import average_precision_score, f1_score, ndcg_score, roc_auc_score

    padded, parts = problems()
    tasks = {name: task for name, task in _tasks(SETS["lambdarank"]).items() if name != "F1"}
    found, same = measure(padded, padded, tasks)
    assert found.keys() == same.keys() == {*METRICS, AT_ZERO}
    for network, part in enumerate(parts):
        target = [(grades >= 2).numpy() for _, grades in part]
        scores = [scores.numpy() for scores, _ in part]
        pairs = list(zip(target, scores, strict=True))
        gains = [2.0 ** grades.numpy() - 1 for _, grades in part]
        best = [np.sort(each)[::-1][:5].sum() / 5 for each in target]
        selected = [each[np.argsort(-order)[:5]].sum() / 5 for each, order in pairs]
        assert all(a >= b for a, b in zip(best, selected, strict=True))
        expected = {
            "AP": [average_precision_score(*pair) for pair in pairs],
            "AUC": [roc_auc_score(*pair) for pair in pairs],
            "NDCG@10": [ndcg_score(gain[None], order[None], k=10) for gain, order in zip(gains, scores, strict=True)],
            "P@k": selected,
            AT_ZERO: [f1_score(each, order >= 0) for each, order in pairs],
        }
        for name, values in expected.items():
            assert float(found[name][network]) == pytest.approx(np.mean(values)), name
        thresholds = np.concatenate(scores)
        highest = max(np.mean([f1_score(each, order >= at) for each, order in pairs]) for at in thresholds)
        assert float(found["F1"][network]) == pytest.approx(highest)


def test_threshold_of_f1_comes_from_validation_data():
    some = Lists(torch.zeros(4, 1), torch.tensor([1, 1, 0, 0]), torch.tensor([4]), 1)
    items = torch.arange(4)
    validation = some.pad(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), items)
    test = some.pad(torch.tensor([[1.9, 5.0, 2.5, 0.0]]), items)
    tasks = {name: task for name, task in _tasks(MADE["made table"]).items() if name != "F1"}
    on_validation, on_test = measure(validation, test, tasks)
    assert on_validation["F1"].tolist() == [1.0]
    assert on_test["F1"].tolist() == [0.5]


def test_scores_that_are_not_finite_measure_zero():
    padded, _ = problems()
    padded.scores[1, 0, 0] = torch.nan
    tasks = {name: task for name, task in _tasks(SETS["lambdarank"]).items() if name != "F1"}
    for found in measure(padded, padded, tasks):
        for name, values in found.items():
            assert values[1] == 0, name
            assert 0 < values[0] <= 1, name


@pytest.mark.parametrize("name", MADE)
def test_splits_share_no_item_and_are_standardised(name):
    of = MADE[name]
    parts = split(of, "", 3)
    grades = of.read(Path()).grades
    assert sum(len(part.grades) for part in parts) == len(grades)
    lengths = [len(part.grades) for part in parts]
    if of.is_table:
        assert max(lengths) - min(lengths) <= 2
        assert [int((part.grades >= of.positive).sum()) for part in parts] == [20, 20, 20]
    else:
        assert [len(part) for part in parts] == [36, 12, 12]
        assert all((part.sizes == 20).all() for part in parts)
    train = parts[0].inputs
    torch.testing.assert_close(train.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(train.std(0), torch.ones(6))
    rows = {tuple(row) for part in parts for row in part.inputs.tolist()}
    assert len(rows) == len(grades)
    assert torch.equal(split(of, "", 3)[2].inputs, parts[2].inputs)
    assert not torch.equal(split(of, "", 4)[2].inputs, parts[2].inputs)


def made_config(method, name="made queries", **changes):
    source, notes = prepare(DataOptions())
    assert notes == []
    (config,) = [
        config
        for config in STUDY.configs(DataOptions(seeds=1), source)
        if config.data == name and config.method == method
    ]
    return replace(config, **changes)


@pytest.mark.parametrize("method", [*DIRECT.values(), *FALLING.values(), *OTHERS])
def test_every_method_learns(method):
    result = STUDY.run(made_config(method, iterations=40), lambda share: None)
    assert result.iterations == tuple(range(4, 41, 4))
    assert max(result.validation["AUC"][-1]) > 0.6


def test_lambdamart_runs_where_lightgbm_is_installed_and_says_what_to_install():
    base = made_config("BCE", iterations=10)
    config = replace(base, method="LambdaMART", settings=(Setting(4.0, 0.1, 0.0), Setting(8.0, 0.1, 0.0)))
    if is_installed():
        result = STUDY.run(config, lambda share: None)
        result.check(config)
        assert STUDY.run(config, lambda share: None) == result
        assert max(result.test["AUC"][-1]) > 0.6
    else:
        with pytest.raises(ModuleNotFoundError, match="pip install lightgbm"):
            STUDY.run(config, lambda share: None)


def run_of(method, seed, value, metric="AP"):
    """A run with two settings; the second is best on validation data, and has this value on test data."""
    settings = (Setting(1.0, 0.01, 0.0), Setting(10.0, 0.01, 0.0))
    curve = ((0.1, 0.2), (0.3, 0.3))
    flat = dict.fromkeys((*METRICS, AT_ZERO), curve)
    chosen = {**flat, metric: ((0.1, 0.9), (0.3, 0.3))}
    test = {**flat, metric: ((0.0, value), (0.5, 0.5))}
    config = Config(method, seed, "made table", None, 2, settings)
    return Run(config, Result((1, 2), chosen, test, (0.0, 0.5)), Provenance(1.0))


def test_summary_chooses_by_the_metric_of_the_column_and_pairs_seeds():
    runs = [run_of("direct AP", seed, 0.8 + 0.01 * seed) for seed in range(3)]
    runs += [run_of("BCE", seed, 0.7 + 0.02 * seed) for seed in range(3)]
    summary = STUDY.summarise(runs)
    found = {(r.method, r.variant, r.metric): (round(r.mean, 6), r.n) for r in summary.records}
    assert found["direct AP", "made table", "test AP"] == (0.81, 3)
    assert found["direct AP", "made table, to the end", "test AP"] == (0.5, 3)
    assert found["BCE", "made table", "own minus this AP"] == (0.09, 3)
    assert found["BCE", "made table", "dead_gradients"] == (0.25, 3)
    (claim,) = [claim for claim in summary.claims if claim.says.endswith("training on a metric beats cross-entropy")]
    assert claim.comparisons[0].differences == pytest.approx((0.1, 0.09, 0.08))
    assert claim.comparisons[1].differences == ()
    assert summary.tables[0].rows[0] == ["direct AP", "0.810 ± 0.010", *["0.300 ± 0.000"] * 5]
    (figure,) = summary.figures()
    assert figure.name == "own-metric-made-table"
    assert "AP direct AP" in figure.alt


def write_data(folder, rows=90):
    (folder / "tabular").mkdir(parents=True)
    values = np.random.default_rng(0).normal(size=(rows, 3))
    np.savez_compressed(folder / "tabular" / "2_annthyroid.npz", X=values, y=(values[:, 0] > 1).astype(int))
    (folder / "ranking").mkdir()
    for name in ("rank.train", "rank.test"):
        lines = [f"{k % 4} 1:{k % 4 + 0.5} 3:{k % 7}" for k in range(40)]
        (folder / "ranking" / name).write_text("\n".join(lines) + "\n")
        (folder / "ranking" / f"{name}.query").write_text("8\n8\n8\n16\n")


def test_data_of_a_folder_are_found_cached_and_run(tmp_path, monkeypatch):
    monkeypatch.setenv("DIRECTLOSS_CACHE", str(tmp_path / "cache"))
    write_data(tmp_path / "data")
    source, notes = prepare(DataOptions(data=tmp_path / "data"))
    assert [part.name for part in source.parts] == ["annthyroid", "lambdarank"]
    assert "23_mammography.npz, mq2007-agg" in notes[0]
    train, validation, test = split(SETS["lambdarank"], source.key("lambdarank"), 0)
    assert [len(part) for part in (train, validation, test)] == [6, 1, 1]
    assert train.inputs.shape[1] == 3
    for config in STUDY.configs(DataOptions(seeds=1), source):
        if config.method in ("direct NDCG@10", "BCE"):
            STUDY.run(replace(config, iterations=3), lambda share: None).check(replace(config, iterations=3))


def test_a_folder_without_data_and_a_study_without_a_folder_say_the_cure(tmp_path):
    with pytest.raises(ValueError, match=r"holds none of .*--data DIR"):
        prepare(DataOptions(data=tmp_path))
    with pytest.raises(ValueError, match=r"Name the folder with the data: --data DIR"):
        prepare(DataOptions(preset="paper"))
    (config, *_) = STUDY.configs(DataOptions(preset="paper"), None)
    with pytest.raises(ValueError, match=r"reproduce own-metric --data DIR"):
        STUDY.run(config, lambda share: None)


def bad_tables():
    good = {"X": np.zeros((4, 2)), "y": np.array([0, 1, 0, 1])}
    yield "missing y", {"X": good["X"]}, "must hold one array y; it holds 0"
    yield "lengths", {**good, "X": np.zeros((5, 2))}, r"got \(5, 2\) and \(4,\)"
    yield "dimensions", {**good, "X": np.zeros(4)}, "X must be 2-dimensional"
    yield "text", {**good, "X": np.array([["a", "b"]] * 4)}, "real numbers; got <U1"
    yield "labels", {**good, "y": np.array([0, 1, 2, 1])}, "y must hold 0 and 1"
    yield "one class", {**good, "y": np.zeros(4)}, "both of them"
    yield "not finite", {**good, "X": np.full((4, 2), np.nan)}, "not finite"
    yield "too large", {**good, "X": np.full((4, 2), 1e300)}, "not finite"
    yield "columns", {**good, "X": np.zeros((4, 5000))}, "1 to 4096 columns"
    yield "pickle", {**good, "X": np.array([[{}, 1]] * 4, dtype=object)}, "Object arrays cannot be loaded"


@pytest.mark.parametrize(("arrays", "says"), [case[1:] for case in bad_tables()], ids=[c[0] for c in bad_tables()])
def test_bad_tables_are_refused_in_words(tmp_path, arrays, says):
    path = tmp_path / "table.npz"
    np.savez(path, **arrays)
    with pytest.raises(TableError, match=says):
        read_table(path)


def test_files_that_are_no_tables_are_refused_in_words(tmp_path, monkeypatch):
    path = tmp_path / "table.npz"
    with pytest.raises(TableError, match="is missing"):
        read_table(path)
    path.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(TableError, match="is not an npz file"):
        read_table(path)
    np.savez_compressed(path, X=np.zeros((100_000, 20)), y=np.zeros(100_000))
    monkeypatch.setattr(tabular, "LARGEST", 1 << 20)
    with pytest.raises(TableError, match="16000128 bytes, more than the 1048576 that are read"):
        read_table(path)


def test_letor_lines_have_a_rank_or_none(tmp_path):
    for number in range(1, 6):
        (tmp_path / f"A{number}.txt").write_text(
            "2 qid:7 1:1 2:NULL #docid = a inc = 1\n0 qid:7 1:NULL 2:20 #docid = b\n1 qid:9 1:3 2:4\n"
        )
    inputs, grades, sizes = read_letor(tmp_path)
    assert inputs[:3].tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, pytest.approx(math.log(20))],
        [1, 1, pytest.approx(math.log(3)), pytest.approx(math.log(4))],
    ]
    assert grades[:3].tolist() == [2, 0, 1]
    assert sizes.tolist() == [2, 1] * 5


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "line 2: not enough values"),
        ("x 1:2", "line 2: invalid literal"),
        ("-1 1:2", "line 2: a grade must be from 0 to 31; got -1"),
        ("1 1:2 1:3", "line 2: columns must be different numbers from 1 to 4096"),
        ("1 1:nan", "line 2: values must be finite"),
        ("1 qid:5 1:2", "either all or none of them a qid"),
        ("1 1:é", "is not a text of numbers"),
    ],
)
def test_bad_lines_are_refused_in_words(tmp_path, line, says):
    for name in ("rank.train", "rank.test"):
        (tmp_path / name).write_text(f"1 1:2\n{line}\n0 2:1\n", encoding="utf-8")
        (tmp_path / f"{name}.query").write_text("3\n")
    with pytest.raises(TableError, match=says):
        read_lambdarank(tmp_path)


@pytest.mark.parametrize(("sizes", "says"), [("2\n2\n", "add up to 3; got 4"), ("x\n", "integer"), ("0\n3\n", "add")])
def test_query_sizes_must_add_up(tmp_path, sizes, says):
    for name in ("rank.train", "rank.test"):
        (tmp_path / name).write_text("1 1:2\n0 1:1\n0 2:1\n")
        (tmp_path / f"{name}.query").write_text(sizes)
    with pytest.raises(TableError, match=says):
        read_lambdarank(tmp_path)
