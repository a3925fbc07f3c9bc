"""Exact inference for any ranking metric that is a sum of gains over the positives.

A list has positives a_1 ≥ … ≥ a_P and negatives b_1 ≥ … ≥ b_M; c_i negatives stand above positive i, 0 ≤ c_1 ≤ … ≤ c_P.
Its score is F = share·Σ_ij ±(a_i − b_j), its loss L = 1 − Σ_i g(i, c_i)/Z with the gain g(i, c) = u_i·φ[r·i + c], where
u ≥ 0, φ never rises, and r is 1 for metrics by rank and 0 for metrics by the negatives above. Up to a constant and a
factor, F + weight·L is Σ_i f_i(c_i). Moving negative c above positive i changes it by

    D_i(c) = b_c − a_i + κ·u_i·(φ[r·i + c − 1] − φ[r·i + c]),    κ = weight/(2·share·Z),

so a ranking is a staircase of cells (i, c), worth the sum of the D in it. Some optimum has c_i ≥ the prediction's for
κ > 0, and c_i ≤ it for κ < 0. So the sums below start at the prediction and run outward, where all differences of
scores have one sign. Indices in formulas start at 1, in code at 0. docs/mathematics.md has the proofs.
"""

import numpy as np
from numpy.typing import NDArray

from . import compiled, compiled_noalloc
from .lists import NOTHING, TRUTH, close_list, copy, count_output, open_list

__all__ = ["BAND", "COLUMNS", "CUT", "ONE_ROW", "ROWS", "TABLE", "WALK", "ranking_contrast", "solve_band"]

WALK, ROWS, COLUMNS, ONE_ROW, CUT, BAND, TABLE = range(7)  # the algorithms to the optimum, see `_solve`
_BLOCK_CELLS = 1 << 26  # for which the dynamic programme remembers its steps


@compiled_noalloc
def _walk(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    above: NDArray[np.int32],
) -> None:
    """D rises in i and falls in c: every row alone ends where D changes its sign, behind the row before. O(P + M)."""
    M = b.size
    c = 0
    for i in range(a.size):
        x = r * i + c
        while c < M and b[c] - a[i] + kappa * u[i] * (phi[x] - phi[x + 1]) > 0.0:
            c += 1
            x += 1
        above[i] = c


@compiled_noalloc
def _row_argmax(
    a: float, b: NDArray[np.float64], u: float, phi: NDArray[np.float64], kappa: float, start: int, stop: int
) -> int:
    """The least c in start ≤ c ≤ stop that maximises f_i; phi from this row's first place on.

    The score alone is best at start for κ > 0, at stop for κ < 0. From there on it falls, so the search ends where it
    has fallen by more than the loss can gain.
    """
    weight = kappa * u
    cost, best = 0.0, 0.0
    if kappa > 0.0:
        place, here = start, phi[start]
        most = weight * (here - phi[stop])
        for c in range(start, stop):
            cost += a - b[c]
            if cost > most:
                break
            gain = weight * (here - phi[c + 1]) - cost
            if gain > best:
                best = gain
                place = c + 1
        return place
    place, here = stop, phi[stop]
    most = weight * (here - phi[start])
    for c in range(stop - 1, start - 1, -1):
        cost += b[c] - a
        if cost > most:
            break
        gain = weight * (here - phi[c]) - cost
        if gain >= best:
            best = gain
            place = c
    return place


@compiled
def _solve_rows(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    predicted: NDArray[np.int32],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    above: NDArray[np.int32],
) -> None:
    """D rises in i: the least best place of every row alone rises with i. Divide and conquer, O(M log P + P)."""
    stack = np.empty((64, 4), np.int64)
    stack[0] = 0, a.size, 0, b.size
    top = 1
    while top > 0:
        top -= 1
        first, last, low, high = stack[top]
        if low == high:
            above[first:last] = low
            continue
        i = (first + last) // 2
        edge = max(low, min(high, np.int64(predicted[i])))
        start, stop = (edge, high) if kappa > 0.0 else (low, edge)
        place = _row_argmax(a[i], b, u[i], phi[r * i :], kappa, start, stop)
        above[i] = place
        if first < i:
            stack[top] = first, i, low, place
            top += 1
        if i + 1 < last:
            stack[top] = i + 1, last, place, high
            top += 1


