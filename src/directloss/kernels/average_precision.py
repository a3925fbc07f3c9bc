"""Exact inference for average precision in near-linear time after a sort.

A list has positives a_1 ≥ … ≥ a_P and negatives b_1 ≥ … ≥ b_M. A ranking interleaves them: c_i negatives stand above
positive i, p_j positives above negative j, both non-decreasing. Its score is F = 1/(PM) Σ_ij ±(a_i − b_j), plus where i
stands above j; its loss is L = 1 − 1/P Σ_i i/(i + c_i). Up to a factor PM/2, moving negative c above positive i changes
F + weight·L by

    D_i(c) = b_c − a_i + κ·K(i, c),    K(i, c) = i/((i+c−1)(i+c)),    κ = weight·M/2,

so a ranking is a staircase of cells (i, c), worth the sum of the D in it. Indices in formulas start at 1, in code at 0.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled, compiled_noalloc, compiled_reassoc
from .lists import NOTHING, TRUTH, close_list, copy, count_classes, count_output, open_float32, open_list
from .ranking import solve_band

__all__ = ["average_precision_contrast", "average_precision_up"]

_BLOCK_EDGES = 1 << 18  # for which `_narrow_run` remembers its bounds
_WINDOW = 8  # cells that `_place_rows` counts at once
_SHORT = 128  # negatives up to which it places every row on its own
_DETAIL = 16  # segments that the mean row of a wide band is cut into
_ROUNDING = 1e-9  # the share of the magnitudes that bounds leave to rounding


@compiled_reassoc
def _precision(above: NDArray[np.int32]) -> float:  # [P]
    """The sum of the positives' precisions."""
    precision = 0.0
    for i in range(above.size):
        precision += (i + 1.0) / (i + 1.0 + above[i])
    return precision


@compiled_noalloc
def _tied_precision(
    a: NDArray[np.float64], b: NDArray[np.float64], low: NDArray[np.int32], high: NDArray[np.int32]
) -> float:
    """The prediction's sum of precisions: a tied group shares the one at its end. Writes the negatives with b ≥ a_i."""
    precision = 0.0
    i = 0
    while i < a.size:
        first, j = i, low[i]
        while i < a.size and a[i] == a[first]:
            i += 1
        while j < b.size and b[j] == a[first]:
            j += 1
        for k in range(first, i):
            high[k] = j
        precision += (i - first) * (i / (i + j))
    return precision


@compiled_noalloc
def _rises(score: float, a: float, x: float, kappa_i: float) -> bool:
    """Whether D_i(c) = b_c − a_i + κ·i/((x−1)x) > 0, x = i + c; without the division."""
    return (score - a) * ((x - 1.0) * x) + kappa_i > 0.0


@compiled_noalloc
def _place_rows(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: float,
    before: NDArray[np.int32],  # [P] how many negatives stand above each positive in the prediction
    above: NDArray[np.int32],
) -> bool:
    """Write the best c_i of every row alone, the number of c with D_i(c) > 0; return whether they are a staircase.

    A row ends at most one place before the row above it, since D_i(c − 1) > D_{i−1}(c) as K(i, c − 1) > K(i − 1, c).
    Otherwise the search goes up from there: a few windows, each counted without a branch; then it halves what is left.
    In a short list the search starts at the prediction: that is near, and rows need not wait for one another.
    """
    M = b.size
    short = M <= _SHORT
    staircase = True
    c = 0
    for i in range(a.size):
        x, kappa_i = i + 2.0, kappa * (i + 1.0)
        previous = c
        if not short and c > 0 and not _rises(b[c - 1], a[i], x + c - 1, kappa_i):
            c -= 1
        else:
            c = np.int64(before[i]) if short else c
            end = min(c + 4 * _WINDOW, M) if M >= _WINDOW else 0
            rising = _WINDOW
            while rising == _WINDOW and c < end:
                start = min(c, M - _WINDOW)
                window, y = b[start : start + _WINDOW], x + start
                rising = 0
                for k in range(_WINDOW):
                    rising += (window[k] - a[i]) * ((y + (k - 1.0)) * (y + k)) + kappa_i > 0.0
                c = start + rising
            high = M if rising == _WINDOW else c
            while c < high:
                middle = (c + high) // 2
                if _rises(b[middle], a[i], x + middle, kappa_i):
                    c = middle + 1
                else:
                    high = middle
        staircase &= previous <= c
        above[i] = c
    return bool(staircase)


