"""What a head finds in images: detections after suppression, their evaluation, and what a result keeps of it."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..networks import Networks
from ..vision.boxes import suppress
from ..vision.calibration import Knots, fit_precision
from ..vision.evaluation import Curve, Detections, evaluate
from ..vision.proposals import recall
from .images import CACHE, Images
from .pictures import Picture, picture

__all__ = [
    "SUPPRESSION",
    "best_and_worst",
    "best_threshold",
    "curves_of",
    "measured",
    "precision_at_recalls",
    "precision_by_score",
    "recall_of",
]

SUPPRESSION = 0.3  # overlap above which the weaker of two detections is dropped, as in R-CNN
BEST = 40  # boxes that count for each image before suppression, on average
SPARSE, SLACK = 64, 1.1  # every 64th score gives a threshold, which 1.1 times the wanted number should pass
ROWS = 1 << 11  # that are scored at once: they stay in the cache of a core
CHUNK = 1 << 18  # rows that one mapping reads
PICTURES = 3  # of each kind


@torch.inference_mode()
def curves_of(
    images: Images, boxes: Any, rows_key: str, part: str, category: str, networks: Networks
) -> Iterator[tuple[Detections, Curve]]:
    """For each network its detections in a part, the best ones after suppression, and their evaluation."""
    objects = images.objects(category, part)
    start, end = images.span(part)
    limit = max(BEST * images.parts.count(part), 10_000)
    scores = torch.empty(len(networks.weights), end - start)
    inputs = torch.empty(ROWS, CACHE.array(rows_key).shape[1])  # new memory for each part would take most of the time
    for chunk in range(start, end, CHUNK):
        rows = CACHE.array(rows_key)  # mapped anew now and then, so that the mapping stays small
        for first in range(chunk, min(chunk + CHUNK, end), ROWS):
            last = min(first + ROWS, chunk + CHUNK, end)
            inputs[: last - first] = torch.from_numpy(np.array(rows[first:last]))
            scores[:, first - start : last - start] = networks(inputs[: last - first])
    for mine in scores:
        places = highest(mine if mine.isfinite().all() else mine[:0], limit)
        values, rows = mine[places].double().numpy(), start + places.numpy()
        where, there = images.image_of(rows), np.asarray(boxes[rows], dtype=np.float64)
        stays = suppress(where, there, values, SUPPRESSION)
        found = Detections(where[stays], there[stays], values[stays])
        yield found, evaluate(objects, found)


def highest(scores: Tensor, limit: int) -> Tensor:
    """The places of the highest scores, in ascending order."""
    few = scores[::SPARSE]
    share = SLACK * limit / max(len(scores), 1)
    if share < 0.5 and len(few) > 1000:  # few are looked at twice: an eighth of the time
        likely = (scores > few.kthvalue(len(few) - int(share * len(few))).values).nonzero().squeeze(1)
        if len(likely) >= limit:
            return likely[scores[likely].topk(limit, sorted=False).indices].sort().values
    return scores.topk(min(limit, len(scores)), sorted=False).indices.sort().values


def measured(
    curves: Iterable[tuple[Detections, Curve]], chosen: int | None = None
) -> tuple[list[float], int, Detections, Curve]:
    """AP of every network; and the number, the detections and the curve of the chosen one, else of the first best."""
    values: list[float] = []
    best: list[Any] = []
    for number, (detections, curve) in enumerate(curves):
        values.append(round(curve.average_precision, 6))
        if number == chosen or (chosen is None and values[-1] > max(values[:-1], default=-1.0)):
            best = [number, detections, curve]
    return values, *best


def recall_of(images: Images, boxes: Any, category: str) -> float:
    """The share of the class's objects in the test images that a proposal overlaps by half or more."""
    objects = images.objects(category, "test")
    numbers = np.unique(objects.images)
    found = [boxes[images.ends[number] - images.rows[number] : images.ends[number]] for number in numbers]
    truth = [objects.boxes[(objects.images == number) & ~objects.difficult] for number in numbers]
    return recall(found, truth)


def precision_at_recalls(curve: Curve) -> tuple[float, ...]:
    """The highest precision at each recall 0, 0.01, …, 1 or a higher one."""
    highest = np.maximum.accumulate(curve.precision[::-1])[::-1]
    at = np.searchsorted(curve.recall, np.arange(101) / 100 - 1e-9)
    return tuple(round(float(highest[place]), 4) if place < len(highest) else 0.0 for place in at)


def best_threshold(detections: Detections, curve: Curve) -> float:
    """The score threshold with the best F1."""
    if not len(curve.order):
        return 0.0
    both = 2 * curve.precision * curve.recall / np.maximum(curve.precision + curve.recall, 1e-9)
    return float(detections.scores[curve.order[int(np.argmax(both))]])


def precision_by_score(detections: Detections, curve: Curve) -> Knots:
    """Without the detections of difficult objects, which are neither right nor wrong."""
    return fit_precision(detections.scores[curve.order][curve.counts], curve.right[curve.counts])


def best_and_worst(
    images: Images, detections: Detections, curve: Curve, category: str
) -> dict[str, tuple[Picture, ...]]:
    """The correct detections with the highest scores, and the wrong ones with the highest scores."""
    found = {}
    for name, which in (("best", curve.right), ("worst", curve.counts & ~curve.right)):
        pictures = []
        for place in np.flatnonzero(which)[:PICTURES]:
            detection = curve.order[place]
            number = int(detections.images[detection])
            truth = [each.box for each in images.annotations[number] if each.name == category]
            box, score = detections.boxes[detection].tolist(), float(detections.scores[detection])
            pictures.append(picture(images.names[number], images.paths[number], box, score, truth))
        found[name] = tuple(pictures)
    return found