@compiled
def _solve_columns(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    predicted: NDArray[np.int32],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    above: NDArray[np.int32],
) -> None:
    """D falls in c: the last best place of every column alone rises with c. Divide and conquer, O(P log M + M).

    The worth of a negative below exactly p positives is W(p) = Σ_{i > p} D_i(c), and W(p) − W(p − 1) = −D_p(c) rises in
    c. So its last maximiser rises with c, from which the c_i follow.
    """
    P, M = a.size, b.size
    placed = np.zeros(P + 1, np.int32)
    standing = np.empty(M, np.int32)  # how many positives stand above a negative in the prediction
    i = 0
    for j in range(M):
        while i < P and predicted[i] <= j:
            i += 1
        standing[j] = i
    stack = np.empty((64, 4), np.int64)
    stack[0] = 0, M, 0, P
    top = 1
    while top > 0:
        top -= 1
        first, last, low, high = stack[top]
        if low == high:
            placed[low] += last - first
            continue
        j = (first + last) // 2
        place = max(low, min(high, np.int64(standing[j])))
        gain, best = 0.0, 0.0
        if kappa > 0.0:
            for i in range(place - 1, low - 1, -1):
                x = r * i + j
                gain += b[j] - a[i] + kappa * u[i] * (phi[x] - phi[x + 1])
                if gain > best:
                    best = gain
                    place = i
        else:
            for i in range(place, high):
                x = r * i + j
                gain -= b[j] - a[i] + kappa * u[i] * (phi[x] - phi[x + 1])
                if gain >= best:
                    best = gain
                    place = i + 1
        placed[place] += 1
        if first < j:
            stack[top] = first, j, low, place
            top += 1
        if j + 1 < last:
            stack[top] = j + 1, last, place, high
            top += 1
    c = 0
    for i in range(P):
        c += placed[i]
        above[i] = c


@compiled
def _solve_one_row(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    predicted: NDArray[np.int32],
    t: int,
    weight: float,  # κ·u_t
    phi: NDArray[np.float64],  # from row t's first place on
    above: NDArray[np.int32],
) -> None:
    """Only row t counts: where it ends at x, rows before it end at min(c_i, x), rows behind it at max(c_i, x).

    The score of that falls on both sides of the prediction's place; running sums give it for all x. O(P + M), any φ.
    """
    P, M = a.size, b.size
    place = np.int64(predicted[t])
    here = phi[place]
    cost, best, total = 0.0, 0.0, a[t]
    if weight > 0.0:
        most = weight * (here - phi[M])
        q = t + 1  # rows t to q have fewer than x negatives above them
        for x in range(predicted[t] + 1, M + 1):
            while q < P and predicted[q] < x:
                total += a[q]
                q += 1
            cost += total - (q - t) * b[x - 1]
            if cost > most:
                break
            gain = weight * (here - phi[x]) - cost
            if gain > best:
                best = gain
                place = x
    else:
        most = weight * (here - phi[0])
        q = t  # rows q to t have more than x negatives above them
        for x in range(predicted[t] - 1, -1, -1):
            while q > 0 and predicted[q - 1] > x:
                q -= 1
                total += a[q]
            cost += (t + 1 - q) * b[x] - total
            if cost > most:
                break
            gain = weight * (here - phi[x]) - cost
            if gain > best:
                best = gain
                place = x
    for i in range(P):
        above[i] = min(np.int64(predicted[i]), place) if i < t else max(np.int64(predicted[i]), place)
    above[t] = place