@compiled_noalloc
def _place_negatives(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: float,
    first: int,
    last: int,
    low: int,
    high: int,
    stack: NDArray[np.int32],  # [256] scratch
    placed: NDArray[np.int32],  # [P + 1]
) -> None:
    """Place negatives first to last where low ≤ p_j ≤ high by divide and conquer, counting them in placed[p_j].

    The worth of putting negative j below exactly i positives, Σ_{i' > i} D_{i'}(j), has increasing differences, since D
    falls in c. So its largest maximiser p_j rises with j: the middle negative scans its range once; those before it
    keep the lower part of the range, those behind it the upper part.
    """
    stack[0], stack[1], stack[2], stack[3] = first, last, low, high
    top = 4
    while top > 0:
        top -= 4
        first, last, low, high = int(stack[top]), int(stack[top + 1]), int(stack[top + 2]), int(stack[top + 3])
        if low == high:
            placed[low] += last - first
            continue
        j = (first + last) // 2
        gain, best, place = 0.0, 0.0, high
        for i in range(high, low, -1):
            if b[j] > a[i - 1]:  # it stands above already and stays there: what that is worth must not drown the rest
                place = i - 1
                continue
            x = i + j + 1.0
            worth = b[j] - a[i - 1] + kappa * i / ((x - 1.0) * x)
            gain += worth
            if gain > best:
                best = gain
                place = i - 1
            elif worth < 0.0 and i <= j:  # K rises in i ≤ c: from here on D only falls
                break
        placed[place] += 1
        if first < j:
            stack[top], stack[top + 1], stack[top + 2], stack[top + 3] = first, j, low, place
            top += 4
        if j + 1 < last:
            stack[top], stack[top + 1], stack[top + 2], stack[top + 3] = j + 1, last, place, high
            top += 4


@compiled_noalloc
def _augment_up(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: float,
    before: NDArray[np.int32],  # [P] how many negatives stand above each positive in the prediction
    scratch: NDArray[np.int32],  # [2, P + 257 or more] scratch
    above: NDArray[np.int32],
) -> None:
    """Solves argmax_y F + weight·L for weight > 0 exactly in O(P log M + M); writes c_i to above.

    D_i(c) falls in c for every i, so each row alone ends where D_i changes sign. Where these places rise with i, they
    are the optimum.
    """
    if not _place_rows(a, b, kappa, before, above):
        _make_staircase(a, b, kappa, scratch, above)


@compiled_noalloc
def _make_staircase(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: float,
    scratch: NDArray[np.int32],
    above: NDArray[np.int32],  # [P] where each row alone ends; then the optimum
) -> None:
    """`_augment_up` where the places of the rows do not rise with i, as among the first of a good ranking.

    Some optimum lies between their least from behind and their largest so far (as in `_clamp`), and the negatives in
    between are placed among the rows in between.
    """
    P = a.size
    low, placed, stack = scratch[0], scratch[1], scratch[0, scratch.shape[1] - 256 :]
    low[P - 1] = above[P - 1]
    for i in range(P - 2, -1, -1):
        low[i] = min(above[i], low[i + 1])
    for i in range(1, P):
        above[i] = max(above[i], above[i - 1])
    for i in range(P + 1):
        placed[i] = 0
    i = np.int64(0)  # of that type from the start: numba would compile what it is passed to once more for a 0
    while i < P:
        first = i
        while i < P and low[i] < above[i]:
            i += 1
        if first < i:
            _place_negatives(a, b, kappa, np.int64(low[first]), np.int64(above[i - 1]), first, i, stack, placed)
            c = low[first]
            for k in range(first, i):
                c += placed[k]
                above[k] = c
        i += 1


