"""Detection AP: by hand, against a plain transcription of the rules, and against COCO's evaluation where both agree."""

import contextlib
import io
import math
from typing import Any

import numpy as np
import pytest
from directloss_studies.vision.boxes import overlaps, suppress
from directloss_studies.vision.evaluation import Detections, Objects, evaluate
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def plain_overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0]) + 1
    height = min(a[3], b[3]) - max(a[1], b[1]) + 1
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0] + 1) * (a[3] - a[1] + 1) + (b[2] - b[0] + 1) * (b[3] - b[1] + 1) - shared)


def plain_evaluate(objects, detections, overlap=0.5):
    """The rules of the challenge, one detection after the other, the area as a sum over levels of recall."""
    truth = list(zip(objects.images.tolist(), objects.boxes.tolist(), objects.difficult.tolist(), strict=True))
    scores = detections.scores.tolist()
    order = sorted(range(len(scores)), key=lambda k: (-scores[k], k))
    wanted = sum(not hard for _, _, hard in truth)
    taken, rows, true, false = set(), [], 0, 0
    for k in order:
        best, at = -math.inf, -1
        for place, (image, box, _) in enumerate(truth):
            if image == detections.images[k]:
                shared = plain_overlap(detections.boxes[k].tolist(), box)
                if shared > best:
                    best, at = shared, place
        right, counts = False, True
        if best < overlap:
            at = -1
            false += 1
        elif truth[at][2]:
            counts = False
        elif at in taken:
            false += 1
        else:
            taken.add(at)
            right = True
            true += 1
        rows.append((at, right, counts, true, true / max(true + false, 1)))
    if not wanted:
        return order, rows, 0, math.nan
    levels = range(1, wanted + 1)
    return order, rows, wanted, sum(max((row[4] for row in rows if row[3] >= k), default=0.0) for k in levels) / wanted


def random_boxes(random, count, side=60):
    corner = random.integers(1, side, (count, 2))
    size = random.integers(1, 25, (count, 2))
    return np.concatenate([corner, corner + size], axis=1).astype(float)


def shuffled(random, *arrays):
    order = random.permutation(len(arrays[0]))
    return [array[order] for array in arrays]


def random_case(random):
    """Of up to four images some have no objects, some no detections; what is in them is listed in any order."""
    truth, found = [(np.zeros(0, dtype=int), np.zeros((0, 4)))], [(np.zeros(0, dtype=int), np.zeros((0, 4)))]
    for image in random.choice(100, random.integers(1, 5), replace=False):
        boxes = random_boxes(random, int(random.integers(0, 4)))
        truth.append((np.full(len(boxes), image), boxes))
        if random.random() < 0.2:
            continue
        near = boxes[random.integers(0, len(boxes), 3)] if len(boxes) else np.zeros((0, 4))
        near = near + random.integers(-4, 5, near.shape)
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2])
        near = np.concatenate([near, near[:1], random_boxes(random, int(random.integers(0, 4)))])  # one twice
        found.append((np.full(len(near), image), near))
    images, boxes = shuffled(random, *map(np.concatenate, zip(*truth, strict=True)))
    objects = Objects(images, boxes, random.random(len(images)) < 0.3)
    images, boxes = shuffled(random, *map(np.concatenate, zip(*found, strict=True)))
    return objects, Detections(images, boxes, random.integers(0, 6, len(images)) / 5)  # ties


def test_rules_on_two_thousand_random_cases():
    random = np.random.default_rng(0)
    seen = np.zeros(8, dtype=int)
    for _ in range(2000):
        objects, detections = random_case(random)
        curve = evaluate(objects, detections)
        order, rows, wanted, area = plain_evaluate(objects, detections)
        places, right, counts, true, precision = ([row[k] for row in rows] for k in range(5))
        assert curve.order.tolist() == order
        assert curve.objects.tolist() == places
        assert curve.right.tolist() == right
        assert curve.counts.tolist() == counts
        assert curve.recall.tolist() == pytest.approx([found / max(wanted, 1) for found in true], abs=1e-12)
        assert curve.precision.tolist() == pytest.approx(precision, abs=1e-12)
        assert curve.average_precision == pytest.approx(area, abs=1e-12, nan_ok=True)
        seen += [
            0 < area < 1,
            not wanted,
            not all(counts),
            any(place >= 0 and counted and not good for place, good, counted, _, _ in rows),  # a second one
            len(set(detections.scores.tolist())) < len(rows),
            len(np.unique(detections.boxes, axis=0)) < len(rows),
            bool(set(detections.images.tolist()) - set(objects.images.tolist())),
            bool(set(objects.images.tolist()) - set(detections.images.tolist())),
        ]
    assert seen[0] > 500
    assert (seen > 100).all()


SMALL = 700  # pixels; COCO can ignore objects for their size