@compiled
def _solve_cut(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    predicted: NDArray[np.int32],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    kappa: float,
    k: int,
    above: NDArray[np.int32],
) -> None:
    """By rank, φ constant behind rank k: O(k² + P + M) for any φ, O(P + M) where it is constant before k, too.

    With n positives in the first k ranks the staircase passes through x = k − n: rows up to n end at x or before, the
    others at x or behind, where only the score matters, so at max(c_i, x). The rows up to n are a dynamic programme on
    the triangle i + c ≤ k; where φ is constant they end at min(c_i, x).
    """
    P, M = a.size, b.size
    rows, columns = min(P, k), min(M, k)
    flat = phi[0] == phi[k - 1]
    tail = phi[k]
    sums = np.zeros(M + 1)
    for j in range(M):
        sums[j + 1] = sums[j] + b[j]
    by_a, by_place, by_u = np.zeros(P + 1), np.zeros(P + 1), np.zeros(P + 1)
    for i in range(P):
        by_a[i + 1] = by_a[i] + a[i]
        by_place[i + 1] = by_place[i] + predicted[i] * a[i] - sums[predicted[i]]
        by_u[i + 1] = by_u[i] + u[i]
    best = np.zeros(columns + 1)
    rises = np.zeros((0 if flat else rows, columns + 1), np.bool_)
    record, crossing = -np.inf, 0
    fewer = P  # rows with fewer than x negatives above them in the prediction
    for n in range(rows + 1):
        if n > 0 and not flat:
            i = n - 1
            worth = -np.inf
            for c in range(min(M, k - n) + 1):
                cost = (c - predicted[i]) * a[i] - (sums[c] - sums[predicted[i]])
                value = best[c] - cost - kappa * u[i] * phi[i + c]
                if value > worth:
                    worth = value
                    rises[i, c] = True
                best[c] = worth
        x = k - n
        if x > M:
            continue
        while fewer > 0 and predicted[fewer - 1] >= x:
            fewer -= 1
        last = max(n, fewer)  # rows n to here end at x, those behind stay at the prediction
        value = -(x * (by_a[last] - by_a[n]) - (by_place[last] - by_place[n]) - (last - n) * sums[x])
        value -= kappa * tail * (by_u[P] - by_u[n])
        if flat:
            first = min(n, fewer)  # rows from here to n end at x, those before stay
            value -= x * (by_a[n] - by_a[first]) - (by_place[n] - by_place[first]) - (n - first) * sums[x]
            value -= kappa * phi[0] * by_u[n]
        else:
            value += best[x]
        if value > record:
            record = value
            crossing = n
    x = np.int64(k - crossing)
    c = x
    for i in range(crossing - 1, -1, -1):
        if flat:
            above[i] = min(np.int64(predicted[i]), x)
        else:
            while not rises[i, c]:
                c -= 1
            above[i] = c
    for i in range(crossing, P):
        above[i] = max(np.int64(predicted[i]), x)


@compiled
def _clamp(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    low: NDArray[np.int32],
    high: NDArray[np.int32],
) -> int:
    """Narrow low ≤ c ≤ high around an optimal staircase until that helps no more; return how many cells stay open.

    Going down the rows, let h_i be a best place of row i alone at or behind h_{i−1}. No place behind h_i is better for
    row i, so cutting any staircase back to h loses nothing. Going up likewise.
    """
    P = a.size
    band = (high - low).sum()
    while band > 0:
        edge = np.int64(0)
        for i in range(P):
            start, stop = max(edge, np.int64(low[i])), np.int64(high[i])
            if start < stop:
                high[i] = _row_argmax(a[i], b, u[i], phi[r * i :], kappa, start, stop)
            edge = np.int64(high[i])
        rest = 0
        edge = np.int64(b.size)
        for i in range(P - 1, -1, -1):
            start, stop = np.int64(low[i]), min(edge, np.int64(high[i]))
            if start < stop:
                low[i] = _row_argmax(a[i], b, u[i], phi[r * i :], kappa, start, stop)
            edge = np.int64(low[i])
            rest += high[i] - low[i]
        if 10 * rest > 9 * band:
            return rest
        band = rest
    return band


@compiled
def _advance(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    first: int,
    last: int,
    best: NDArray[np.float64],  # [M + 1]
    rises: NDArray[np.bool_],  # the cells of rows first to last, or [0]
) -> None:
    """Take the dynamic programme of `solve_band` over rows first to last."""
    offset = 0
    for i in range(first, last):
        before = high[i - 1] if i > 0 else 0
        edge = best[before]  # where this row ends beyond the previous one's band
        gain, record = 0.0, -np.inf
        for c in range(low[i], high[i] + 1):
            if c > low[i]:
                x = r * i + c
                gain += b[c - 1] - a[i] + kappa * u[i] * (phi[x - 1] - phi[x])
            worth = gain + (best[c] if c <= before else edge)
            if worth > record:
                record = worth
                if rises.size:
                    rises[offset] = True
            best[c] = record
            offset += 1


