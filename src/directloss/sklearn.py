"""A classifier for scikit-learn that trains on the metric itself: `DirectLossClassifier`.

It needs the extra `sklearn`. Nothing else in the library imports this module.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from .checks import check_count, check_layers, check_parts, check_positive, check_rate, check_share
from .loss import StructuredLoss
from .metric import metric
from .task import Task
from .tasks import AveragePrecision
from .training import WarmUp
from .update import PositiveDirect, Update

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
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

CHUNK = 1 << 16  # rows that are scored at once
LARGEST = 1e100  # number in a column whose variance can be taken


def _has_probabilities(classifier: Any) -> bool:
    if not classifier.calibrate:
        raise AttributeError(
            "Scores are not probabilities. Pass calibrate=True: fit then holds out rows, and calibrates scores on them."
        )
    if hasattr(classifier, "threshold_") and not hasattr(classifier, "slope_"):
        raise AttributeError("After partial_fit there are no probabilities: it holds out no rows. Call fit.")
    return True


class DirectLossClassifier(ClassifierMixin, BaseEstimator):
    """A linear model or a network for two classes, trained to rank the rows of the second class first.

    Every batch of rows is one list for the task. `fit` standardises the features, begins with cross-entropy that gives
    both classes the same weight (`directloss.training.WarmUp`), takes batches that all have rows of both classes, and
    averages the weights of the last steps. The defaults are the recipe that won on tables with wrong labels.

    `predict` needs a threshold. It is chosen so that as many training rows are predicted positive as are positive. With
    `calibrate=True` `predict` gives the more probable class instead, by `predict_proba`.

    There is no `sample_weight`: with weights of rows, exact inference would be NP-hard.

    Args:
        task: what to optimise, a task on lists of 0 and 1; None: `AveragePrecision()`.
        update: which update; None: `PositiveDirect(epsilon)`.
        epsilon: the ε of that update, so that a grid search can choose it.
        hidden: the widths of hidden layers; `()` is a linear model.
        batch_size: rows in a batch, approximately. Every batch has its share of positives, and at least one. If there
            are fewer positives than batches, they repeat.
        epochs: passes over the rows, at most.
        learning_rate: of AdamW; None: 0.001 for a network, 0.03 for a linear model.
        weight_decay: of AdamW. The default is strong, as the recipe has it.
        warm_up: the share of all steps, at the beginning, that use cross-entropy.
        average: the model is the mean of the weights after about so many last steps; 1: the last weights.
        early_stopping: hold out rows, measure the task on them after each epoch, stop when it no longer grows, and
            return to the best epoch. A small table needs all its rows.
        validation_fraction: the share of rows of each class to hold out, at least one row of each, for
            `early_stopping` and `calibrate`.
        patience: epochs without a better value, after the warm-up, until early stopping stops.
        calibrate: fit a sigmoid to the scores of rows that were held out (Platt scaling), for `predict_proba`.
        random_state: a seed or a RandomState, for the same result every time. torch's own random numbers stay as they
            are.
        device: where to train, as torch names it. Predictions are made on the CPU, in float64.
        verbose: print a line after each epoch.

    Attributes:
        classes_: the two classes; the second one is positive.
        history_: "loss" and, with early stopping, "validation": a list with one number an epoch. The loss is the mean
            over steps, so it is cross-entropy in the warm-up. "validation" is the task's metric.
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
        hidden: tuple[int, ...] = (64, 64),
        batch_size: int = 512,
        epochs: int = 100,
        learning_rate: float | None = None,
        weight_decay: float = 1.0,
        warm_up: float = 0.1,
        average: int = 50,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        calibrate: bool = False,
        random_state: Any = None,
        device: Any = "cpu",
        verbose: bool = False,
    ) -> None:
        self.task = task
        self.update = update
        self.epsilon = epsilon
        self.hidden = hidden
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.warm_up = warm_up
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
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
        self._start(features.shape[1])
        held = self._held_out(positive) if self.early_stopping or self.calibrate else np.zeros_like(positive)
        self._scaler = StandardScaler().fit(features[~held] if held.any() else features)
        validation = (features[held], torch.from_numpy(positive[held])) if self.early_stopping else None
        self._train(features, positive, self.epochs, held, validation)
        if self.calibrate:
            self.threshold_, self.slope_ = _sigmoid(self._scores(features[held]), positive[held])
        else:
            self.threshold_ = _threshold(self._scores(features), positive)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, **refused: Any) -> Self:
        """Train one epoch on these rows, from where the last call of `fit` or `partial_fit` ended.

        The first call needs both classes, in y or in `classes`. The warm-up is as long as if `epochs` calls like the
        first one were to come. Features are standardised by the rows of all calls. The threshold is that of the rows of
        this call. Rows of one class only teach nothing. No rows are held out.
        """
        _refuse(refused)
        self._check_parameters()
        first = not hasattr(self, "threshold_")
        features, positive = self._rows(X, y, classes, first)
        if first:
            self._start(features.shape[1])
            self._scaler, self.threshold_ = StandardScaler(), 0.0
        self._scaler.partial_fit(features)
        self.__dict__.pop("slope_", None)
        if positive.any() and not positive.all():
            self._train(features, positive, 1, np.zeros_like(positive), None)
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
        check_layers("hidden", self.hidden)
        check_count("batch_size", self.batch_size)
        check_count("epochs", self.epochs)
        check_count("patience", self.patience)
        check_count("average", self.average)
        if self.learning_rate is not None:
            check_rate("learning_rate", self.learning_rate)
        check_rate("weight_decay", self.weight_decay, zero=True)
        check_positive("epsilon", self.epsilon)
        if self.update is not None and self.epsilon != 1.0:
            raise ValueError(
                f"pass update or epsilon, not both; got update={self.update!r}, epsilon={self.epsilon!r}. epsilon is "
                "that of the default update, PositiveDirect."
            )
        check_share("warm_up", self.warm_up, zero=True)
        check_share("validation_fraction", self.validation_fraction, one=False)

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
        return features, labels == self.classes_[1]

    def _start(self, features: int) -> None:
        """Make a network with its optimizer and loss, and where random numbers come from."""
        self._task = AveragePrecision() if self.task is None else self.task
        update = PositiveDirect(self.epsilon) if self.update is None else self.update
        check_parts(self._task, update)
        _check_task(self._task)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        self._generator = torch.Generator().manual_seed(int(seed))
        self._trained = _network([features, *self.hidden, 1], self._generator)
        self.network_, self._steps = deepcopy(self._trained), 0
        rate = self.learning_rate or (1e-3 if self.hidden else 0.03)
        self._optimizer = torch.optim.AdamW(
            self._trained.parameters(), rate, weight_decay=self.weight_decay, fused=True
        )
        self._loss = WarmUp(StructuredLoss(self._task, update), 0, first=_balanced_cross_entropy)
        self.history_: dict[str, list[float]] = {"loss": []}
        for name in ("threshold_", "slope_"):  # not fitted until the end
            self.__dict__.pop(name, None)

    def _held_out(self, positive: NDArray) -> NDArray:
        """Which rows to hold out: a share of each class, at least one row, drawn at random."""
        held = np.zeros(len(positive), dtype=bool)
        for name, rows in zip(self.classes_.tolist(), ((~positive).nonzero()[0], positive.nonzero()[0]), strict=True):
            if len(rows) == 1:
                raise ValueError(
                    f"early_stopping and calibrate hold out a row of each class, and class {name!r} has 1 row. "
                    "Pass early_stopping=False and calibrate=False."
                )
            count = min(max(round(self.validation_fraction * len(rows)), 1), len(rows) - 1)
            held[rows[_permutation(len(rows), self._generator)[:count].numpy()]] = True
        return held

    def _train(
        self,
        features: NDArray,
        positive: NDArray,
        epochs: int,
        held: NDArray,
        validation: tuple[NDArray, Tensor] | None,
    ) -> None:
        """Train on rows that are not held out, and return to the best epoch if there is a validation."""
        inputs = torch.from_numpy(self._scaler.transform(features)).to(self.device, torch.float32)
        target = torch.from_numpy(positive).to(self.device)
        classes = [torch.from_numpy((which & ~held).nonzero()[0]) for which in (positive, ~positive)]
        steps = math.ceil(sum(map(len, classes)) / self.batch_size)
        if not self.history_["loss"]:
            self._loss.steps = math.ceil(self.warm_up * self.epochs * steps)
        warm_up = math.ceil(self._loss.steps / steps)
        self._move(self.device)
        best, best_epoch, state = -math.inf, 0, None
        for epoch, batches in zip(range(1, epochs + 1), _batches(classes, steps, self._generator), strict=False):
            self.history_["loss"].append(self._epoch(inputs, target, batches, epoch))
            line = f"epoch {epoch}/{epochs}: loss {self.history_['loss'][-1]:.4f}"
            if validation is not None:
                scores = torch.from_numpy(self._scores(validation[0]))
                quality = metric(self._task, scores, validation[1]).item()
                self.history_.setdefault("validation", []).append(quality)
                line += f", validation {quality:.4f}"
                if quality >= best:  # of epochs that are as good, the last one: a small table soon has no mistakes
                    best, best_epoch = quality, epoch if quality > best else best_epoch
                    state = deepcopy([network.state_dict() for network in self._networks()])
            if self.verbose:
                print(line, flush=True)
            if validation is not None and epoch - max(best_epoch, warm_up) >= self.patience:
                break
        for network, weights in zip(self._networks(), state or (), strict=False):
            network.load_state_dict(weights)
        self._move("cpu")

    @torch.enable_grad()
    def _epoch(self, inputs: Tensor, target: Tensor, batches: tuple[Tensor, ...], epoch: int) -> float:
        """Take a step on each batch; return the mean of the losses."""
        total = torch.zeros((), device=inputs.device)
        diverged, scores = None, total
        means, weights = (tuple(network.parameters()) for network in self._networks())
        try:
            for items in batches:
                items = items.to(inputs.device)
                before = self._loss.step
                self._optimizer.zero_grad()
                scores = self._trained(inputs[items])
                value = self._loss(scores, target[items])
                value.backward()
                self._optimizer.step()
                self._steps += 1
                with torch.no_grad():  # the plain mean at first, so that a few steps count too
                    for mean, weight in zip(means, weights, strict=True):
                        mean.lerp_(weight, 1 / min(self._steps, self.average))
                if before < self._loss.step == self._loss.steps:
                    self._optimizer.state.clear()  # so that AdamW forgets cross-entropy; see docs/warm-up.md
                total += value.detach()
        except ValueError as error:  # the loss refuses scores that are not finite
            if scores.isfinite().all():
                raise
            diverged = error
        if diverged or not total.isfinite():
            raise ValueError(
                f"Training diverged in epoch {epoch}: scores are no longer finite. Pass a smaller learning_rate."
            ) from diverged
        return total.item() / len(batches)

    def _networks(self) -> tuple[nn.Module, nn.Module]:
        """With averaged weights, and with those that are trained."""
        return self.network_, self._trained

    def _move(self, device: Any) -> None:
        for network in self._networks():
            network.to(device)
        self._optimizer.load_state_dict(self._optimizer.state_dict())  # which moves it to where the weights are

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