def random_case_for_coco(random):
    """What is difficult is large, and so is whatever is found there; objects lie apart; no two scores are alike.

    Then COCO's rules are those of VOC: nothing overlaps two objects by half, so it does not matter whether a detection
    may turn to the second best; and a detection on a large object is ignored, also one after the first.
    """
    rows, hard, boxes, images = [], [], [], []
    for image in random.choice(np.arange(1, 100), random.integers(2, 6), replace=False):
        for place in range(int(random.integers(0, 4))):
            large = random.random() < 0.3
            size = random.integers(38, 45, 2) if large else random.integers(9, 17, 2)
            corner = np.array([1 + 100 * place, 1]) + random.integers(10, 40, 2)
            box = np.concatenate([corner, corner + size - 1])
            rows.append((image, box))
            hard.append(large)
            for _ in range(int(random.integers(0, 4))):
                images.append(image)
                boxes.append(box + random.integers(-4, 5, 4))
        for box in random_boxes(random, int(random.integers(0, 4)), 300):
            images.append(image)
            boxes.append(box)
    objects = Objects(
        np.array([image for image, _ in rows], dtype=int),
        np.array([box for _, box in rows], dtype=float).reshape(-1, 4),
        np.array(hard, dtype=bool),
    )
    scores = random.permutation(len(boxes)) / 7 - 2
    return objects, Detections(np.array(images, dtype=int), np.array(boxes, dtype=float).reshape(-1, 4), scores)


def coco_evaluate(objects, detections):
    """Average precision; and of every detection, by place, the object it is right on or −1, and whether it counts."""
    numbers = [{"id": image} for image in range(1, 100)]

    def table(images, boxes, **more):
        sizes = boxes[:, 2:] - boxes[:, :2] + 1
        dataset: Any = {
            "images": numbers,
            "categories": [{"id": 1}],
            "annotations": [
                {
                    "id": place + 1,
                    "image_id": int(images[place]),
                    "category_id": 1,
                    "iscrowd": 0,
                    "bbox": [*boxes[place, :2].tolist(), *sizes[place].tolist()],
                    "area": float(sizes[place].prod()),
                    **{name: float(values[place]) for name, values in more.items()},
                }
                for place in range(len(images))
            ],
        }
        table = COCO()
        table.dataset = dataset
        table.createIndex()
        return table

    wanted = int((~objects.difficult).sum())
    with contextlib.redirect_stdout(io.StringIO()):
        truth = table(objects.images, objects.boxes)
        evaluation = COCOeval(truth, table(detections.images, detections.boxes, score=detections.scores), "bbox")
        evaluation.params.iouThrs = np.array([0.5])
        evaluation.params.recThrs = np.arange(1, wanted + 1) / wanted if wanted else np.ones(1)
        evaluation.params.areaRng = [[0, SMALL]]
        evaluation.params.areaRngLbl = ["small"]
        evaluation.params.maxDets = [1000]
        evaluation.evaluate()
        evaluation.accumulate()
    right, counts = np.full(len(detections.images), -1), np.zeros(len(detections.images), dtype=bool)
    for image in evaluation.evalImgs:
        if image is not None:
            places = np.array(image["dtIds"], dtype=int) - 1
            counts[places] = ~image["dtIgnore"][0].astype(bool)
            right[places] = np.where(counts[places], image["dtMatches"][0].astype(int) - 1, -1)
    precision = evaluation.eval["precision"]
    assert precision.shape == (1, max(wanted, 1), 1, 1, 1)
    assert (precision == -1).all() == (wanted == 0)  # so COCO says that there is nothing to find
    return float(precision.mean()) if wanted else math.nan, right, counts


def test_coco_agrees_on_a_thousand_random_cases():
    random = np.random.default_rng(3)
    between = ignored = doubled = nothing = 0
    for _ in range(1200):
        objects, detections = random_case_for_coco(random)
        curve = evaluate(objects, detections)
        area, right, counts = coco_evaluate(objects, detections)
        assert curve.average_precision == pytest.approx(area, rel=0, abs=1e-9, nan_ok=True)
        assert np.where(curve.right, curve.objects, -1).tolist() == right[curve.order].tolist()
        assert curve.counts.tolist() == counts[curve.order].tolist()
        between += 0 < area < 1
        ignored += not counts.all()
        doubled += bool((curve.counts & ~curve.right & (curve.objects >= 0)).any())
        nothing += math.isnan(area)
    assert between > 600
    assert ignored > 600
    assert doubled > 300
    assert nothing > 30


def truth(*rows, difficult=None):
    table = np.array(rows, dtype=float).reshape(-1, 5)
    return Objects(table[:, 0].astype(int), table[:, 1:], np.array(difficult or [False] * len(table), dtype=bool))


def found(*rows):
    table = np.array(rows, dtype=float).reshape(-1, 6)
    return Detections(table[:, 0].astype(int), table[:, 1:5], table[:, 5])


