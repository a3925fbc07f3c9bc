"""The estimator: scikit-learn's own checks, and what it promises beside them."""

import pickle
import sys
import warnings
from importlib.util import find_spec, module_from_spec

import joblib
import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from directloss import (
    ROCAUC,
    AveragePrecision,
    FMeasure,
    LinearChain,
    MulticlassZeroOne,
    PositiveDirect,
    TrainingWarning,
)
from directloss.population import Population
from directloss.sklearn import DirectLossClassifier, _folds, _sigmoid, _threshold

SMALL = {"hidden": (8,), "weight_decay": 1.0, "epochs": 20, "batch_size": 64, "learning_rate": 0.03}
ONE = {**SMALL, "folds": 1}
X, Y = load_breast_cancer(return_X_y=True)


def table(rows=400, share=0.2, seed=0):
    """A table whose positives have larger sums of the first two features, and one column that is constant."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, 5)) * [1, 1, 100, 1e-3, 0] + [0, 0, 1e4, 0, 7]
    signal = features[:, 0] + features[:, 1]
    return features, signal > np.quantile(signal, 1 - share)


CHECKS = parametrize_with_checks(
    [
        DirectLossClassifier(**ONE),
        DirectLossClassifier(epochs=20, batch_size=64, calibrate=True),
    ]
)


@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)  # a list: pytest wants no generator
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_a_separable_table_is_learned():
    features, positive = table()
    for hidden in ((), (16,)):
        classifier = DirectLossClassifier(hidden=hidden, epochs=60, batch_size=100, random_state=0)
        classifier.fit(features, positive)
        scores = classifier.decision_function(features)
        assert average_precision_score(positive, scores) > 0.99
        assert classifier.predict(features).sum() == positive.sum()


def test_rows_that_were_not_seen_are_ranked():
    assert cross_val_score(DirectLossClassifier(**SMALL), X, Y == 0, scoring="average_precision", cv=3).mean() > 0.95


def test_the_same_seed_gives_the_same_and_leaves_random_numbers_of_torch_alone():
    features, positive = table()
    before = torch.get_rng_state()
    first, second, other = (
        DirectLossClassifier(**SMALL, random_state=seed).fit(features, positive) for seed in (3, 3, 4)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.decision_function(features) == second.decision_function(features)).all()
    assert (first.history_, first.candidates_) == (second.history_, second.candidates_)
    assert (first.decision_function(features) != other.decision_function(features)).any()


def test_a_copy_predicts_the_same_and_trains_on_the_same(tmp_path):
    features, positive = table()
    classifier = DirectLossClassifier(**ONE, random_state=0).fit(features, positive)
    joblib.dump(classifier, tmp_path / "classifier")
    copies = [pickle.loads(pickle.dumps(classifier)), joblib.load(tmp_path / "classifier")]
    expected = classifier.decision_function(features)
    after = classifier.partial_fit(features, positive).decision_function(features)
    for copy in copies:
        assert (copy.decision_function(features) == expected).all()
        assert (copy.partial_fit(features, positive).decision_function(features) == after).all()


def test_grid_search_takes_tasks_and_updates():
    grid = {"task": [None, AveragePrecision(), FMeasure()], "update": [PositiveDirect(0.1), None]}
    search = GridSearchCV(DirectLossClassifier(**SMALL, random_state=0), grid, scoring="average_precision", cv=2)
    search.fit(X, Y == 0)
    scores = search.cv_results_["mean_test_score"]
    assert scores.min() > 0.85
    assert scores[0] == scores[2]  # None is average precision


def test_pipelines_and_more_than_two_classes():
    features, positive = table()
    classes = positive.astype(int) + (features[:, 0] > 0)
    classifier = make_pipeline(PolynomialFeatures(2), DirectLossClassifier(**SMALL, random_state=0))
    assert classifier.fit(features, positive).score(features, positive) > 0.9
    assert OneVsRestClassifier(DirectLossClassifier(**SMALL, random_state=0)).fit(features, classes).n_classes_ == 3


@pytest.mark.parametrize("batch_size", [8, 50, 1000])
@pytest.mark.parametrize("settings", [{"hidden": (), "weight_decay": 1.0, "folds": 1}, {}])
def test_three_positives_are_enough(batch_size, settings):
    features, positive = table(rows=300, share=0.01)
    assert positive.sum() == 3
    classifier = DirectLossClassifier(**settings, epochs=20, batch_size=batch_size, random_state=0)
    classifier.fit(features, positive)
    assert average_precision_score(positive, classifier.decision_function(features)) > 0.5


@pytest.mark.parametrize(("positives", "negatives", "folds"), [(7, 93, 3), (40, 60, 5), (2, 2, 2)])
def test_every_row_trains_in_all_folds_but_one_at_most(positives, negatives, folds):
    target = torch.arange(positives + negatives) < positives
    found = _folds(target.numpy(), folds, torch.Generator().manual_seed(0))
    assert found.held_out.unique().numel() == found.held_out.numel()
    for train, held_out in zip(found.train, found.held_out, strict=True):
        assert torch.cat([train, held_out]).sort().values.equal(torch.arange(len(target)))
        assert target[held_out].sum() == positives // folds
        assert len(held_out) == positives // folds + negatives // folds
        first = held_out[: len(held_out) // 2 + 1]
        assert 0 < target[first].sum() <= -(-positives // folds // 2) + 1


def test_the_threshold_predicts_as_many_as_there_are():
    scores = np.array([0.3, 2.0, -1.0, 1.0, 0.5])
    assert _threshold(scores, np.array([True, True, False, False, False])) == 0.75
    assert _threshold(scores, np.array([True, True, True, True, False])) == pytest.approx(-0.35)


def test_probabilities_are_calibrated_on_rows_held_out():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=20000) * 3 + 5
    positive = generator.random(20000) < 1 / (1 + np.exp(-2 * (scores - 7)))
    threshold, slope = _sigmoid(scores, positive)
    assert (threshold, slope) == (pytest.approx(7, abs=0.1), pytest.approx(2, abs=0.1))
    features, _ = table(4000)
    labels = generator.random(4000) < 1 / (1 + np.exp(2 - 2 * features[:, 0]))
    classifier = DirectLossClassifier(**SMALL, calibrate=True, random_state=0)
    probabilities = classifier.fit(features[:3000], labels[:3000]).predict_proba(features[3000:])
    best = log_loss(labels[3000:], 1 / (1 + np.exp(2 - 2 * features[3000:, 0])))
    assert log_loss(labels[3000:], probabilities) < best + 0.05
    assert (probabilities[:, 1] > 0.5).tolist() == classifier.predict(features[3000:]).tolist()


def test_scores_that_say_nothing_give_the_share_of_positives():
    positive = np.arange(1000) < 100
    for scores in (np.zeros(1000), -positive.astype(float)):
        threshold, slope = _sigmoid(scores, positive)
        assert slope > 0
        np.testing.assert_allclose(1 / (1 + np.exp(-slope * (scores - threshold))), 0.1, atol=0.01)


def test_without_calibration_there_are_no_probabilities():
    classifier = DirectLossClassifier(**SMALL).fit(X, Y)
    assert not hasattr(classifier, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        classifier.predict_proba(X)
    assert "Pass calibrate=True" in str(caught.value.__cause__)
    assert hasattr(DirectLossClassifier(**SMALL, calibrate=True).fit(X, Y), "predict_proba")
    classifier = DirectLossClassifier(**SMALL, calibrate=True).partial_fit(X, Y)
    with pytest.raises(AttributeError) as caught:
        classifier.predict_proba(X)
    assert "After partial_fit" in str(caught.value.__cause__)


def test_rows_held_out_choose_the_model_and_its_end(capsys):
    features, positive = table()
    noisy = positive ^ (np.random.default_rng(0).random(len(positive)) < 0.3)
    for task, quality in ((AveragePrecision(), average_precision_score), (ROCAUC(), roc_auc_score)):
        classifier = DirectLossClassifier(task, epochs=60, random_state=0, verbose=True).fit(features, noisy)
        best, found = classifier.chosen_, classifier.candidates_
        assert best.quality == max(one.quality for one in found) == pytest.approx(quality(noisy, positive), abs=0.15)
        assert {one.hidden for one in found} == {(), (64, 64)}
        assert {one.weight_decay for one in found} >= {"adaptive", 3.0}
        epochs = sorted({one.epochs for one in found})
        assert best.epochs in epochs
        assert epochs[-1] <= max(60, 3 * 2**0.5 * best.epochs)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(epochs)
        assert lines[-1] == f"epoch {epochs[-1]:.1f} of 60: the best is {best}"


def test_the_classifier_is_the_mean_of_the_networks_of_all_folds():
    features, positive = table(3000)
    labels = positive ^ (np.random.default_rng(0).random(len(positive)) < 0.2)
    one = DirectLossClassifier(hidden=(8,), weight_decay=0.0, random_state=0).fit(features[:300], labels[:300])
    inputs = torch.from_numpy(one._scaler.transform(features)).float()
    each = [network(inputs).detach() for network in one.network_.networks]
    assert len(each) == 3
    scores = one.decision_function(features)
    np.testing.assert_allclose(scores + one.threshold_, torch.stack(each).mean(0), atol=1e-4)
    alone = [average_precision_score(positive[300:], scores[300:]) for scores in map(np.asarray, each)]
    assert average_precision_score(positive[300:], scores[300:]) > np.mean(alone)
    linear = DirectLossClassifier(hidden=(), random_state=0).fit(features, labels)
    assert [type(layer).__name__ for layer in linear.network_] == ["Linear", "Flatten"]  # so is the mean of linear ones


def test_networks_side_by_side_train_as_alone():
    features, positive = table(150)
    settings = {"hidden": (8,), "epochs": 5, "random_state": 0}
    both, alone = (
        DirectLossClassifier(**settings, weight_decay=decay).fit(features, positive).candidates_
        for decay in ("auto", 0.3)
    )
    assert [one.quality for one in both if one.weight_decay == 0.3] == pytest.approx([one.quality for one in alone])


def test_a_weight_decay_that_follows_overfitting_is_strong_where_nothing_can_be_learned():
    features, positive = table(300)
    settings = {"hidden": (), "weight_decay": "adaptive", "random_state": 0}
    nothing = np.random.default_rng(0).random((300, 60))

    def decay(features):
        classifier = DirectLossClassifier(**settings)
        classifier._check_parameters()
        classifier.classes_ = np.array([False, True])
        classifier._start(features.shape[1], 3)
        classifier._scaler = StandardScaler().fit(features)
        classifier._choose(features, positive)
        return float(classifier._population.stacks[0].overfitting.decay.mean())

    assert decay(nothing) > 5 > 1 > decay(features)


def test_the_warm_up_is_cross_entropy_and_partial_fit_has_one_too(monkeypatch):
    features, positive = table()
    settings = {**ONE, "batch_size": 100, "random_state": 0}
    warm, parts = [], DirectLossClassifier(**settings, warm_up=0.1)
    real = Population.step
    monkeypatch.setattr(Population, "step", lambda *of, **more: warm.append(more["warm"]) or real(*of, **more))
    for share, count in ((1.0, 80), (0.0, 0)):
        DirectLossClassifier(**settings, warm_up=share).fit(features, positive)
        assert warm == [True] * count + [False] * (80 - count)
        warm.clear()
    for _ in range(4):
        parts.partial_fit(features, positive)
    assert warm == [True] * 8 + [False] * 8
    assert len(parts.history_["loss"]) == 4


def test_the_model_is_the_mean_of_the_last_weights():
    features, positive = table()
    settings = {**ONE, "batch_size": 400, "random_state": 0, "warm_up": 0.0}  # one step an epoch

    def weights(epochs, average):
        network = DirectLossClassifier(**{**settings, "epochs": epochs, "average": average}).fit(features, positive)
        return torch.nn.utils.parameters_to_vector(network.network_.parameters()).detach()

    steps = [weights(epochs, 1) for epochs in (1, 2, 3)]
    torch.testing.assert_close(weights(3, 50), sum(steps) / 3)
    torch.testing.assert_close(weights(3, 2), steps[0] / 4 + steps[1] / 4 + steps[2] / 2)


def test_partial_fit_learns_from_parts_also_those_of_one_class():
    features, positive = table(1000)
    labels = np.where(positive, "yes", "no")
    classifier = DirectLossClassifier(**SMALL, random_state=0)
    classifier.partial_fit(features[~positive][:50], labels[~positive][:50], classes=["yes", "no"])
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert classifier.decision_function(features).shape == (1000,)
    for _ in range(5):
        for part in np.array_split(np.arange(1000), 4):
            classifier.partial_fit(features[part], labels[part])
    assert average_precision_score(positive, classifier.decision_function(features)) > 0.95
    with pytest.raises(ValueError, match=r"not among \['no', 'yes'\]: 'perhaps'"):
        classifier.partial_fit(features, np.full(1000, "perhaps"))


def test_a_row_scores_the_same_alone_and_with_others():
    classifier = DirectLossClassifier(**SMALL).fit(X, Y)
    alone = np.concatenate([classifier.decision_function(row[None]) for row in X[:20]])
    np.testing.assert_allclose(classifier.decision_function(X)[:20], alone, rtol=1e-12, atol=1e-12)


def test_settings_of_torch_do_not_matter():
    classifier = DirectLossClassifier(**SMALL, random_state=0)
    expected = classifier.fit(X, Y).decision_function(X)
    dtype = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            np.testing.assert_allclose(classifier.fit(X, Y).decision_function(X), expected, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_default_dtype(dtype)


def test_a_failed_fit_leaves_nothing_that_predicts():
    classifier = DirectLossClassifier(**ONE).fit(X, Y)
    with pytest.raises(ValueError, match="diverged"):
        classifier.set_params(learning_rate=1e25).fit(X, Y)
    with pytest.raises(NotFittedError):
        classifier.predict(X)
    assert classifier.set_params(learning_rate=0.03).partial_fit(X, Y).predict(X).shape == Y.shape


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_partial_fit_goes_on_from_what_was_chosen(hidden):
    features, positive = table(1000)
    settings = {**SMALL, "hidden": hidden, "learning_rate": 1e-9, "random_state": 0}
    classifier = DirectLossClassifier(**settings).fit(features[:500], positive[:500])
    classifier._scaler.partial_fit = lambda rows: classifier._scaler  # so that rows stay where they were
    before = classifier.decision_function(features) + classifier.threshold_
    after = classifier.partial_fit(features[500:], positive[500:])
    np.testing.assert_allclose(after.decision_function(features) + after.threshold_, before, atol=1e-4)
    learns = classifier.set_params(learning_rate=0.03)
    del learns._population
    moved = learns.partial_fit(features, ~positive).decision_function(features) + learns.threshold_
    assert np.abs(moved - before).max() > 0.01


REFUSED = [
    ({}, X, np.ones(len(X)), ValueError, "two classes; got 1 class"),
    ({}, X, np.arange(len(X)) % 3, ValueError, "Only binary classification is supported.*OneVsRestClassifier"),
    ({}, np.where(X > 1000, np.nan, X), Y, ValueError, "contains NaN"),
    ({}, np.where(X > 1000, np.inf, X), Y, ValueError, "contains infinity"),
    ({"calibrate": True}, X[:10], np.arange(10) == 0, ValueError, "class True has 1 row. Pass calibrate=False"),
    ({"calibrate": True, "folds": 1}, X, Y, ValueError, r"calibrate=True needs rows held out. Pass folds=3"),
    ({"weight_decay": "adaptive", "folds": 1}, X, Y, ValueError, r"weight_decay='adaptive' needs rows held out"),
    ({"weight_decay": "strong"}, X, Y, ValueError, "weight_decay may be 'auto' or 'adaptive', .*; got 'strong'"),
    ({"hidden": "auot"}, X, Y, ValueError, "hidden may be 'auto', or a value of another kind; got 'auot'"),
    ({"hidden": 64}, X, Y, TypeError, r"hidden must be a tuple .* pass \(64,\)"),
    ({"hidden": (0,)}, X, Y, ValueError, "a width in hidden must be at least 1"),
    ({"batch_size": 0}, X, Y, ValueError, "batch_size must be at least 1"),
    ({"epochs": 1.5}, X, Y, TypeError, "epochs must be an integer"),
    ({"folds": 0}, X, Y, ValueError, "folds must be at least 1"),
    ({"learning_rate": 0}, X, Y, ValueError, "learning_rate must be a finite number, more than 0"),
    ({"learning_rate": 1e25}, X, Y, ValueError, "diverged in epoch 1.*smaller learning_rate"),
    ({}, X * [1.0, 1e200, *[1.0] * (X.shape[1] - 2)], Y, ValueError, "column 1 of X holds numbers up to .*e\\+20"),
    ({"learning_rate": 1e25, "warm_up": 1.0}, X, Y, ValueError, "diverged in epoch 1.*smaller learning_rate"),
    ({"weight_decay": -1.0}, X, Y, ValueError, "weight_decay must be a finite number, 0 or more"),
    ({"warm_up": 1.1}, X, Y, ValueError, "warm_up must be a share"),
    ({"task": AveragePrecision}, X, Y, TypeError, "task must be an instance"),
    ({"task": LinearChain()}, X, Y, TypeError, "task must be one on lists of 0 and 1"),
    ({"task": MulticlassZeroOne()}, X, Y, TypeError, "task must be one on lists of 0 and 1"),
    ({"update": 1.0}, X, Y, TypeError, "update must be an instance"),
]


@pytest.mark.parametrize(("settings", "features", "labels", "kind", "message"), REFUSED)
def test_what_cannot_be_is_refused_with_a_cure(settings, features, labels, kind, message):
    with pytest.raises(kind, match=message):
        DirectLossClassifier(**{**SMALL, **settings}).fit(features, labels)


def test_weights_of_rows_are_refused():
    for method in ("fit", "partial_fit"):
        with pytest.raises(TypeError, match=r"no sample_weight.*NP-hard.*Draw rows"):
            getattr(DirectLossClassifier(), method)(X, Y, sample_weight=np.ones(len(X)))
        with pytest.raises(TypeError, match="unexpected argument 'weights'"):
            getattr(DirectLossClassifier(), method)(X, Y, weights=np.ones(len(X)))
        getattr(DirectLossClassifier(**SMALL), method)(X, Y, sample_weight=None)  # as meta-estimators do


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    spec = find_spec("directloss.sklearn")
    assert spec
    assert spec.loader
    with pytest.raises(ModuleNotFoundError, match=r"pip install scikit-learn"):
        spec.loader.exec_module(module_from_spec(spec))


def test_a_class_of_one_row_gives_one_warning_with_a_cure():
    y = np.where(np.arange(40) == 0, "yes", "no")
    x = X[:40]
    with pytest.warns(TrainingWarning, match="class 'yes' has 1 row.*pass folds=1") as warned:
        found = DirectLossClassifier(epochs=2, random_state=0).fit(x, y)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert np.isnan(found.chosen_.quality)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = DirectLossClassifier(epochs=2, random_state=0, folds=1).fit(x, y)
    np.testing.assert_array_equal(same.decision_function(x), found.decision_function(x))


def test_the_second_class_in_sorted_order_is_ranked_first():
    names = np.where(Y == 1, "fraud", "ok")
    found = DirectLossClassifier(hidden=(), epochs=5, folds=1, random_state=0).fit(X, names)
    assert found.classes_.tolist() == ["fraud", "ok"]
    scores = found.decision_function(X)
    assert scores[names == "ok"].mean() > scores[names == "fraud"].mean()
    turned = DirectLossClassifier(hidden=(), epochs=5, folds=1, random_state=0).fit(X, names == "fraud")
    scores = turned.decision_function(X)
    assert scores[names == "fraud"].mean() > scores[names == "ok"].mean()