@compiled
def solve_band(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    low: NDArray[np.int32],
    high: NDArray[np.int32],
    above: NDArray[np.int32],
) -> None:
    """Solves argmax Σ_i f_i(c_i) over non-decreasing c with low ≤ c ≤ high by dynamic programming.

    best[c] is the worth of the best staircase of the rows so far whose last row ends at c or before; `rises` marks the
    cells of the band at which it rises. Going back, a row ends at its last rise that is not behind the next row's end.
    A wide band is cut into blocks of rows, `best` is kept at their starts and `rises` for one block at a time, so that
    memory grows as the square root of the band.
    """
    P, M = a.size, b.size
    cells = np.int64(P)
    for i in range(P):
        cells += high[i] - low[i]
    block_cells = max(float(_BLOCK_CELLS), np.sqrt(8.0 * M * cells))
    starts = [0]
    size = 0
    for i in range(P):
        if size > block_cells:
            starts.append(i)
            size = 0
        size += high[i] - low[i] + 1
    best = np.zeros((len(starts), M + 1))
    unused = np.empty(0, np.bool_)
    for k in range(1, len(starts)):
        copy(best[k - 1], best[k])
        _advance(a, b, u, phi, r, kappa, low, high, starts[k - 1], starts[k], best[k], unused)
    end = M
    last = P
    for k in range(len(starts) - 1, -1, -1):
        first = starts[k]
        size = 0
        for i in range(first, last):
            size += high[i] - low[i] + 1
        rises = np.zeros(size, np.bool_)
        _advance(a, b, u, phi, r, kappa, low, high, first, last, best[k], rises)
        for i in range(last - 1, first - 1, -1):
            size -= high[i] - low[i] + 1
            end = min(end, high[i])
            while not rises[size + end - low[i]]:
                end -= 1
            above[i] = end
        last = first


@compiled
def _solve_part(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    predicted: NDArray[np.int32],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    algorithm: int,
    cut: int,
    above: NDArray[np.int32],
) -> None:
    """Write the c_i of one part of a list, the scores of which are near 0."""
    P, M = a.size, b.size
    if algorithm == WALK:
        _walk(a, b, u, phi, r, kappa, above)
    elif algorithm == ROWS:
        _solve_rows(a, b, predicted, u, phi, r, kappa, above)
    elif algorithm == COLUMNS:
        _solve_columns(a, b, predicted, u, phi, r, kappa, above)
    elif algorithm == ONE_ROW:
        copy(predicted, above)
        for i in range(P):
            if u[i] != 0.0:
                _solve_one_row(a, b, predicted, i, kappa * u[i], phi[r * i :], above)
    elif algorithm == CUT and cut < P + M:
        _solve_cut(a, b, predicted, u, phi, kappa, cut, above)
    else:
        low, high = predicted.copy(), predicted.copy()
        if kappa > 0.0:
            high[:] = M
        else:
            low[:] = 0
        if algorithm == BAND:
            _clamp(a, b, u, phi, r, kappa, low, high)
        solve_band(a, b, u, phi, r, kappa, low, high, above)


@compiled
def _solve(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    predicted: NDArray[np.int32],  # [P] how many negatives stand before each positive
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    kappa: float,
    reach: float,
    algorithm: int | None,
    cut: int,
    above: NDArray[np.int32],
) -> None:
    """Solves argmax F + weight·L; writes c_i to above.

    All of the loss is worth `reach`. Where neighbours in the prediction differ by more than that, no pair is swapped
    across the gap, and the list falls into parts that are solved one by one, relative to their centres: scores that
    are large in comparison with what is gained cannot spoil the sums of those that matter.
    """
    P, M = a.size, b.size
    i = j = 0
    while i < P or j < M:
        first_i, first_j = i, j
        top = max(a[i] if i < P else -np.inf, b[j] if j < M else -np.inf)
        last = min(a[P - 1], b[M - 1])
        if i == 0 and j == 0 and top - last <= reach:
            i, j = P, M
        else:
            last = top
            while i < P or j < M:
                negative = i == P or (j < M and b[j] > a[i])
                score = b[j] if negative else a[i]
                if last - score > reach:
                    break
                last = score
                i += not negative
                j += negative
        if first_i == i:
            continue
        if first_j == j:
            above[first_i:i] = first_j
            continue
        centre = 0.5 * top + 0.5 * last
        part = above[first_i:i]
        shift = r * first_i + first_j
        near_a, near_b, near_phi = a[first_i:i] - centre, b[first_j:j] - centre, phi[shift:]
        if near_phi[0] == near_phi[r * (i - 1 - first_i) + j - first_j]:  # nothing to gain here
            copy(predicted[first_i:i], part)
            continue
        if algorithm is None:
            _walk(near_a, near_b, u[first_i:i], near_phi, r, kappa, part)
        else:
            near = predicted[first_i:i] - np.int32(first_j)
            _solve_part(near_a, near_b, near, u[first_i:i], near_phi, r, kappa, algorithm, cut - shift, part)
        part += np.int32(first_j)


