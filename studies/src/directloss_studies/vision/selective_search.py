"""Selective search (Uijlings et al., 2013), fast mode: boxes that may hold an object, from segments that are joined.

An image is cut into segments of similar pixels (Felzenszwalb and Huttenlocher, 2004), in two colour spaces and with
three sizes of segments. The two neighbours that are most alike are joined, again and again, until one is left. The box
of every segment on the way is a proposal. This is done by two measures of likeness, so there are twelve hierarchies.
"""

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled

__all__ = ["selective_search"]

SIZES = 3  # of segments: `readiness`, twice and three times as much
BLUR = 0.8  # pixels, before the image is cut
COLOUR_BINS, TEXTURE_BINS, DIRECTIONS = 25, 10, 8
BINS = 3 * COLOUR_BINS, 3 * DIRECTIONS * TEXTURE_BINS
STEEPEST = 128.0  # a change of colour from pixel to pixel, beyond which all are alike


def selective_search(
    pixels: NDArray[np.uint8], readiness: float, smallest: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Boxes (n, 4) of an image (height, width, 3): left, top, right, bottom from 0, both ends inside.

    Segments that were joined late tend to come first, in a random order, as in the paper. Boxes may repeat. Pixels join
    more readily the larger `readiness` is. No segment has fewer than `smallest` pixels, unless the image has.
    """
    height, width, _ = pixels.shape
    reach = np.arange(-3, 4)
    weights = np.exp(-0.5 * (reach / BLUR) ** 2)
    weights = (weights / weights.sum()).astype(np.float32)
    found, ranks = [], []
    for image in (_hsv(pixels), _lab(pixels)):
        keys = _edges(_blurred(image, weights))
        keys.sort()
        bins = _bins(image)
        for size in range(1, SIZES + 1):
            labels, count = _segments(keys, height, width, size * readiness, smallest)
            boxes, sizes, histograms = _measure(labels, bins, height, width, count)
            pairs = np.unique(_neighbours(labels, height, width, count))
            for colour in (True, False):
                joined = _join(boxes, sizes, histograms, pairs, colour, height * width)
                found.append(joined)
                ranks.append(generator.random(len(joined)) * np.arange(len(joined), 0, -1))
    return np.concatenate(found)[np.argsort(np.concatenate(ranks), kind="stable")]


@compiled
def _hsv(pixels):
    """Hue, saturation and value, each from 0 to 255."""
    out = np.empty(pixels.shape, np.float32)
    for y in range(pixels.shape[0]):
        for x in range(pixels.shape[1]):
            red, green, blue = np.float32(pixels[y, x, 0]), np.float32(pixels[y, x, 1]), np.float32(pixels[y, x, 2])
            high, low = max(red, green, blue), min(red, green, blue)
            span = high - low
            hue = np.float32(0.0)
            if span > 0:
                if high == red:
                    hue = (green - blue) / span
                elif high == green:
                    hue = 2 + (blue - red) / span
                else:
                    hue = 4 + (red - green) / span
            out[y, x, 0] = (hue % 6) * (255 / 6)
            out[y, x, 1] = 255 * span / high if high > 0 else 0
            out[y, x, 2] = high
    return out


@compiled
def _lab(pixels):
    """CIE L*a*b* of sRGB with white D65, moved and scaled to 0 to 255, as OpenCV has it in bytes."""
    linear = np.empty(256)
    for byte in range(256):
        value = byte / 255
        linear[byte] = value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
    roots = np.empty(4097)  # of 0 to 1; between two of them a straight line is near enough
    for k in range(4097):
        value = k / 4096
        roots[k] = np.cbrt(value) if value > 0.008856 else 7.787 * value + 16 / 116
    out = np.empty(pixels.shape, np.float32)
    for y in range(pixels.shape[0]):
        for x in range(pixels.shape[1]):
            red, green, blue = linear[pixels[y, x, 0]], linear[pixels[y, x, 1]], linear[pixels[y, x, 2]]
            fx = _root(roots, (0.412453 * red + 0.357580 * green + 0.180423 * blue) / 0.950456)
            fy = _root(roots, 0.212671 * red + 0.715160 * green + 0.072169 * blue)
            fz = _root(roots, (0.019334 * red + 0.119193 * green + 0.950227 * blue) / 1.088754)
            out[y, x, 0] = (116 * fy - 16) * 2.55
            out[y, x, 1] = 500 * (fx - fy) + 128
            out[y, x, 2] = 200 * (fy - fz) + 128
    return out


@compiled
def _root(roots, value):
    place = min(max(value, 0.0), 1.0) * 4096
    k = min(int(place), 4095)
    return roots[k] + (place - k) * (roots[k + 1] - roots[k])


@compiled
def _blurred(image, weights):
    """The image, each of its pixels a mean of those around it; beyond an edge the last pixel repeats."""
    height, width, channels = image.shape
    radius = weights.size // 2
    rows, out = np.zeros_like(image), np.zeros_like(image)
    for y in range(height):
        for k in range(weights.size):
            source = min(max(y + k - radius, 0), height - 1)
            for x in range(width):
                for channel in range(channels):
                    rows[y, x, channel] += weights[k] * image[source, x, channel]
    for y in range(height):
        for x in range(width):
            for k in range(weights.size):
                source = min(max(x + k - radius, 0), width - 1)
                for channel in range(channels):
                    out[y, x, channel] += weights[k] * rows[y, source, channel]
    return out


@compiled
def _edges(image):
    """A key for each two pixels that touch: in ascending order of the difference of their colours.

    Bits 34 to 63: the difference, a float that is not negative; bits 2 to 33: the first pixel; bits 0 and 1: where the
    other one is, to the right, below, below to the right, above to the right.
    """
    height, width, channels = image.shape
    keys = np.empty(4 * height * width, np.int64)
    count = 0
    for y in range(height):
        for x in range(width):
            for way in range(4):
                down, across = _step(way)
                if not (0 <= y + down < height and x + across < width):
                    continue
                square = np.float32(0.0)
                for channel in range(channels):
                    gap = image[y, x, channel] - image[y + down, x + across, channel]
                    square += gap * gap
                difference = np.float32(np.sqrt(square))
                bits = np.int64(difference.view(np.int32))
                keys[count] = (bits << 32) | ((y * width + x) << 2) | way
                count += 1
    return keys[:count]


@compiled
def _step(way):
    return (0, 1) if way == 0 else ((1, 0) if way == 1 else ((1, 1) if way == 2 else (-1, 1)))


@compiled
def _find(parents, pixel):
    while parents[pixel] != pixel:
        parents[pixel] = parents[parents[pixel]]
        pixel = parents[pixel]
    return pixel


@compiled
def _unite(parents, sizes, a, b):
    """Join the smaller segment to the larger one; return the root."""
    if sizes[a] < sizes[b]:
        a, b = b, a
    parents[b] = a
    sizes[a] += sizes[b]
    return a


@compiled
def _segments(keys, height, width, readiness, smallest):
    """The number of its segment for each pixel, and how many segments there are.

    Two segments join over an edge whose difference is at most the largest inside each of them plus readiness / size.
    """
    total = height * width
    offsets = np.array([1, width, width + 1, 1 - width])  # of the other pixel, see `_edges`
    parents, sizes = np.arange(total).astype(np.int32), np.ones(total, np.int32)
    limits = np.full(total, readiness, np.float32)
    apart = np.empty(keys.size, np.int32)  # edges whose segments did not join, in order
    left = 0
    for number, key in enumerate(keys):
        pixel = (key & 0xFFFFFFFF) >> 2
        a, b = _find(parents, pixel), _find(parents, pixel + offsets[key & 3])
        if a != b:
            gap = np.int32(key >> 32).view(np.float32)
            if gap <= limits[a] and gap <= limits[b]:
                root = _unite(parents, sizes, a, b)
                limits[root] = gap + readiness / sizes[root]
            else:
                apart[left] = number
                left += 1
    for number in apart[:left]:  # small segments join their most similar neighbours
        key = keys[number]
        pixel = (key & 0xFFFFFFFF) >> 2
        a, b = _find(parents, pixel), _find(parents, pixel + offsets[key & 3])
        if a != b and min(sizes[a], sizes[b]) < smallest:
            _unite(parents, sizes, a, b)
    labels, numbers = np.empty(total, np.int32), np.full(total, -1, np.int32)
    count = 0
    for pixel in range(total):
        root = _find(parents, pixel)
        if numbers[root] < 0:
            numbers[root] = count
            count += 1
        labels[pixel] = numbers[root]
    return labels, count


@compiled
def _bins(image):
    """(pixels, 27) for each pixel: the bins of its colours, and of how steeply they change in eight directions."""
    height, width, channels = image.shape
    out = np.empty((height * width, channels * (1 + DIRECTIONS)), np.uint8)
    diagonal = np.sqrt(0.5)
    for y in range(height):
        above, below = max(y - 1, 0), min(y + 1, height - 1)
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            row = out[y * width + x]
            for channel in range(channels):
                row[channel] = min(int(image[y, x, channel] * (COLOUR_BINS / 256)), COLOUR_BINS - 1)
                across = (
                    3 * (image[above, right, channel] - image[above, left, channel])
                    + 10 * (image[y, right, channel] - image[y, left, channel])
                    + 3 * (image[below, right, channel] - image[below, left, channel])
                ) / 32
                down = (
                    3 * (image[below, left, channel] - image[above, left, channel])
                    + 10 * (image[below, x, channel] - image[above, x, channel])
                    + 3 * (image[below, right, channel] - image[above, right, channel])
                ) / 32
                first = channels + DIRECTIONS * channel
                for k, change in enumerate((across, down, diagonal * (across + down), diagonal * (across - down))):
                    size = min(int(abs(change) * (TEXTURE_BINS / STEEPEST)), TEXTURE_BINS - 1)
                    row[first + 2 * k] = size if change > 0 else 0
                    row[first + 2 * k + 1] = size if change < 0 else 0
    return out


@compiled
def _measure(labels, bins, height, width, count):
    """Boxes, sizes and histograms of the segments; each of the two histograms of a segment sums to one."""
    boxes = np.empty((2 * count - 1, 4), np.int64)
    boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3] = width, height, -1, -1
    sizes = np.zeros(2 * count - 1, np.int64)
    histograms = np.zeros((2 * count - 1, BINS[0] + BINS[1]), np.float32)
    for pixel in range(labels.size):
        segment = labels[pixel]
        y, x = pixel // width, pixel % width
        boxes[segment, 0], boxes[segment, 1] = min(boxes[segment, 0], x), min(boxes[segment, 1], y)
        boxes[segment, 2], boxes[segment, 3] = max(boxes[segment, 2], x), max(boxes[segment, 3], y)
        sizes[segment] += 1
        for channel in range(3):
            histograms[segment, channel * COLOUR_BINS + bins[pixel, channel]] += 1
        for k in range(3 * DIRECTIONS):
            histograms[segment, BINS[0] + k * TEXTURE_BINS + bins[pixel, 3 + k]] += 1
    for segment in range(count):
        histograms[segment, : BINS[0]] /= 3 * sizes[segment]
        histograms[segment, BINS[0] :] /= 3 * DIRECTIONS * sizes[segment]
    return boxes, sizes, histograms


@compiled
def _neighbours(labels, height, width, count):
    """A number for each two segments that touch, smaller · count + larger; it may be there several times."""
    found = np.empty(4 * labels.size, np.int64)
    total = 0
    for y in range(height):
        for x in range(width):
            here = labels[y * width + x]
            for way in range(4):
                down, across = _step(way)
                if 0 <= y + down < height and x + across < width:
                    there = labels[(y + down) * width + x + across]
                    if here != there:
                        found[total] = min(here, there) * count + max(here, there)
                        total += 1
    return found[:total]


@compiled
def _likeness(a, b, boxes, sizes, histograms, colour, area):
    """The mean of how alike textures are, of how small both are, of how well they fit together, and of colours."""
    texture = np.float32(0.0)
    for k in range(BINS[0], BINS[0] + BINS[1]):
        texture += min(histograms[a, k], histograms[b, k])
    both = sizes[a] + sizes[b]
    across = max(boxes[a, 2], boxes[b, 2]) - min(boxes[a, 0], boxes[b, 0]) + 1
    down = max(boxes[a, 3], boxes[b, 3]) - min(boxes[a, 1], boxes[b, 1]) + 1
    rest = texture + (1 - both / area) + (1 - (across * down - both) / area)
    if not colour:
        return rest / 3
    shared = np.float32(0.0)
    for k in range(BINS[0]):
        shared += min(histograms[a, k], histograms[b, k])
    return (rest + shared) / 4


@compiled
def _join(boxes, sizes, histograms, pairs, colour, area):
    """Boxes of all segments: first those that are given, then each that two became, until one is left."""
    boxes, sizes, histograms = boxes.copy(), sizes.copy(), histograms.copy()
    total = sizes.size
    count = (total + 1) // 2
    most = pairs.size + 1
    first, second, likeness = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    active = pairs.size
    for k in range(active):
        first[k], second[k] = pairs[k] // count, pairs[k] % count
        likeness[k] = _likeness(first[k], second[k], boxes, sizes, histograms, colour, area)
    touches = np.zeros(total, np.bool_)
    for new in range(count, total):
        best = 0
        for k in range(1, active):
            if likeness[k] > likeness[best]:
                best = k
        a, b = first[best], second[best]
        sizes[new] = sizes[a] + sizes[b]
        for k in range(2):
            boxes[new, k] = min(boxes[a, k], boxes[b, k])
            boxes[new, k + 2] = max(boxes[a, k + 2], boxes[b, k + 2])
        share = np.float32(sizes[a] / sizes[new])
        for k in range(histograms.shape[1]):
            histograms[new, k] = share * histograms[a, k] + (1 - share) * histograms[b, k]
        stay = 0
        for k in range(active):  # what touched one of both touches the new one, once
            c, d = first[k], second[k]
            if c in (a, b) or d in (a, b):
                touches[d if c in (a, b) else c] = True
            else:
                first[stay], second[stay], likeness[stay] = c, d, likeness[k]
                stay += 1
        touches[a] = touches[b] = False
        active = stay
        for other in range(new):
            if touches[other]:
                touches[other] = False
                first[active], second[active] = other, new
                likeness[active] = _likeness(other, new, boxes, sizes, histograms, colour, area)
                active += 1
    return boxes
