"""Selective search: every step against a plain version of it, and what all hierarchies have in common."""

import colorsys

import numpy as np
import pytest
from directloss_studies.vision import selective_search as module
from directloss_studies.vision.selective_search import selective_search

STEPS = ((0, 1), (1, 0), (1, 1), (-1, 1))
READINESS, SMALLEST = 60.0, 5


def pixels(height=14, width=17, seed=0):
    """Coloured patches and noise."""
    random = np.random.default_rng(seed)
    patches = random.integers(0, 256, (1 + height // 5, 1 + width // 5, 3)).repeat(5, 0).repeat(5, 1)
    return np.clip(patches[:height, :width] + random.integers(-20, 20, (height, width, 3)), 0, 255).astype(np.uint8)


def image(seed=0):
    return module._lab(pixels(seed=seed))


def sorted_edges(values):
    keys = module._edges(values)
    keys.sort()
    return keys


def segments(seed=0, readiness=READINESS, smallest=SMALLEST):
    values = image(seed)
    labels, count = module._segments(sorted_edges(values), *values.shape[:2], readiness, smallest)
    return labels.reshape(values.shape[:2]), count


def plain_edges(values):
    """(difference, first pixel, second pixel) of all neighbours, ascending; of equal ones as the keys have them."""
    height, width, _ = values.shape
    found = []
    for y in range(height):
        for x in range(width):
            for way, (down, across) in enumerate(STEPS):
                if 0 <= y + down < height and x + across < width:
                    gap = values[y, x] - values[y + down, x + across]
                    length = np.float32(np.sqrt(gap[0] * gap[0] + gap[1] * gap[1] + gap[2] * gap[2]))
                    found.append((length, y * width + x, way, (y + down) * width + x + across))
    return [(length, first, second) for length, first, _, second in sorted(found)]


def plain_segments(values, readiness, smallest):
    """Felzenszwalb and Huttenlocher, by sets of pixels."""
    members = {pixel: {pixel} for pixel in range(values.shape[0] * values.shape[1])}
    largest = dict.fromkeys(members, np.float32(0.0))
    home = {pixel: pixel for pixel in members}
    for late in (False, True):
        for gap, first, second in plain_edges(values):
            a, b = home[first], home[second]
            if a == b:
                continue
            if late:
                joins = min(len(members[a]), len(members[b])) < smallest
            else:
                joins = all(gap <= np.float32(largest[k] + readiness / len(members[k])) for k in (a, b))
            if joins:
                members[a] |= members.pop(b)
                largest[a] = gap
                home.update(dict.fromkeys(members[a], a))
    return {frozenset(some) for some in members.values()}


@pytest.mark.parametrize("seed", range(3))
def test_edges_are_those_of_all_neighbours_in_ascending_order(seed):
    values = image(seed)
    found = []
    for key in sorted_edges(values).tolist():
        first, (down, across) = (key & 0xFFFFFFFF) >> 2, STEPS[key & 3]
        gap = np.array(key >> 32, np.int32).view(np.float32)
        found.append((float(gap), first, first + down * values.shape[1] + across))
    expected = plain_edges(values)
    assert [edge[1:] for edge in sorted(found)] == [edge[1:] for edge in sorted(expected)]
    np.testing.assert_allclose([edge[0] for edge in found], [edge[0] for edge in expected], rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("readiness", "smallest"), [(20.0, 1), (60.0, 5), (300.0, 12)])
def test_segments_are_those_of_the_plain_algorithm(seed, readiness, smallest):
    labels, count = segments(seed, readiness, smallest)
    found = {frozenset(np.flatnonzero(labels.ravel() == number).tolist()) for number in range(count)}
    assert found == plain_segments(image(seed), readiness, smallest)
    assert all(len(some) >= smallest for some in found)


def test_more_readiness_makes_fewer_segments():
    counts = [segments(readiness=readiness, smallest=1)[1] for readiness in (0.0, 20.0, 100.0, 1e6)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 50
    assert counts[-1] == 1


def plain_likeness(a, b, bins, colour, area):
    """Of two sets of (row, column), from the bins of their pixels."""

    def histogram(pixels, columns, size):
        whole = np.zeros((len(columns), size))
        for y, x in pixels:
            for k, column in enumerate(columns):
                whole[k, bins[y, x, column]] += 1
        return whole / (len(pixels) * len(columns))

    def shared(columns, size):
        return np.minimum(histogram(a, columns, size), histogram(b, columns, size)).sum()

    places = np.array([*a, *b])
    down, across = places.max(0) - places.min(0) + 1
    parts = [shared(range(3, 27), 10), 1 - len(places) / area, 1 - (down * across - len(places)) / area]
    return np.mean([*parts, shared(range(3), 25)] if colour else parts)


def box(places):
    (top, left), (bottom, right) = np.min([*places], 0), np.max([*places], 0)
    return int(left), int(top), int(right), int(bottom)


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_the_two_neighbours_that_are_most_alike_are_joined_until_one_is_left(seed, colour):
    labels, count = segments(seed)
    height, width = labels.shape
    bins = module._bins(image(seed))
    boxes, sizes, histograms = module._measure(labels.ravel(), bins, height, width, count)
    pairs = np.unique(module._neighbours(labels.ravel(), height, width, count))
    found = module._join(boxes, sizes, histograms, pairs, colour, height * width)
    bins = bins.reshape(height, width, -1)
    alive = {number: {tuple(place) for place in np.argwhere(labels == number).tolist()} for number in range(count)}
    expected = [box(alive[number]) for number in range(count)]
    for new in range(count, 2 * count - 1):
        values = {
            (a, b): plain_likeness(alive[a], alive[b], bins, colour, labels.size)
            for a in alive
            for b in alive
            if a < b and touch(alive[a], alive[b])
        }
        best = max(values.values())
        near = [pair for pair, value in values.items() if value > best - 1e-6]
        joined = {box(alive[a] | alive[b]): (a, b) for a, b in near}
        assert tuple(found[new].tolist()) in joined  # several pairs may be equally alike
        a, b = joined[tuple(found[new].tolist())]
        alive[new] = alive.pop(a) | alive.pop(b)
        expected.append(box(alive[new]))
    assert [tuple(row) for row in found.tolist()] == expected
    assert count > 5


def touch(a, b):
    return any((y + down, x + across) in b for y, x in a for down in (-1, 0, 1) for across in (-1, 0, 1))


def test_hue_saturation_and_value_are_those_of_the_standard_library():
    given = pixels()
    expected = [colorsys.rgb_to_hsv(*(colour / 255)) for colour in given.reshape(-1, 3)]
    np.testing.assert_allclose(module._hsv(given).reshape(-1, 3) / 255, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("colour", "lab"),
    [
        ((0, 0, 0), (0.0, 0.0, 0.0)),
        ((255, 255, 255), (100.0, 0.0, 0.0)),
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 255, 0), (87.73, -86.18, 83.18)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
        ((200, 120, 40), (57.77, 25.42, 53.98)),
    ],
)
def test_lab_of_known_colours(colour, lab):
    found = module._lab(np.full((2, 2, 3), colour, np.uint8))[0, 0] - [0, 128, 128]
    np.testing.assert_allclose(found * [1 / 2.55, 1, 1], lab, atol=0.15)


def test_a_blur_keeps_one_colour_and_the_mean():
    weights = np.array([0.25, 0.5, 0.25], np.float32)
    np.testing.assert_allclose(module._blurred(np.full((4, 6, 3), 7.0, np.float32), weights), 7.0, rtol=1e-6)
    point = np.zeros((5, 5, 1), np.float32)
    point[2, 2] = 16.0
    expected = np.outer([0, 1, 2, 1, 0], [0, 1, 2, 1, 0])
    np.testing.assert_allclose(module._blurred(point, weights)[:, :, 0], expected)


def test_steps_of_colour_have_the_bins_of_their_direction():
    values = np.zeros((5, 8, 1), np.float32)
    values[:, 4:] = 64.0  # brighter to the right: half of the step at each of the two columns beside it
    bins = module._bins(values.repeat(3, 2)).reshape(5, 8, 27)
    across, back, down, up, *diagonals = bins[2, 4, 3:11].tolist()
    assert (across, back, down, up) == (2, 0, 0, 0)
    assert diagonals == [1, 0, 1, 0]
    assert bins[2, 1, 3:].tolist() == [0] * 24
    assert bins[2, 4, 0] == 6
    assert bins[2, 3, 0] == 0


@pytest.mark.parametrize("shape", [(14, 17), (1, 40), (40, 1), (2, 2), (1, 1)])
def test_every_hierarchy_ends_with_the_whole_image(shape):
    given = pixels(*shape)
    boxes = selective_search(given, READINESS, SMALLEST, np.random.default_rng(0)).tolist()
    whole = [0, 0, shape[1] - 1, shape[0] - 1]
    assert boxes.count(whole) >= 12
    assert all(0 <= left <= right <= whole[2] and 0 <= top <= low <= whole[3] for left, top, right, low in boxes)


def test_what_was_joined_late_tends_to_come_first():
    found = selective_search(pixels(60, 80), READINESS, SMALLEST, np.random.default_rng(0))
    areas = np.prod(found[:, 2:] - found[:, :2] + 1, axis=1)
    assert areas[: len(areas) // 4].mean() > 2 * areas[-len(areas) // 4 :].mean()


def test_the_generator_decides_the_order_and_nothing_else():
    first, again, other = (
        selective_search(pixels(), READINESS, SMALLEST, np.random.default_rng(seed)).tolist() for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other)
