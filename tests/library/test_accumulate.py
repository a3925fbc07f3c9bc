"""What `accumulate` says to chunks that differ between its two passes, or are none."""

import pytest
import torch
from torch import nn

from directloss import AveragePrecisionLoss, accumulate

X, Y = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3 == 0
NETWORK = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
nn.init.constant_(NETWORK[0].weight, 0.7)


def loss(scores):
    return AveragePrecisionLoss()(scores, Y[: len(scores)])


def shuffled():
    return X[torch.randperm(12)].split(4)


def another_number(first, second):
    """Chunks of which the second pass has another number."""
    passes = iter((first, second))
    return lambda: X.split(4)[: next(passes)]


@pytest.mark.parametrize(
    ("network", "chunks", "error", "words"),
    [
        (NETWORK, X.split(4), TypeError, "chunks must be a function.*called twice; got tuple. Pass lambda: chunks"),
        (NETWORK, another_number(3, 2), ValueError, "3 chunks in the first pass, and another number.*a new iterator"),
        (NETWORK, another_number(2, 3), ValueError, "2 chunks in the first pass, and another number"),
        (NETWORK, lambda: (), ValueError, "gave no chunks"),
        (NETWORK, shuffled, ValueError, "has other rows in the second pass.*without shuffling.*zero_grad"),
        (lambda chunk: None, lambda: X.split(4), TypeError, "must give the scores of a chunk.*got NoneType"),
        (lambda chunk: chunk.sum(), lambda: X.split(4), TypeError, "got a single number"),
    ],
)
def test_chunks_that_do_not_do_are_refused_with_a_cure(network, chunks, error, words):
    torch.manual_seed(0)
    with pytest.raises(error, match=words):
        accumulate(network, chunks, loss)


def test_an_iterator_that_is_used_up_is_refused():
    chunks = iter(X.split(4))
    with pytest.raises(ValueError, match="3 chunks in the first pass, and another number in the second"):
        accumulate(NETWORK, lambda: chunks, loss)


@pytest.mark.parametrize(
    ("outputs", "whole"),
    [
        (3, lambda scores: AveragePrecisionLoss()(scores, torch.stack([Y, ~Y, Y], 1), dim=0)),
        (1, lambda scores: AveragePrecisionLoss()(scores.squeeze(-1), Y)),
    ],
)
def test_scores_may_have_more_dimensions(outputs, whole):
    network = nn.Linear(2, outputs)
    accumulate(network, lambda: X.split(5), whole)
    found = network.weight.grad.clone()
    network.zero_grad()
    whole(network(X)).backward()
    torch.testing.assert_close(found, network.weight.grad)


def test_masked_scores_may_be_no_numbers_and_there_may_be_no_items():
    mask, bad = torch.arange(12) % 5 != 0, torch.tensor([torch.nan, torch.inf, -torch.inf])

    def padded(chunk):
        rows = [(X == row).all(1).nonzero().item() for row in chunk]
        return NETWORK(chunk).where(mask[rows], bad[torch.tensor(rows) % 3])

    scores, gradient = accumulate(padded, lambda: X.split(4), lambda scores: AveragePrecisionLoss()(scores, Y, mask))
    assert not scores.isfinite().all()
    assert gradient[mask].abs().sum() > 0
    none = accumulate(NETWORK, lambda: X[:0].split(4), lambda scores: AveragePrecisionLoss()(scores, Y[:0]))
    assert [part.shape for part in none] == [(0,), (0,)]


def test_chunks_may_be_of_any_size_and_rounding_may_differ():
    network, calls = nn.Linear(2, 1), []

    def rounded(chunk):
        calls.append(len(chunk))
        return network(chunk).squeeze(-1) + 1e-4 * (len(calls) > 2)  # the second pass

    scores, _ = accumulate(rounded, lambda: X.split(7), loss)
    assert calls == [7, 5, 7, 5]
    torch.testing.assert_close(scores, network(X).squeeze(-1).detach())


def test_shuffled_chunks_are_refused_where_all_scores_are_equal():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))
    nn.init.zeros_(network[0].weight)
    for chunks in (shuffled, lambda: ({"x": one} for one in shuffled()), lambda: ((one, 1) for one in shuffled())):

        def scores(chunk, network=network):
            return network(chunk["x"] if isinstance(chunk, dict) else chunk[0] if isinstance(chunk, tuple) else chunk)

        with pytest.raises(ValueError, match="has other rows in the second pass"):
            accumulate(scores, chunks, loss)


def test_scores_that_are_not_the_same_twice_are_refused():
    passes = iter((1.0, 2.0))

    def chunks():
        factor = next(passes)
        return [(one, factor) for one in X.split(4)]

    with pytest.raises(ValueError, match="scores of a chunk differ between the two passes"):
        accumulate(lambda chunk: NETWORK(chunk[0]) * chunk[1], chunks, loss)


def test_statistics_of_a_batch_normalisation_are_those_of_one_pass():
    network, once = (nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1), nn.Flatten(0)) for _ in range(2))
    accumulate(network, lambda: X.split(4), loss)
    for chunk in X.split(4):
        once(chunk)
    for (name, got), want in zip(network.named_buffers(), once.buffers(), strict=True):
        torch.testing.assert_close(got, want, msg=name)