@compiled_noalloc
def _tied_loss(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    u: NDArray[np.float64],
    phi: NDArray[np.float64],
    r: int,
    equal_weights: bool,
    low: NDArray[np.int32],  # [P] how many negatives stand before each positive
    high: NDArray[np.int32],  # [P] written: how many of them or tied with it
) -> float:
    """What the prediction loses where items are tied: the mean over their orders if all positives weigh the same, else
    the mean of the best and the worst order.
    """
    P, M = a.size, b.size
    lost = 0.0
    i = 0
    while i < P:
        first, start = i, low[i]
        j = start
        while i < P and a[i] == a[first]:
            i += 1
        while j < M and b[j] == a[first]:
            j += 1
        for k in range(first, i):
            high[k] = j
        if (
            equal_weights
        ):  # by rank every place of the group, by negatives every number of them, is as likely as any other
            places = phi[first + start : i + j] if r == 1 else phi[start : j + 1]
            mean = 0.0
            for place in places:
                mean += place
            mean /= places.size
            for k in range(first, i):
                lost += u[k] * (phi[r * k] - mean)
        else:
            for k in range(first, i):
                lost += u[k] * (phi[r * k] - 0.5 * (phi[r * k + start] + phi[r * k + j]))
    return lost


@compiled
def ranking_contrast(
    keys: NDArray[np.int64],  # [g, N] of some lists, each row sorted, masked items last
    rows: NDArray[np.int64],  # [h] which of them to solve, all with P positives and M negatives
    which: NDArray[np.int64],  # [g] which lists they are
    starts: NDArray[np.int64],  # [b + 1] where the items of each list start
    exact: NDArray[np.float64] | None,  # the scores by item, or None where float32 holds them
    u: NDArray[np.float64],  # [P]
    phi: NDArray[np.float64],  # by rank [P + M], by negatives [M + 1]
    r: int,
    best: float,  # Z
    share: float,
    equal_weights: bool,  # whether all u are equal
    algorithms: tuple[int, int] | None,  # for weights above and below 0; None for WALK, which spares a compilation
    cut: int,  # the rank behind which phi is constant
    outputs: tuple[int, int],  # away is AUGMENTED or TRUTH, toward AUGMENTED, TRUTH or NOTHING
    numbers: NDArray[np.float64],  # [b, 6] as in `average_precision_up`
    gradient: NDArray[np.floating],  # by item; written for valid items: scale·(features(away) − features(toward))
    floats: NDArray[np.float64],  # [3, N] scratch
    integers: NDArray[np.int32],  # [4, N + 1 or more] scratch
) -> None:
    """Contrast two outputs in the lists; for toward = NOTHING write the features of one output and its loss."""
    P = u.size
    M = phi.size - P if r == 1 else phi.size - 1
    a, b = floats[1, :P], floats[2, :M]
    for row in rows:
        k = which[row]
        ranked, items = keys[row, : P + M], slice(starts[k], starts[k + 1])
        tied = open_list(ranked, None if exact is None else exact[items], floats, integers)
        entry = numbers[k]
        for side in range(2):
            weight, low, high = entry[side], integers[0, :P], integers[1, :P]
            if outputs[side] == NOTHING:
                continue
            lost = 0.0
            if outputs[side] != TRUTH and weight == 0.0 and tied:
                lost = _tied_loss(a, b, u, phi, r, equal_weights, low, high)
            else:
                if outputs[side] == TRUTH:
                    for i in range(P):
                        high[i] = 0
                elif weight == 0.0:
                    high = low
                else:
                    unit = weight / (2.0 * share)
                    if algorithms is None:
                        _solve(a, b, low, u, phi, r, unit / best, abs(unit), None, cut, high)
                    else:
                        algorithm = algorithms[0] if weight > 0.0 else algorithms[1]
                        _solve(a, b, low, u, phi, r, unit / best, abs(unit), algorithm, cut, high)
                low = high
                for i in range(P):
                    lost += u[i] * (phi[r * i] - phi[r * i + high[i]])
            count_output(low, high, 1 - 2 * side, integers[2, :P], integers[3, : M + 1])
            entry[4 + side] = min(max(lost / best, 0.0), 1.0)
        unit = max(abs(entry[0]), abs(entry[1])) / (share * P * M)
        entry[3] = close_list(
            ranked, P, tied, outputs[1] != NOTHING, unit, share, entry[2], floats, integers, gradient[items]
        )
