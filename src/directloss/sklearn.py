"""A classifier for scikit-learn that trains on the metric itself: `DirectLossClassifier`.

It needs the extra `sklearn`. Nothing else in the library imports this module.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from .adaptive_decay import EVERY
from .advice import TrainingWarning
from .checks import check_count, check_layers, check_parts, check_positive, check_rate, check_share, check_word
from .loss import StructuredLoss
from .population import MOST_LISTS, Candidate, Mean, Member, Population, batches, linear, steps_of
from .task import Task
from .tasks import AveragePrecision
from .update import PositiveDirect, Update

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_random_state, validation
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "directloss.sklearn needs scikit-learn; install it with: pip install scikit-learn", name=error.name
    ) from error

__all__ = ["DirectLossClassifier"]

COMMON = 0.5  # share of rows above which a class that is named by a word is seldom the one to rank first
CHUNK = 1 << 16  # rows that are scored at once
LARGEST = 1e100  # number in a column whose variance can be taken
AUTO = (), (64, 64)
RATES = {False: 0.03, True: 0.005}  # by whether there are hidden layers
DECAYS: dict[bool, tuple[float | str, ...]] = {False: (3.0, 1.0, 0.3, 0.03), True: (0.3, "adaptive")}
STRENGTHS = (0.001, 0.01, 0.1, 1.0)  # C of the logistic regressions with which linear models of these decays begin
ALONE = 3.0  # the weight decay where nothing is chosen
EPOCHS, FEWEST = 100, 300  # epochs, and at least so many steps
LOOKS = 14
PATIENCE = 3  # times as long as the best model needed


def _has_probabilities(classifier: Any) -> bool:
    if not classifier.calibrate:
        raise AttributeError(
            "Scores are not probabilities. Pass calibrate=True: fit then holds out rows, and calibrates scores on them."
        )
    if hasattr(classifier, "threshold_") and not hasattr(classifier, "slope_"):
        raise AttributeError("After partial_fit there are no probabilities: it holds out no rows. Call fit.")
    return True


class DirectLossClassifier(ClassifierMixin, BaseEstimator):
    """A classifier for two classes, trained to rank the rows of the second class, in sorted order, first.

    Every batch of rows is one list for the task. `fit` standardises the features, begins with cross-entropy that gives
    both classes the same weight, takes batches that all have rows of both classes, and averages weights over steps.

    By default it chooses by itself. It trains linear models, which begin as logistic regressions, and networks, with
    several weight decays, side by side on `folds` parts of the rows. The task's metric on the rows that each of them
    did not see chooses the model and when its training should have ended. These rows need no better labels than the
    others. The classifier is the mean of the chosen networks of all folds.

    `predict` needs a threshold. It is chosen so that as many training rows are predicted positive as are positive. With
    `calibrate=True` `predict` gives the more probable class instead, by `predict_proba`.

    There is no `sample_weight`: with weights of rows, exact inference would be NP-hard.

    Args:
        task: what to optimise, a task on lists of 0 and 1; None: `AveragePrecision()`.
        update: which update; None: `PositiveDirect(epsilon)`.
        epsilon: the ε of that update, so that a grid search can choose it.
        hidden: the widths of hidden layers; `()` is a linear model; "auto": `()` and `(64, 64)`.
        weight_decay: of AdamW, or "adaptive": it follows overfitting, as `AdaptiveDecay`; "auto": several.
        folds: parts of the rows, each of which is held out once; 1: hold out none, and take the last weights.
        batch_size: rows in a batch, approximately. Every batch has its share of positives, and at least one. If there
            are fewer positives than batches, they repeat.
        epochs: passes over the rows, at most; None: 100, or more if they are fewer than 300 batches. It ends earlier
            when it is three times as long as the best model needed.
        learning_rate: of AdamW; None: 0.005 for a network, 0.03 for a linear model.
        warm_up: the share of all steps, at the beginning, that use cross-entropy.
        average: the model is the mean of the weights after about so many last steps; 1: the last weights.
        calibrate: fit a sigmoid to the scores of rows that were held out (Platt scaling), for `predict_proba`.
        random_state: a seed or a RandomState, for the same result every time. torch's own random numbers stay as they
            are.
        device: where to train, as torch names it. Predictions are made on the CPU, in float64.
        verbose: print a line each time that the models are measured.

    Attributes:
        classes_: the two classes in sorted order, as in all of scikit-learn. The second one is positive and ranked
            first: 1 of 0 and 1, "yes" of "no" and "yes", but "ok" of "fraud" and "ok". To rank the first one first,
            fit `y == "fraud"`.
        chosen_: hidden layers, weight decay and epochs of the model, and its quality: the mean over folds of the
            task's metric on rows held out, NaN without folds.
        candidates_: the same of every model, each time that they were measured.
        history_: "loss": the mean over models and steps, one number an epoch; it is cross-entropy in the warm-up.
        threshold_: what `decision_function` subtracts from the network's score.
        network_: the network, for standardised features, with averaged weights.

    >>> from sklearn.datasets import load_breast_cancer
    >>> classifier = DirectLossClassifier(hidden=(), random_state=0).fit(*load_breast_cancer(return_X_y=True))
    >>> classifier.predict(load_breast_cancer().data[:3])
    array([0, 0, 0])
    """

    def __init__(
        self,
        task: Task | None = None,
        update: Update | None = None,
        *,
        epsilon: float = 1.0,
        hidden: tuple[int, ...] | str = "auto",
        weight_decay: float | str = "auto",
        folds: int = 3,
        batch_size: int = 512,
        epochs: int | None = None,
        learning_rate: float | None = None,
        warm_up: float = 0.1,
        average: int = 50,
        calibrate: bool = False,
        random_state: Any = None,
        device: Any = "cpu",
        verbose: bool = False,
    ) -> None:
        self.task = task
        self.update = update
        self.epsilon = epsilon
        self.hidden = hidden
        self.weight_decay = weight_decay
        self.folds = folds
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.warm_up = warm_up
        self.average = average
        self.calibrate = calibrate
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _more_tags(self) -> dict[str, Any]:  # before scikit-learn 1.6
        return {"binary_only": True}

    def fit(self, X: ArrayLike, y: ArrayLike, **refused: Any) -> Self:
        """Train on rows X (rows, features) with labels y, two classes of any kind."""
        _refuse(refused)
        self._check_parameters()
        features, positive = self._rows(X, y, classes=None, first=True)
        folds = self._number_of_folds(positive)
        self._start(features.shape[1], folds)
        self._scaler = StandardScaler().fit(features)
        if folds == 1:
            self._train(features, positive)
        else:
            held_out = self._choose(features, positive)
            del self._population  # what was not chosen
            if self.calibrate:
                self.threshold_, self.slope_ = _sigmoid(*held_out)
                return self
        self.threshold_ = _threshold(self._scores(features), positive)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, **refused: Any) -> Self:
        """Train one epoch on these rows, from where the last call of `fit` or `partial_fit` ended.

        The first call needs both classes, in y or in `classes`. The warm-up is as long as if `epochs` calls like the
        first one were to come. Features are standardised by the rows of all calls. The threshold is that of the rows of
        this call. Rows of one class only teach nothing. No rows are held out, so nothing is chosen: "auto" stands for
        a network with hidden layers (64, 64), and every word for a weight decay of 3.
        """
        _refuse(refused)
        self._check_parameters()
        first = not hasattr(self, "threshold_")
        features, positive = self._rows(X, y, classes, first)
        if first:
            self._start(features.shape[1], 1)
            self._scaler, self.threshold_ = StandardScaler(), 0.0
        elif not hasattr(self, "_population"):
            self._go_on(features.shape[1])
        self._scaler.partial_fit(features)
        self.__dict__.pop("slope_", None)
        if positive.any() and not positive.all():
            self._train(features, positive, epochs=1)
            self.threshold_ = _threshold(self._scores(features), positive)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """The score of every row minus the threshold, so that `predict` is positive above 0."""
        validation.check_is_fitted(self, "threshold_")
        features = _validate(self, X, reset=False)
        return self._scores(features) - self.threshold_

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of every row."""
        decision = self.decision_function(X)
        return self.classes_[(decision > 0).astype(int)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """The probability of each class (rows, 2), calibrated on the rows that `fit` held out; needs `calibrate`."""
        decision = self.decision_function(X)
        positive = torch.from_numpy(self.slope_ * decision).sigmoid().numpy()
        return np.stack([1 - positive, positive], axis=1)

    def _check_parameters(self) -> None:
        for name, words in (("hidden", ("auto",)), ("weight_decay", ("auto", "adaptive"))):
            check_word(name, getattr(self, name), words)
        if self.hidden != "auto":
            check_layers("hidden", self.hidden)
        if not isinstance(self.weight_decay, str):
            check_rate("weight_decay", self.weight_decay, zero=True)
        check_count("folds", self.folds)
        check_count("batch_size", self.batch_size)
        if self.epochs is not None:
            check_count("epochs", self.epochs)
        check_count("average", self.average)
        if self.learning_rate is not None:
            check_rate("learning_rate", self.learning_rate)
        check_positive("epsilon", self.epsilon)
        if self.update is not None and self.epsilon != 1.0:
            raise ValueError(
                f"pass update or epsilon, not both; got update={self.update!r}, epsilon={self.epsilon!r}. epsilon is "
                "that of the default update, PositiveDirect."
            )
        check_share("warm_up", self.warm_up, zero=True)
        if self.folds == 1:
            for name, unknown in (("calibrate", self.calibrate), ("weight_decay", self.weight_decay == "adaptive")):
                if unknown:
                    raise ValueError(f"{name}={getattr(self, name)!r} needs rows held out. Pass folds=3, the default.")

    def _rows(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, first: bool) -> tuple[NDArray, NDArray]:
        """Checked features, and which rows are positive; at first also what the classes are."""
        features, labels = _validate(self, X, y, reset=first)
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y")
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. For more classes wrap the "
                "classifier in sklearn.multiclass.OneVsRestClassifier."
            )
        if first:
            names = np.unique(labels if classes is None else np.asarray(classes))
            if len(names) != 2:
                raise ValueError(
                    f"Ranking needs two classes; got {len(names)} class{'es' * (len(names) != 1)}: {names.tolist()}. "
                    "In partial_fit the first call may name both in `classes`."
                )
            self.classes_ = names
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y has a class that is not among {self.classes_.tolist()}: {unknown.tolist()[0]!r}.")
        largest = np.abs(features).max(axis=0, initial=0.0).astype(np.float64)
        if (largest > LARGEST).any():
            column = int(largest.argmax())
            raise ValueError(
                f"column {column} of X holds numbers up to {largest[column]:.3g}, whose variance is not finite. Divide "
                "it, or take its logarithm."
            )
        positive = labels == self.classes_[1]
        first, second = self.classes_.tolist()
        if isinstance(second, str) and positive.mean() > COMMON:
            warnings.warn(
                f"{second!r} is ranked first, because it is the last of the sorted classes, and {positive.mean():.0%} "
                f"of the rows have it. To rank {first!r} first, fit y == {first!r}.",
                TrainingWarning,
                stacklevel=3,
            )
        return features, positive

    def _number_of_folds(self, positive: NDArray) -> int:
        """As many as asked for, and as rows of the rarer class; 1 if it has one row."""
        rarest = int(min(positive.sum(), (~positive).sum()))
        if rarest == 1 and (self.calibrate or self.weight_decay == "adaptive"):
            name = self.classes_.tolist()[int(positive.sum() == 1)]
            raise ValueError(
                f"calibrate and an adaptive weight_decay hold out a row of each class, and class {name!r} has 1 row. "
                "Pass calibrate=False and a number as weight_decay."
            )
        if rarest == 1 < self.folds:
            name = self.classes_.tolist()[int(positive.sum() == 1)]
            warnings.warn(
                f"class {name!r} has 1 row, so no row of it can be held out: fit trains one network to the end, and "
                "chooses nothing. Add rows of that class, or pass folds=1.",
                TrainingWarning,
                stacklevel=3,
            )
        return min(self.folds, rarest)

    def _members(self, folds: int) -> list[Member]:
        """The models that train; without folds there is nothing to choose by, so it is one."""
        layers: tuple[Any, ...] = AUTO if self.hidden == "auto" else (self.hidden,)
        if folds == 1:
            layers = layers[-1:]
        found = []
        for hidden in layers:
            rate = self.learning_rate or RATES[bool(hidden)]
            decays = DECAYS[bool(hidden)] if self.weight_decay == "auto" else (self.weight_decay,)
            if folds == 1 and isinstance(self.weight_decay, str):
                decays = (ALONE,)
            found += [Member(tuple(hidden), rate, decay) for decay in decays]
        return found

    def _start(self, features: int, folds: int) -> None:
        """Make the models with their loss, and where random numbers come from."""
        task = AveragePrecision() if self.task is None else self.task
        update = PositiveDirect(self.epsilon) if self.update is None else self.update
        check_parts(task, update)
        _check_task(task)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self._generator = torch.Generator().manual_seed(int(seed))
        self._loss = StructuredLoss(task, update, "none")
        self._population = Population(
            self._members(folds), features, folds, self._loss, self.average, self._generator, self.device
        )
        self._warm_steps: int | None = None
        self.network_, _ = self._population.network(0)
        self.history_: dict[str, list[float]] = {"loss": []}
        self.candidates_: list[Candidate] = []
        for name in ("threshold_", "slope_"):  # not fitted until the end
            self.__dict__.pop(name, None)

    def _go_on(self, features: int) -> None:
        """Make a population of the networks that `fit` chose."""
        networks = len(self.network_.networks) if isinstance(self.network_, Mean) else 1
        decay = self.chosen_.weight_decay
        hidden = self.chosen_.hidden
        member = Member(hidden, self.learning_rate or RATES[bool(hidden)], ALONE if isinstance(decay, str) else decay)
        self._population = Population(
            [member], features, networks, self._loss, self.average, self._generator, self.device
        )
        self._population.load(list(self.network_.networks) if isinstance(self.network_, Mean) else [self.network_])
        self._warm_steps = 0

    def _train(self, features: NDArray, positive: NDArray, epochs: int | None = None) -> None:
        """Train the only member on all rows, for so many epochs or all, and take the last weights."""
        inputs, target = self._tensors(features, positive)
        population, everything = self._population, torch.arange(len(positive), device="cpu")
        classes = [_by_class(everything, positive)] * population.folds
        per_epoch, count = self._steps(classes)
        for step, items in zip(
            range(1, 1 + (count if epochs is None else epochs * per_epoch)),
            batches(classes, self.batch_size, self._generator),
            strict=False,
        ):
            self._step(inputs[items], target[items], step, per_epoch)
        (of,) = population.members
        self.network_, _ = population.network(0)
        self.chosen_ = Candidate(of.hidden, of.weight_decay, population.steps / per_epoch, math.nan)
        self._print(population.steps / per_epoch, count / per_epoch)
        self.network_.cpu()

    def _choose(self, features: NDArray, positive: NDArray) -> tuple[NDArray[np.float64], NDArray]:
        """Train all members on folds of the rows and take the best; return scores and labels of the rows held out."""
        inputs, target = self._tensors(features, positive)
        population, folds = self._population, _folds(positive, self._population.folds, self._generator)
        classes = [_by_class(part, positive) for part in folds.train]
        held, held_target = inputs[folds.held_out], target[folds.held_out]
        per_epoch, count = self._steps(classes)
        moments = _moments(count)
        if self.hidden in ("auto", ()) and self.weight_decay == "auto":
            population.load(_logistic_regressions(inputs, target, folds.train))
            moments.add(0)
        best_step, scores = 0, held
        drawn = batches(classes, self.batch_size, self._generator)
        for step in range(count + 1):
            if step:
                items = next(drawn)
                self._step(inputs[items], target[items], step, per_epoch)
                if step % EVERY == 0:
                    length = items.shape[1]
                    population.look(held[:, : MOST_LISTS * length], held_target[:, : MOST_LISTS * length], length)
            if step in moments:
                found = [
                    Candidate(of.hidden, of.weight_decay, round(step / per_epoch, 2), round(quality, 4))
                    for of, quality in population.qualities(held, held_target)
                    if step or not of.hidden  # at first only logistic regressions know something
                ]
                best = max(found, key=lambda one: one.quality)
                if not self.candidates_ or best.quality >= self.chosen_.quality:  # as good: a small table needs time
                    self.chosen_, best_step = best, step
                    self.network_, scores = population.network(found.index(best), held)
                self.candidates_ += found
                self._print(step / per_epoch, count / per_epoch)
                if step >= max(PATIENCE * best_step, count / PATIENCE):
                    break
        self.network_.cpu()
        return scores.cpu().double().numpy().ravel(), positive[folds.held_out.numpy().ravel()]

    def _tensors(self, features: NDArray, positive: NDArray) -> tuple[Tensor, Tensor]:
        """Inputs and target, where they train."""
        inputs = torch.from_numpy(self._scaler.transform(features)).to(self.device, torch.float32)
        return inputs, torch.from_numpy(positive).to(self.device)

    def _steps(self, classes: list[list[Tensor]]) -> tuple[int, int]:
        """Of an epoch, and of all epochs. The first call fixes how many of them are a warm-up."""
        per_epoch = steps_of(classes, self.batch_size)
        count = (self.epochs or max(EPOCHS, math.ceil(FEWEST / per_epoch))) * per_epoch
        if self._warm_steps is None:
            self._warm_steps = math.ceil(self.warm_up * count)
        return per_epoch, count

    def _step(self, inputs: Tensor, target: Tensor, step: int, per_epoch: int) -> None:
        """Train on a batch of every fold; `step` counts from 1."""
        population = self._population
        try:
            loss = population.step(inputs, target, warm=population.steps < (self._warm_steps or 0))
        except FloatingPointError as error:
            raise ValueError(
                f"Training diverged in epoch {math.ceil(step / per_epoch)}: scores are no longer finite. Pass a "
                "smaller learning_rate."
            ) from error
        if population.steps == self._warm_steps:
            population.forget()
        if step % per_epoch == 1 % per_epoch:
            self.history_["loss"].append(0.0)
        self.history_["loss"][-1] += loss / per_epoch

    def _print(self, epoch: float, epochs: float) -> None:
        if self.verbose:
            print(f"epoch {epoch:.1f} of {epochs:.0f}: the best is {self.chosen_}", flush=True)

    @torch.no_grad()
    def _scores(self, features: NDArray) -> NDArray[np.float64]:
        """What the network says, on the CPU in float64: so the score of a row does not depend on the rows beside it."""
        weights = {name: value.cpu().double() for name, value in self.network_.state_dict().items()}
        scores = []
        for start in range(0, len(features), CHUNK):
            inputs = torch.from_numpy(self._scaler.transform(features[start : start + CHUNK])).double()
            scores.append(torch.func.functional_call(self.network_, weights, inputs))
        return torch.cat(scores).numpy()


