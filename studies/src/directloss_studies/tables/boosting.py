"""Gradient boosting, another model on the same rows: LightGBM and XGBoost, each imported when a run needs it."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..sweep import Setting
from .training import Rows

__all__ = ["TREES", "boost", "installed"]

TREES = {
    "LightGBM logloss": ("lightgbm", "binary"),
    "LightGBM lambdarank": ("lightgbm", "lambdarank"),
    "XGBoost rank:map": ("xgboost", "rank:map"),
}
"""By method: the package and its objective."""

Model = Callable[[Tensor], Tensor]


def installed() -> tuple[tuple[str, ...], list[str]]:
    """The methods whose package is there, and a note on the packages that are missing."""
    packages = {package for package, _ in TREES.values() if find_spec(package) is None}
    missing = " ".join(sorted(packages))
    note = f"Left out: a package is missing. pip install {missing.replace('xgboost', 'xgboost-cpu')}"
    return tuple(name for name, (package, _) in TREES.items() if package not in packages), [note] if packages else []


def boost(
    method: str,
    rows: Rows,
    settings: Sequence[Setting],
    moments: Sequence[int],
    seed: int,
    record: Callable[[str, Model], None],
) -> None:
    """Grow trees with every setting; the strength is the number of leaves, a moment a number of trees.

    `record` is called at every moment, as by `train`. A table without lists is one list.
    """
    package, objective = TREES[method]
    order = np.arange(len(rows.target)) if rows.lists is None else rows.lists.argsort(stable=True).numpy()
    sizes = np.array([len(order)]) if rows.lists is None else rows.lists.unique(return_counts=True)[1].numpy()
    inputs, target = rows.inputs.numpy()[order], rows.target.numpy()[order].astype(np.float32)
    grow = _lightgbm if package == "lightgbm" else _xgboost
    models = [grow(objective, inputs, target, sizes, setting, moments[-1], seed) for setting in settings]
    for moment in moments:

        def scores(inputs: Tensor, moment: int = moment) -> Tensor:
            found = [np.asarray(model(inputs.numpy(), moment), np.float32) for model in models]
            return torch.from_numpy(np.stack(found))

        record(method, scores)


Trees = Callable[[Any, int], Any]
"""From inputs and a number of trees to scores by these first trees."""


def _lightgbm(objective: str, inputs: Any, target: Any, sizes: Any, setting: Setting, trees: int, seed: int) -> Trees:
    import lightgbm  # pyright: ignore[reportMissingImports]

    parameters = {
        "objective": objective,
        "learning_rate": setting.learning_rate,
        "num_leaves": int(setting.strength),
        "num_threads": 1,
        "deterministic": True,
        "force_col_wise": True,
        "seed": seed,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(inputs, target, group=sizes if objective == "lambdarank" else None)
    model = lightgbm.train(parameters, data, num_boost_round=trees)
    return lambda inputs, trees: model.predict(inputs, num_iteration=trees, raw_score=True)


def _xgboost(objective: str, inputs: Any, target: Any, sizes: Any, setting: Setting, trees: int, seed: int) -> Trees:
    import xgboost  # pyright: ignore[reportMissingImports]

    parameters = {
        "objective": objective,
        "eta": setting.learning_rate,
        "grow_policy": "lossguide",
        "max_leaves": int(setting.strength),
        "max_depth": 0,
        "nthread": 1,
        "seed": seed,
        "verbosity": 0,
    }
    data = xgboost.DMatrix(inputs, target)
    data.set_group(sizes)
    model = xgboost.train(parameters, data, num_boost_round=trees)
    return lambda inputs, trees: model.predict(xgboost.DMatrix(inputs), iteration_range=(0, trees), output_margin=True)
