"""What `accumulate` says to chunks that differ between its two passes, or are none."""

import pytest
import torch
from torch import nn

from directloss import AveragePrecisionLoss
from directloss.training import accumulate

X, Y = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3 == 0
NETWORK = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0))


def loss(scores):
    return AveragePrecisionLoss()(scores, Y)


def shuffled():
    return X[torch.randperm(12)].split(4)


USED_UP = iter(X.split(4))


@pytest.mark.parametrize(
    ("network", "chunks", "error", "words"),
    [
        (NETWORK, X.split(4), TypeError, "chunks must be a function.*called twice; got tuple. Pass lambda: chunks"),
        (NETWORK, lambda: USED_UP, ValueError, "gave 0 chunks, not 3.*a new iterator"),
        (NETWORK, lambda: (), ValueError, "gave 0 chunks, not 1"),
        (NETWORK, shuffled, ValueError, "other scores in the second pass.*without shuffling.*zero_grad"),
        (NETWORK[0], lambda: X.split(4), ValueError, r"of shape \(items,\); got shape \(4, 1\).*squeeze\(-1\)"),
        (lambda chunk: None, lambda: X.split(4), ValueError, "got NoneType"),
    ],
)
def test_chunks_that_do_not_do_are_refused_with_a_cure(network, chunks, error, words):
    torch.manual_seed(0)
    with pytest.raises(error, match=words):
        accumulate(network, chunks, loss)


def test_chunks_may_be_of_any_size_and_rounding_may_differ():
    network, calls = nn.Linear(2, 1), []

    def rounded(chunk):
        calls.append(len(chunk))
        return network(chunk).squeeze(-1) + 1e-4 * (len(calls) > 2)  # the second pass

    scores, _ = accumulate(rounded, lambda: X.split(7), loss)
    assert calls == [7, 5, 7, 5]
    torch.testing.assert_close(scores, network(X).squeeze(-1).detach())