def _network(widths: list[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, one score a row; weights as torch draws them, but from the generator."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layer = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float32)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1], nn.Flatten(0))


def _balanced_cross_entropy(scores: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy that gives both classes the same weight: negatives to positives of the batch, which has both."""
    ratio = (~target).sum() / target.sum()
    return binary_cross_entropy_with_logits(scores, target.to(scores.dtype), pos_weight=ratio)


def _batches(classes: list[Tensor], steps: int, generator: torch.Generator) -> Iterator[tuple[Tensor, ...]]:
    """Epochs without end: all rows in as many batches as steps, each with its share of both classes, at least one row.

    A class of fewer rows than steps repeats them.
    """
    counts = [max(len(rows), steps) for rows in classes]
    batch_of = torch.cat([torch.arange(count, device="cpu") * steps // count for count in counts])
    order, sizes = batch_of.argsort(stable=True), batch_of.bincount().tolist()
    while True:
        drawn = [
            rows[_permutation(len(rows), generator)[torch.arange(count, device="cpu") % len(rows)]]
            for rows, count in zip(classes, counts, strict=True)
        ]
        yield torch.cat(drawn)[order].split(sizes)


def _permutation(items: int, generator: torch.Generator) -> Tensor:
    """A random order, on the CPU whatever torch's default device is."""
    return torch.randperm(items, generator=generator, device="cpu")


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
