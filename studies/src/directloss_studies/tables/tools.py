"""What a user would take instead: classifiers with one call of `fit`, on training and validation rows together.

Logistic regression is tuned: C and class weight by AP on the validation rows, then fitted to all. The others run as
they come, and hold out rows by themselves if they want some.
"""

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sweep import average_precisions
from .training import Rows

__all__ = ["TOOLS", "fit"]

STRENGTHS, WEIGHTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0), (None, "balanced")

Scores = Callable[[Tensor], Tensor]
"""From inputs (rows, columns) to scores (1, rows)."""


def _logistic_regression(train: Rows, validation: Rows, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    def fitted(rows: Rows, strength: float, weight: str | None) -> Any:
        model = LogisticRegression(C=strength, class_weight=weight, solver="newton-cholesky", max_iter=1000)
        return model.fit(rows.inputs.double().numpy(), rows.target.numpy())

    def quality(choice: tuple[float, str | None]) -> float:
        scores = fitted(train, *choice).decision_function(validation.inputs.double().numpy())
        return average_precisions(torch.from_numpy(scores)[None], validation.target)[0]

    return fitted(_together(train, validation), *max(product(STRENGTHS, WEIGHTS), key=quality))


def _perceptron(train: Rows, validation: Rows, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    with warnings.catch_warnings():  # as it comes, it may end before it converges
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _fitted(MLPClassifier(random_state=seed), train, validation)


def _boosting(train: Rows, validation: Rows, seed: int) -> Any:
    from lightgbm import LGBMClassifier  # pyright: ignore[reportMissingImports]

    return _fitted(LGBMClassifier(random_state=seed, n_jobs=1, verbosity=-1), train, validation)


def _direct(train: Rows, validation: Rows, seed: int) -> Any:
    from directloss.sklearn import DirectLossClassifier

    return _fitted(DirectLossClassifier(random_state=seed), train, validation)


TOOLS: dict[str, Callable[[Rows, Rows, int], Any]] = {
    "LogisticRegression": _logistic_regression,
    "MLPClassifier": _perceptron,
    "LGBMClassifier": _boosting,
    "DirectLossClassifier": _direct,
}
"""By name: what fits a classifier to training and validation rows with a seed."""


def fit(name: str, train: Rows, validation: Rows, seed: int) -> Scores:
    """Fit a classifier; return what scores inputs."""
    model = TOOLS[name](train, validation, seed)

    def scores(inputs: Tensor) -> Tensor:
        rows = inputs.numpy()
        if hasattr(model, "decision_function"):
            found = model.decision_function(rows)
        else:
            found = model.predict_proba(rows)[:, 1]
        return torch.from_numpy(np.asarray(found, np.float64))[None]

    return scores


def _together(*parts: Rows) -> Rows:
    return Rows(torch.cat([part.inputs for part in parts]), torch.cat([part.target for part in parts]))


def _fitted(model: Any, *parts: Rows) -> Any:
    rows = _together(*parts)
    return model.fit(rows.inputs.numpy(), rows.target.numpy())