@compiled
def _leap(g: float, h: float, m: float) -> float:
    """The largest t with g·t² − 2·h·t − m ≤ 0, for g, m ≥ 0; where squares overflow, not more than that."""
    if h > 0.0:
        h /= g
        return h + np.sqrt(h * h + m / g)
    return m / (np.sqrt(h * h + g * m) - h)


@compiled
def _filled(bits: int) -> int:
    """All bits up to the highest of some below 2^30."""
    for shift in (1, 2, 4, 8, 16):
        bits |= bits >> shift
    return bits


@compiled
def _row_argmax(
    a: float, i: float, b: NDArray[np.float64], sums: NDArray[np.float64], kappa: float, start: int, end: int
) -> int:
    """Solves argmax f_i(c) over c from start up or down to end, where f_i(c) = b_1 + … + b_c − c·a_i − κ·c/(i + c).

    Both b_c and K(i, c) fall in c. So f_i rises on the way to y as long as the last b on it and K here say so. Where
    f_i does not rise, a bound tells how far it stays below the best so far: b_1 + … + b_c lies below its tangent, and
    tangent − κ·c/(i + c), being convex, is largest at the ends of an interval. A quadratic equation gives the far end.
    Up to any place z the tangent here is such a bound, from there on the tangent at the end. Where both say so, for the
    z at which they meet, the rest of the way is below the best so far.
    """
    side, back = (1, 0) if start < end else (-1, 1)
    c = place = start
    best = sums[c] - a * c - kappa * c / (i + c)
    far = b[end - 1 + back]
    rest, at_end = sums[end] - far * end, sums[end] - a * end - kappa * end / (i + end)
    while c != end:
        x = i + c
        score = b[c - back]
        level = sums[c] - score * c
        z = (level - rest) / (far - score)
        if at_end <= best and 0.0 <= z <= b.size:
            bound = max(level + (score - a) * z, rest + (far - a) * z) - kappa * z / (i + z)
            if bound <= best:
                break
        if _rises(score, a, x + 1.0 - back, -kappa * i) == (side > 0):  # gallop, then halve the step
            c += side
            step, growing = 1, True
            while step > 0:
                y = c + side * step
                inside = y <= end if side > 0 else y >= end
                if inside and _rises(b[y - 1 + back], a, i + c + 1.0 - back, -kappa * i) == (side > 0):
                    c = y
                else:
                    growing = False
                step = 2 * step if growing else step // 2
            value = sums[c] - a * c - kappa * c / (i + c)
            if value > best:
                best = value
                place = c
        else:
            share = kappa / x
            gap, slope = best - (sums[c] - a * c - share * c), score - a
            t = _leap(slope, 0.5 * side * (share * i + gap - slope * x), gap * x)
            if t >= abs(end - c):
                break
            step = int(t) if t > 1.0 else 1  # numbers too large for a bound give NaN
            rough = _filled(step >> 3)  # land where the rows around this one do: the cache has it, twice as fast
            c = (c + step) & ~rough if side > 0 else (c - step + rough) & ~rough
    return place


@compiled
def _open_cells(low: NDArray[np.int32], high: NDArray[np.int32]) -> int:
    """How many cells of a band are open, over all rows."""
    cells = np.int64(0)
    for i in range(low.size):
        cells += high[i] - low[i]
    return int(cells)


@compiled
def _clamp(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    sums: NDArray[np.float64],
    kappa: float,
    low: NDArray[np.int32],
    high: NDArray[np.int32],
) -> int:
    """Narrow low ≤ c ≤ high around an optimal staircase; return how many cells stay open.

    Going down the rows, let h_i be the best place of row i alone at or behind h_{i−1}. No place behind h_i is better
    for row i, so cutting any staircase back to h loses nothing: some optimal one has c ≤ h. Going up likewise, with the
    best place l_i at or before l_{i+1}: some optimal one has c ≥ l.
    """
    P = a.size
    edge = 0
    for i in range(P):
        start = max(edge, low[i])
        if start < high[i]:
            high[i] = _row_argmax(a[i], i + 1.0, b, sums, kappa, start, high[i])
        edge = high[i]
    open_cells = 0
    edge = b.size
    for i in range(P - 1, -1, -1):
        stop = min(edge, high[i])
        if low[i] < stop:
            low[i] = _row_argmax(a[i], i + 1.0, b, sums, kappa, stop, low[i])
        edge = low[i]
        open_cells += high[i] - low[i]
    return open_cells


