"""Detection AP: by hand, against a plain transcription of the rules, and against COCO's evaluation where rules agree."""

import math

import numpy as np
import pytest

from directloss.vision.boxes import overlaps, suppress
from directloss.vision.evaluation import Detections, Objects, evaluate


def plain_overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0]) + 1
    height = min(a[3], b[3]) - max(a[1], b[1]) + 1
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0] + 1) * (a[3] - a[1] + 1) + (b[2] - b[0] + 1) * (b[3] - b[1] + 1) - shared)


def plain_average_precision(objects, detections, overlap=0.5):
    """The rules of the challenge, one detection after the other, the area as a sum over levels of recall."""
    flat = [
        (-score, order, image, box)
        for order, (image, box, score) in enumerate(
            (image, box, score)
            for image, found in detections.items()
            for box, score in zip(found.boxes.tolist(), found.scores.tolist(), strict=True)
        )
    ]
    wanted = sum(1 for found in objects.values() for hard in found.difficult if not hard)
    taken, points, true, false = set(), [], 0, 0
    for _, _, image, box in sorted(flat):
        truth = objects.get(image)
        best, at = -math.inf, None
        for k, other in enumerate(truth.boxes.tolist() if truth else []):
            shared = plain_overlap(box, other)
            if shared > best:
                best, at = shared, k
        if truth is not None and at is not None and best >= overlap:
            if truth.difficult[at]:
                pass
            elif (image, at) in taken:
                false += 1
            else:
                taken.add((image, at))
                true += 1
        else:
            false += 1
        points.append((true, true / max(true + false, 1)))
    if not wanted:
        return math.nan
    return sum(max((p for t, p in points if t >= level), default=0.0) for level in range(1, wanted + 1)) / wanted


def random_boxes(random, count, side=60):
    corner = random.integers(1, side, (count, 2))
    size = random.integers(1, 25, (count, 2))
    return np.concatenate([corner, corner + size], axis=1).astype(float)


def random_case(random):
    objects, detections = {}, {}
    for image in range(random.integers(1, 5)):
        count = int(random.integers(0, 4))
        boxes = random_boxes(random, count)
        objects[str(image)] = Objects(boxes, random.random(count) < 0.3)
        near = boxes[random.integers(0, count, 3)] + random.integers(-4, 5, (3, 4)) if count else np.zeros((0, 4))
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2])
        found = np.concatenate([near, random_boxes(random, int(random.integers(0, 4)))])
        detections[str(image)] = Detections(found, random.integers(0, 6, len(found)) / 5)  # ties
    if random.random() < 0.2:
        objects.pop("0")
    return objects, detections


def test_rules_on_two_thousand_random_cases():
    random = np.random.default_rng(0)
    counted = 0
    for _ in range(2000):
        objects, detections = random_case(random)
        found = evaluate(objects, detections).average_precision
        expected = plain_average_precision(objects, detections)
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)
        counted += 0 < found < 1
    assert counted > 500


def one(*boxes, scores=None, difficult=None):
    array = np.array(boxes, dtype=float).reshape(-1, 4)
    if scores is None:
        return Objects(array, np.array(difficult or [False] * len(array)))
    return Detections(array, np.array(scores, dtype=float))


def test_by_hand():
    truth = {"a": one((1, 1, 10, 10), (21, 1, 30, 10)), "b": one((1, 1, 10, 10))}
    found = {
        "a": one((1, 1, 10, 10), (1, 1, 10, 9), (50, 50, 60, 60), scores=[0.9, 0.8, 0.6]),  # right, twice, nothing there
        "b": one((1, 1, 10, 10), scores=[0.7]),
    }
    curve = evaluate(truth, found)
    assert curve.recall.tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert curve.precision.tolist() == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])
    assert curve.average_precision == pytest.approx(1 / 3 * 1 + 1 / 3 * 2 / 3)


def test_half_counts_and_less_does_not():
    truth = {"a": one((1, 1, 10, 10))}
    assert evaluate(truth, {"a": one((1, 1, 10, 5), scores=[1])}).average_precision == 1  # 50 of 100 pixels
    assert evaluate(truth, {"a": one((1, 1, 10, 4.99), scores=[1])}).average_precision == 0


def test_difficult_objects_neither_help_nor_hurt():
    truth = {"a": one((1, 1, 10, 10), (21, 1, 30, 10), difficult=[False, True])}
    found = {"a": one((21, 1, 30, 10), (21, 1, 30, 9), (1, 1, 10, 10), scores=[0.9, 0.8, 0.7])}
    assert evaluate(truth, found).average_precision == 1
    only = {"a": one((21, 1, 30, 10), difficult=[True])}
    assert math.isnan(evaluate(only, found).average_precision)
    assert math.isnan(evaluate({}, {}).average_precision)
    assert evaluate(truth, {}).average_precision == 0


def test_overlaps_and_suppression():
    random = np.random.default_rng(1)
    a, b = random_boxes(random, 20), random_boxes(random, 30)
    expected = [[plain_overlap(x, y) for y in b.tolist()] for x in a.tolist()]
    np.testing.assert_allclose(overlaps(a, b), expected)
    for _ in range(100):
        boxes, scores = random_boxes(random, 15, 20), random.integers(0, 5, 15).astype(float)
        kept = []
        for k in sorted(range(15), key=lambda k: (-scores[k], k)):
            if all(plain_overlap(boxes[k].tolist(), boxes[other].tolist()) <= 0.3 for other in kept):
                kept.append(k)
        assert suppress(boxes, scores, 0.3).tolist() == kept
    assert suppress(np.zeros((0, 4)), np.zeros(0), 0.3).tolist() == []
