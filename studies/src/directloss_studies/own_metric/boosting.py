"""LambdaMART: LightGBM's boosted trees with its objective lambdarank, another model on the same lists.

LightGBM is no dependency. It is imported when a run needs it.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..harness.progress import Progress
from ..sweep import Setting
from .lists import Lists

__all__ = ["MISSING", "Model", "boost", "is_installed"]

Model = Callable[[Tensor], Tensor]
"""From inputs (items, columns) to scores (settings, items)."""
MISSING = "LambdaMART needs LightGBM: pip install lightgbm."


def is_installed() -> bool:
    """Whether LightGBM is there."""
    return find_spec("lightgbm") is not None


def boost(
    lists: Lists,
    settings: Sequence[Setting],
    moments: Sequence[int],
    seed: int,
    record: Callable[[Model], None],
    progress: Progress,
) -> None:
    """Grow trees with every setting; a tree is an iteration.

    The strength of a setting is the number of leaves, its weight decay LightGBM's penalty on the values of leaves.

    `record` gets the models as they are at every moment.
    """
    if not is_installed():
        raise ModuleNotFoundError(MISSING)
    import lightgbm  # pyright: ignore[reportMissingImports]

    data = lightgbm.Dataset(lists.inputs.numpy(), lists.grades.numpy(), group=lists.sizes.numpy(), free_raw_data=False)
    found: list[Any] = []
    for number, setting in enumerate(settings):
        parameters = {
            "objective": "lambdarank",
            "lambdarank_truncation_level": 13,  # LightGBM advises a little above the k of NDCG@k
            "learning_rate": setting.learning_rate,
            "num_leaves": int(setting.strength),
            "lambda_l2": setting.weight_decay,
            "min_data_in_leaf": 20,
            "num_threads": 1,
            "deterministic": True,
            "force_col_wise": True,
            "seed": seed,
            "verbosity": -1,
        }
        found.append(lightgbm.train(parameters, data, num_boost_round=moments[-1]))
        progress((number + 1) / len(settings))

    @cache
    def scores(inputs: Tensor) -> list[Tensor]:
        """At every moment: a tree is evaluated once."""
        parts = [
            [booster.predict(inputs.numpy(), start_iteration=start, num_iteration=end - start) for booster in found]
            for start, end in pairwise((0, *moments))
        ]
        return list(torch.from_numpy(np.cumsum(parts, axis=0)).float())

    for moment in range(len(moments)):
        record(lambda inputs, moment=moment: scores(inputs)[moment])