def _validate(estimator: Any, *rows: ArrayLike, reset: bool) -> Any:
    """Rows as float64 or float32, and labels, checked by scikit-learn, where this is a method before version 1.6."""
    method = getattr(validation, "validate_data", None) or type(estimator)._validate_data
    return method(estimator, *rows, dtype=(np.float64, np.float32), reset=reset)


def _check_task(task: Task) -> None:
    try:
        task.infer(torch.zeros(2, device="cpu"), torch.tensor([False, True], device="cpu"))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"task must be one on lists of 0 and 1, such as AveragePrecision(); got {task!r}. Other targets need a "
            "training loop: see docs/guide.md."
        ) from error


def _refuse(options: dict[str, Any]) -> None:
    """Nothing goes to `fit` beside rows and labels."""
    if options.pop("sample_weight", None) is not None:
        raise TypeError(
            "DirectLossClassifier takes no sample_weight: the task ranks rows, and with weights of rows its inference "
            "would be NP-hard. Draw rows in proportion to their weights before fit."
        )
    if options:
        raise TypeError(f"DirectLossClassifier got an unexpected argument {next(iter(options))!r}.")


class _Folds(NamedTuple):
    """Rows of every fold: those that train, and those held out (folds, rows)."""

    train: list[Tensor]
    held_out: Tensor