@compiled
def _cut_columns(
    b: NDArray[np.float64],
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    detail: int,
    edges: NDArray[np.int32],  # [width + 1] written
    bumps: NDArray[np.float64],  # [width + 1] written
    left: NDArray[np.int32],  # [rows] written
    right: NDArray[np.int32],  # [rows] written
) -> int:
    """Cut the columns of a band into segments, so many that the mean row spans `detail` of them; return their number.

    Segment k goes from edges[k] to edges[k + 1]. Inside it b_1 + … + b_c exceeds its chord by at most bumps[k], a
    quarter of its width times the fall of b. The cut keeps bumps equal and ends early when all are zero. Row i spans
    the edges left[i] to right[i].
    """
    widest = np.inf
    while True:
        tolerance, widest = widest, 0.0
        count = 0
        edges[0] = low[0]
        for c in range(low[0] + 1, high[-1] + 1):
            x = edges[count]
            if c == high[-1] or (c + 1 - x) * (b[x] - b[c]) > tolerance:
                bumps[count] = (c - x) * (b[x] - b[c - 1]) / 4.0
                widest = max(widest, bumps[count])
                count += 1
                edges[count] = c
        first = last = spanned = 0
        for i in range(low.size):
            while edges[first + 1] <= low[i]:
                first += 1
            while edges[last] < high[i]:
                last += 1
            left[i], right[i] = first, last
            spanned += last - first
        if not 0.0 < widest < tolerance or spanned >= detail * low.size:
            return count


@compiled
def _relax(
    a: NDArray[np.float64],
    row: int,
    sums: NDArray[np.float64],
    kappa: float,
    edges: NDArray[np.int32],
    bonus: NDArray[np.float64],  # [segments + 1]
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    first: int,
    last: int,
    best: NDArray[np.float64],  # [segments + 1]
    worths: NDArray[np.float64],  # the edges of rows first to last, or [0]
) -> None:
    """`ranking._advance`, where rows end at edges and earn a bonus; `worths` gets the best with the row's end there."""
    offset = 0
    for i in range(first, last):
        before = right[i - 1] if i > 0 else 0
        edge = best[before]
        r, x = row + i + 1.0, edges[left[i]]
        record = -np.inf
        for k in range(left[i], right[i] + 1):
            c = edges[k]
            gain = sums[c] - sums[x] - (c - x) * (a[i] + kappa * r / ((r + x) * (r + c))) + bonus[k]
            worth = gain + (best[k] if k <= before else edge)
            record = max(record, worth)
            best[k] = record
            if worths.size:
                worths[offset] = worth
                offset += 1