def test_by_hand():
    objects = truth((4, 1, 1, 10, 10), (9, 1, 1, 10, 10), (4, 21, 1, 30, 10))
    detections = found(
        (4, 50, 50, 60, 60, 0.6),  # nothing there
        (4, 1, 1, 10, 10, 0.9),
        (9, 1, 1, 10, 10, 0.7),
        (4, 1, 1, 10, 9, 0.8),  # twice
    )
    curve = evaluate(objects, detections)
    assert curve.order.tolist() == [1, 3, 2, 0]
    assert curve.objects.tolist() == [0, 0, 1, -1]
    assert curve.right.tolist() == [True, False, True, False]
    assert curve.counts.tolist() == [True, True, True, True]
    assert curve.recall.tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert curve.precision.tolist() == pytest.approx([1, 1 / 2, 2 / 3, 1 / 2])
    assert curve.average_precision == pytest.approx(1 / 3 * 1 + 1 / 3 * 2 / 3)


def test_difficult_objects_neither_help_nor_hurt():
    objects = truth((1, 1, 1, 10, 10), (1, 21, 1, 30, 10), difficult=[False, True])
    detections = found((1, 21, 1, 30, 10, 0.9), (1, 21, 1, 30, 9, 0.8), (1, 1, 1, 10, 10, 0.7))
    curve = evaluate(objects, detections)
    assert curve.objects.tolist() == [1, 1, 0]
    assert curve.right.tolist() == [False, False, True]
    assert curve.counts.tolist() == [False, False, True]
    assert curve.recall.tolist() == curve.precision.tolist() == [0, 0, 1]
    assert curve.average_precision == 1
    only = truth((1, 21, 1, 30, 10), difficult=[True])
    assert math.isnan(evaluate(only, detections).average_precision)


def test_overlaps():
    random = np.random.default_rng(1)
    a, b = random_boxes(random, 20), random_boxes(random, 30)
    expected = [[plain_overlap(x, y) for y in b.tolist()] for x in a.tolist()]
    np.testing.assert_allclose(overlaps(a, b), expected)
    assert (np.array(expected) == 0).any()
    assert (np.array(expected) > 0).any()
    assert overlaps(a, np.zeros((0, 4))).shape == (20, 0)
    assert overlaps(np.zeros((0, 4)), b).shape == (0, 30)
    one = np.array([[1.0, 1.0, 1.0, 1.0]])
    assert overlaps(one, np.array([[1.0, 1.0, 2.0, 2.0], [2.0, 1.0, 2.0, 1.0]])).tolist() == [[0.25, 0]]


def plain_suppress(images, boxes, scores, overlap):
    kept = []
    for k in sorted(range(len(images)), key=lambda k: (-scores[k], k)):
        rivals = [other for other in kept if images[other] == images[k]]
        if all(plain_overlap(boxes[k].tolist(), boxes[other].tolist()) <= overlap for other in rivals):
            kept.append(k)
    return kept


@pytest.mark.parametrize("images", [1, 2, 5])
def test_suppression_on_random_boxes_of_interleaved_images(images):
    random = np.random.default_rng(images)
    gone = 0
    for _ in range(100):
        count = int(random.integers(1, 30))
        numbers = random.choice(50, images, replace=False)[random.integers(0, images, count)]
        boxes, scores = random_boxes(random, count, 20), random.integers(-2, 3, count).astype(float)  # ties
        overlap = random.choice([0.1, 0.3, 0.5])
        kept = plain_suppress(numbers, boxes, scores, overlap)
        assert suppress(numbers, boxes, scores, overlap).tolist() == kept
        gone += count - len(kept)
    assert gone > 100


def test_suppression_by_hand():
    boxes = np.array([[1, 1, 10, 5], [1, 1, 10, 10], [1, 1, 10, 10], [1, 6, 10, 10]], dtype=float)
    images, scores = np.array([3, 3, 1, 3]), np.array([0.5, 0.9, 0.9, 0.5])
    assert suppress(images, boxes, scores, 0.5).tolist() == [1, 2, 0, 3]  # exactly half: that is not more
    assert suppress(images, boxes, scores, 0.49).tolist() == [1, 2]
    twice = np.array([[1.0, 1.0, 10.0, 10.0]] * 3)
    assert suppress(np.array([2, 2, 2]), twice, np.zeros(3), 0.5).tolist() == [0]  # of equal ones the first stays
    # one that is gone suppresses nothing: the last overlaps the second only, which the first one removes
    chain = np.array([[1.0, 1.0, 10.0, 10.0], [5.0, 1.0, 14.0, 10.0], [9.0, 1.0, 18.0, 10.0]])
    assert suppress(np.zeros(3, dtype=int), chain, np.array([3.0, 2.0, 1.0]), 0.3).tolist() == [0, 2]
