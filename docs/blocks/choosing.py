"""Choosing ε."""

from typing import Any

import torch

from directloss import AveragePrecision, Diagnosis, diagnose

from .numbers import block

__all__ = ["diagnosed", "rankings"]


def diagnosed(*epsilons: float) -> Diagnosis:
    """Of scores as a network may give them after some training."""
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(1000, generator=generator) < 0.1
    scores = torch.randn(1000, generator=generator) + 1.5 * target
    options: dict[str, Any] = {"epsilons": epsilons} if epsilons else {}
    return diagnose(AveragePrecision(), scores, target, **options)


@block
def diagnosis() -> str:
    """What `diagnose` prints."""
    return f"```text\n{diagnosed(0.01, 0.1, 1.0, 10.0, 100.0)}\n```"


RANKED = [2.2, 1.9, 1.7, 1.3, 1.2, 0.9, 0.6, 0.5, 0.1, -0.2, -0.3, -0.7, -1.0, -1.4]
RANKED_TARGET = [1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0]


def rankings() -> Any:
    """A list as y_direct ranks it: a column for each ε, a line for each item."""
    import matplotlib.pyplot as plt

    scores, target = torch.tensor(RANKED, dtype=torch.float64), torch.tensor(RANKED_TARGET) == 1
    epsilons = torch.tensor([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0], dtype=torch.float64)
    shape = len(epsilons), len(scores)
    found = AveragePrecision().infer_augmented(scores.expand(shape), target.expand(shape), epsilons)
    P, M = int(target.sum()), int((~target).sum())
    others_above = torch.where(target, M - P * M * found.features, P - P * M * found.features) / 2
    own_above = torch.where(target, target.cumsum(0), (~target).cumsum(0)) - 1  # items of the class; RANKED is sorted
    places = 1 + own_above + others_above
    figure, axis = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for item, positive in enumerate(RANKED_TARGET):
        color = "tab:blue" if positive else "0.65"
        filled = color if positive else "white"
        axis.plot(places[:, item], "o-", markersize=8, color=color, markerfacecolor=filled, zorder=2 + positive)
    names = ["prediction", *(f"ε = {epsilon:g}" for epsilon in epsilons.tolist()[1:])]
    axis.set_xticks(
        range(len(names)), [f"{name}\nAP {1 - loss:.2f}" for name, loss in zip(names, found.loss, strict=True)]
    )
    axis.set(ylabel="rank", yticks=[1, 5, 10, 14])
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
    return figure