@compiled
def _narrow_run(
    a: NDArray[np.float64],
    row: int,
    b: NDArray[np.float64],
    sums: NDArray[np.float64],
    kappa: float,
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    detail: int,
) -> None:
    """Narrow the band of a run of open rows, the first of which is `row`, by bounds on what staircases are worth.

    Cut the columns into segments. Inside one, f_i exceeds its chord by at most the segment's bump, since b_1 + … + b_c
    does and the rest of f_i is convex. On the chords, a staircase is a mean of others that send its ends inside a
    segment to the two edges, upper rows to the left and lower rows to the right one; so one of these is worth as much.
    Hence staircases on edges, where each end earns as a bonus the larger bump beside it, bound all staircases, and an
    optimal one passes in every row through or next to an edge whose bound, the best staircase on edges through it,
    reaches what staircases on edges are worth without bonus. The band is cut to the neighbourhood of such edges. Where
    a bump is zero, f_i is strictly convex, so no optimal staircase ends inside.

    A forward pass, kept in blocks as in `solve_band`, and a backward pass give the bounds.
    """
    P = a.size
    edges = np.empty(high[-1] - low[0] + 1, np.int32)
    bumps = np.empty(edges.size)
    left, right = np.empty(P, np.int32), np.empty(P, np.int32)
    count = _cut_columns(b, low, high, detail, edges, bumps, left, right)
    best, bonus, rest, unused = np.zeros(count + 1), np.zeros(count + 1), np.zeros(count + 1), np.empty(0)
    _relax(a, row, sums, kappa, edges, bonus, left, right, np.int64(0), P, best, unused)
    target = best[count]
    for k in range(count):
        bonus[k] = max(bonus[k], bumps[k])
        bonus[k + 1] = bumps[k]
    starts, kept = [0], [np.zeros(1)]  # best[0] is 0 still: no row has gained anything there
    size = 0
    for i in range(P):
        if size > _BLOCK_EDGES:
            _relax(a, row, sums, kappa, edges, bonus, left, right, starts[-1], i, best, unused)
            starts.append(i)
            kept.append(best[left[i - 1] : right[i - 1] + 1].copy())
            size = 0
        size += right[i] - left[i] + 1
        r, x, c = row + i + 1.0, edges[left[i]], edges[right[i]]
        target -= _ROUNDING * (abs(sums[c] - sums[x]) + (c - x) * (abs(a[i]) + kappa * r / ((r + x) * (r + c))))
    after, last = 0, P
    while starts:
        first, block = starts.pop(), kept.pop()
        start = left[first - 1] if first > 0 else 0
        copy(block, best[start:])
        offset = last - first
        for i in range(first, last):
            offset += right[i] - left[i]
        worths = np.empty(offset)
        _relax(a, row, sums, kappa, edges, bonus, left, right, first, last, best, worths)
        for i in range(last - 1, first - 1, -1):
            r, x = row + i + 1.0, edges[left[i]]
            edge, record = rest[after], -np.inf
            lowest, highest = count, 0
            for k in range(right[i], left[i] - 1, -1):
                c = edges[k]
                behind = rest[k] if k >= after else edge  # the best worth of the rows behind this one
                offset -= 1
                if worths[offset] + behind >= target:
                    lowest, highest = k, max(k, highest)
                gain = sums[c] - sums[x] - (c - x) * (a[i] + kappa * r / ((r + x) * (r + c))) + bonus[k]
                record = max(record, gain + behind)
                rest[k] = record
            after = left[i]
            if lowest <= highest:
                outside = lowest == 0 or bumps[lowest - 1] == 0.0
                low[i] = max(low[i], edges[lowest] if outside else edges[lowest - 1] + 1)
                outside = highest == count or bumps[highest] == 0.0
                high[i] = min(high[i], edges[highest] if outside else edges[highest + 1] - 1)
        last = first


@compiled
def _narrow(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    sums: NDArray[np.float64],
    kappa: float,
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    detail: int,
) -> int:
    """Narrow every run of open rows, a problem of its own where the rows around it end elsewhere; return open cells."""
    first = np.int64(0)
    for i in range(a.size + 1):
        settled = i == a.size or low[i] == high[i]
        if settled or (first < i and high[i - 1] <= low[i]):
            if first < i:
                _narrow_run(a[first:i], first, b, sums, kappa, low[first:i], high[first:i], detail)
            first = i + 1 if settled else i
    return _open_cells(low, high)


@compiled
def _recentre(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    reach: float,
    near_a: NDArray[np.float64],  # [P] written
    near_b: NDArray[np.float64],  # [M] written
    low: NDArray[np.int32],  # [P] written
) -> None:
    """Cut the ranked items where neighbours differ by more than reach, and take each part relative to its centre.

    No pair is swapped across such a gap. So a row stays within its part, behind the low[i] negatives of the parts
    before it, and scores that are large in comparison with what is gained cannot spoil the sums of those that matter.
    """
    P, M = a.size, b.size
    top, last = max(a[0], b[0]), min(a[-1], b[-1])
    if top - last <= reach:
        centre = 0.5 * top + 0.5 * last
        for i in range(P):  # without the arrays that a[:] − centre would take
            near_a[i] = a[i] - centre
            low[i] = 0
        for j in range(M):
            near_b[j] = b[j] - centre
        return
    i = j = 0
    while i < P or j < M:
        first_i, first_j = i, j
        top = max(a[i] if i < P else -np.inf, b[j] if j < M else -np.inf)
        last = top
        while i < P or j < M:
            negative = i == P or (j < M and b[j] > a[i])
            score = b[j] if negative else a[i]
            if last - score > reach:
                break
            last = score
            i += not negative
            j += negative
        centre = 0.5 * top + 0.5 * last
        for k in range(first_i, i):
            near_a[k] = a[k] - centre
            low[k] = first_j
        for k in range(first_j, j):
            near_b[k] = b[k] - centre