def _by_class(rows: Tensor, positive: NDArray) -> list[Tensor]:
    """Positives and negatives among the rows."""
    which = torch.from_numpy(positive)[rows]
    return [rows[which], rows[~which]]


def _folds(positive: NDArray, folds: int, generator: torch.Generator) -> _Folds:
    """Parts of the rows with the same numbers of both classes; a rest that does not divide is never held out.

    Rows held out are in random order, but the first ones have their share of both classes.
    """
    everything = torch.arange(len(positive), device="cpu")
    parts = []
    for rows in _by_class(everything, positive):
        rows = rows[torch.randperm(len(rows), generator=generator, device="cpu")]
        parts.append(rows[: len(rows) // folds * folds].view(folds, -1))
    places = torch.cat([(torch.arange(part.shape[1]) + 0.5) / part.shape[1] for part in parts]).argsort(stable=True)
    held_out = torch.cat(parts, 1)[:, places]
    return _Folds([everything[~torch.isin(everything, part)] for part in held_out], held_out)


def _logistic_regressions(inputs: Tensor, target: Tensor, folds: Sequence[Tensor]) -> list[nn.Sequential]:
    """Fitted to the rows of every fold, one for each linear model."""
    found = []
    for rows in folds:
        for strength in STRENGTHS:
            with warnings.catch_warnings():  # near the end of its way it is as good a start
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = LogisticRegression(C=strength, max_iter=200).fit(inputs[rows].cpu(), target[rows].cpu())
            layer = linear(*map(torch.from_numpy, (fitted.coef_, fitted.intercept_)))
            found.append(nn.Sequential(layer, nn.Flatten(0)))
    return found


def _moments(steps: int) -> set[int]:
    """When models are measured: at the end, and before that each time at √2 less."""
    return {round(steps * 2 ** (-k / 2)) for k in range(LOOKS)} - {0}


def _threshold(scores: NDArray[np.float64], positive: NDArray) -> float:
    """The threshold above which there are as many rows as positives, in the middle between two scores."""
    negatives = int(len(scores) - positive.sum())
    lower, upper = np.partition(scores, (negatives - 1, negatives))[negatives - 1 : negatives + 1]
    return float((lower + upper) / 2)


def _sigmoid(scores: NDArray[np.float64], positive: NDArray) -> tuple[float, float]:
    """Threshold and slope of the sigmoid that fits best, with Platt's targets, which keep it from being a step."""
    positives, negatives = positive.sum(), (~positive).sum()
    target = np.where(positive, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    mean, spread = scores.mean(), scores.std() or 1.0
    standard = ((scores - mean) / spread)[:, None]
    fitted = LogisticRegression(C=1e6, max_iter=1000).fit(
        np.concatenate([standard, standard]),
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([target, 1 - target]),
    )
    slope, offset = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    if slope < 1e-3:  # scores say nothing about these rows: nearly the same probability for all
        slope, offset = 1e-3, math.log(target.sum() / (1 - target).sum())
    return float(mean - spread * offset / slope), float(slope / spread)
