"""scikit-learn's linear classifiers, fitted to convergence: what a user would take, so what every head must reach.

A setting means here: the strength is the share of the weight that positives get, 0.5 for balanced classes and 0 for
every row alike; the weight decay d gives C = 1/(d · rows), so that the objective is the mean loss plus
d/2 · |weights|².
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .harness.progress import Progress, no_progress
from .sweep import Setting

__all__ = ["LINEAR_MODELS", "LINEAR_NOTE", "SHARES", "WEIGHT", "fit"]

LOGISTIC, MACHINE = LINEAR_MODELS = ("LogisticRegression", "LinearSVC")
LINEAR_NOTE = (
    f"{LOGISTIC} and {MACHINE} are scikit-learn's, fitted to convergence on the same rows; C and class weight are "
    "chosen as the settings of the other methods are."
)
SHARES = (0.0, 0.5)
WEIGHT = "weight of positives"  # what the strength of a setting is
ITERATIONS = 1000
INTERCEPT = 10.0  # LinearSVC decays its bias; a large constant input makes that negligible


def fit(
    method: str, settings: Sequence[Setting], inputs: Tensor, target: Tensor, progress: Progress = no_progress
) -> Tensor:
    """Weights (settings, features + bias) of one classifier a setting; inputs (rows, features) should be centred.

    Raises a RuntimeError if a solver does not converge.
    """
    rows, labels = inputs.numpy().astype(np.float64), target.numpy()
    found = {}
    for share in dict.fromkeys(setting.strength for setting in settings):
        model: Any = None
        for decay in sorted({setting.weight_decay for setting in settings if setting.strength == share}, reverse=True):
            model = _fitted(method, model, share, 1 / (decay * len(rows)), rows, labels)
            found[share, decay] = np.append(model.coef_[0], model.intercept_)
            progress(len(found) / len(settings))
    return torch.from_numpy(np.stack([found[setting.strength, setting.weight_decay] for setting in settings])).float()


def _fitted(method: str, before: Any, share: float, strength: float, rows: Any, labels: Any) -> Any:
    """A classifier; logistic regression goes on from the one before, which had more decay."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    weight = {True: share / labels.mean(), False: (1 - share) / (1 - labels.mean())} if share else None
    if method == LOGISTIC:
        model = before or LogisticRegression(solver="newton-cholesky", warm_start=True, max_iter=ITERATIONS, tol=1e-6)
    else:
        options: Any = {"dual": False, "intercept_scaling": INTERCEPT, "max_iter": 10 * ITERATIONS}
        model = LinearSVC(**options)
    model.set_params(C=strength, class_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return model.fit(rows, labels)
        except ConvergenceWarning as error:
            raise RuntimeError(f"{method} with C = {strength:g} did not converge: {error}") from error