@compiled
def _augment_down(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kappa: float,
    before: NDArray[np.int32],  # [P] how many negatives stand above each positive in the prediction
    scratch: tuple[NDArray[np.float64], NDArray[np.int32]],  # [2, N] and [2, N] scratch
    above: NDArray[np.int32],
) -> int:
    """Solves argmax_y F − weight·L for weight > 0 exactly; writes c_i to above and returns the cells left to the DP.

    No pair that is right already is ever undone, so 0 ≤ c_i ≤ the prediction's c_i. This band is narrowed until that
    helps no more, as a rule to a few cells in one round, and a dynamic programme solves what is left. Where rows alone
    want other places than rows together, clamping leaves a wide band; then bounds narrow it, as long as they cost less
    than the dynamic programme.
    """
    P, M = a.size, b.size
    floats, integers = scratch
    near_a, near_b, sums = floats[0, :P], floats[0, P : P + M], floats[1, : M + 1]
    low, high = integers[0, :P], integers[1, :P]
    for i in range(P):
        high[i] = before[i]
    _recentre(a, b, kappa * P, near_a, near_b, low)  # all of the loss is worth κ·P
    a, b = near_a, near_b
    band = _open_cells(low, high)
    end = before[P - 1]
    sums[end] = 0.0  # of b_1 + … + b_c up to a constant, from the small end
    for j in range(end - 1, -1, -1):
        sums[j] = sums[j + 1] - b[j]
    detail = np.int64(_DETAIL)
    while band > 0:
        rest = _clamp(a, b, sums, kappa, low, high)
        settled = rest < P or 10 * rest > 9 * band
        band = rest
        if settled:
            if band <= 2 * detail * (P + M):
                break
            rest = _narrow(a, b, sums, kappa, low, high, detail)
            if 2 * rest > band:
                detail *= 4
            band = rest
    if band == 0:
        for i in range(P):
            above[i] = high[i]
        return 0
    ranks, discounts = np.empty(P), floats[1]  # the sums have served
    for i in range(P):
        ranks[i] = i + 1.0
    for x in range(P + M):
        discounts[x] = 1.0 / (x + 1.0)
    solve_band(a, b, ranks, discounts, 1, -kappa, low, high, above)
    return band


@compiled_noalloc
def _add_output(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    kind: int,
    weight: float,  # at least 0
    sign: int,
    tied: bool,
    low: NDArray[np.int32],  # [P] how many negatives stand before each positive
    integers: NDArray[np.int32],  # [6, N + 257] scratch but for row 0; the pairs are counted in rows 2 and 3
) -> float:
    """Count the pairs of an output (see `count_output`); return its loss."""
    P, M = a.size, b.size
    high = integers[1, :P]
    if kind != TRUTH and weight == 0.0 and tied:
        precision = _tied_precision(a, b, low, high)
    else:
        if kind == TRUTH:
            for i in range(P):
                high[i] = 0
        elif weight == 0.0:
            high = low
        else:
            _augment_up(a, b, weight * M / 2.0, low, integers[4:], high)
        low = high
        precision = _precision(high)
    count_output(low, high, sign, integers[2, :P], integers[3, : M + 1])
    return 1.0 - precision / P


@compiled_noalloc
def _close(
    ranked: NDArray[np.int64],
    P: int,
    tied: bool,
    toward: int,
    row: NDArray[np.float64],
    gradient: NDArray[np.floating],
    floats: NDArray[np.float64],
    integers: NDArray[np.int32],
) -> None:
    """Write the gradient of a list, and F(away) − F(toward) to its row of numbers."""
    unit = max(abs(row[0]), abs(row[1]))
    share = 1.0 / (float(P) * (ranked.size - P))
    row[3] = close_list(ranked, P, tied, toward != NOTHING, unit, share, row[2], floats, integers, gradient)


@compiled_noalloc
def average_precision_up(
    keys: NDArray[np.int64],  # [g, N] of some lists, each row sorted, masked items last
    which: NDArray[np.int64],  # [g] which lists they are
    starts: NDArray[np.int64],  # [b + 1] where the items of each list start
    outputs: tuple[int, int],  # away is AUGMENTED or TRUTH, toward AUGMENTED, TRUTH or NOTHING
    numbers: NDArray[np.float64],  # [b, 6] of every list the weight of away, that of toward, and the scale; then zeros,
    # which become F(away) − F(toward) and both losses
    gradient: NDArray[np.floating],  # by item; written for valid items: scale·(features(away) − features(toward))
    counted: NDArray[np.bool_],  # [b] written: whether the list has a pair
    floats: NDArray[np.float64],  # [3, N] scratch
    integers: NDArray[np.int32],  # [6, N + 257] scratch
) -> None:
    """Contrast two outputs in every list that has a pair, where no weight is below 0 and float32 holds the scores.

    For toward = NOTHING, write the features of the one output times scale, and its loss.
    """
    for row in range(which.size):
        k = which[row]
        P, M = count_classes(keys[row])
        counted[k] = P > 0 and M > 0
        if not counted[k]:
            continue
        ranked = keys[row, : P + M]
        tied = open_float32(ranked, floats, integers)
        a, b, low, entry = floats[1, :P], floats[2, :M], integers[0, :P], numbers[k]
        for side in range(2):
            if outputs[side] != NOTHING:
                entry[4 + side] = _add_output(a, b, outputs[side], entry[side], 1 - 2 * side, tied, low, integers)
        _close(ranked, P, tied, outputs[1], entry, gradient[starts[k] : starts[k + 1]], floats, integers)


@compiled
def average_precision_contrast(
    keys: NDArray[np.int64],
    which: NDArray[np.int64],
    starts: NDArray[np.int64],
    exact: NDArray[np.float64] | None,  # the scores by item, or None where float32 holds them
    outputs: tuple[int, int],
    numbers: NDArray[np.float64],
    down: tuple[NDArray[np.float64], NDArray[np.int32]] | None,  # [2, N] and [2, N] scratch; None where no weight is
    # below 0, which spares the compilation of `_augment_down`
    gradient: NDArray[np.floating],
    counted: NDArray[np.bool_],
    floats: NDArray[np.float64],
    integers: NDArray[np.int32],
) -> None:
    """`average_precision_up` for any weights and scores; it allocates memory, and `compiled_noalloc` code may not."""
    for row in range(which.size):
        k = which[row]
        P, M = count_classes(keys[row])
        counted[k] = P > 0 and M > 0
        if not counted[k]:
            continue
        ranked, items = keys[row, : P + M], slice(starts[k], starts[k + 1])
        tied = open_list(ranked, None if exact is None else exact[items], floats, integers)
        a, b, low, entry = floats[1, :P], floats[2, :M], integers[0, :P], numbers[k]
        for side in range(2):
            sign, weight = 1 - 2 * side, entry[side]
            if outputs[side] == NOTHING:
                continue
            if down is not None and weight < 0.0:
                above = integers[1, :P]
                _augment_down(a, b, -weight * M / 2.0, low, down, above)
                count_output(above, above, sign, integers[2, :P], integers[3, : M + 1])
                entry[4 + side] = 1.0 - _precision(above) / P
            else:
                entry[4 + side] = _add_output(a, b, outputs[side], weight, sign, tied, low, integers)
        _close(ranked, P, tied, outputs[1], entry, gradient[items], floats, integers)
