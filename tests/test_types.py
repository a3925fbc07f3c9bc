"""A type checker sees every argument of the losses in a user's own file."""

import json
import subprocess
import sys

import pytest

USER = """\
import torch
from directloss import (AveragePrecisionLoss, IoULoss, NDCG, NDCGLoss, PositiveDirect, PositivesSampler,
                        RetrievalLoss, ScoreMemory, StructuredLoss, WarmUp, metric, structured_loss)

scores, target = torch.randn(8, 4, requires_grad=True), torch.rand(8, 4) < 0.3
loss: AveragePrecisionLoss = AveragePrecisionLoss(PositiveDirect(epsilon=0.5), dim=0, ignore_index=255)
value: torch.Tensor = loss(scores, target, weight=torch.ones(4))
ranked: StructuredLoss = NDCGLoss(k=3, reduction="sum")
value = structured_loss(NDCG(k=3), PositiveDirect(1.0), scores, target, dim=0)
first: torch.Tensor = WarmUp(loss, steps=10)(scores, target)
memory: torch.Tensor = ScoreMemory(loss, target[:, 0])(scores[:, 0], torch.arange(8))
batches: list[list[int]] = list(PositivesSampler(target[:, 0], batch_size=4, share=0.5))
each: torch.Tensor = metric(NDCG(), scores, target, reduction="none")
NDCGLoss(kk=3)  # error: kk
AveragePrecisionLoss(1.0)  # error: update
AveragePrecisionLoss(k=3)  # error: k
IoULoss(event_dims="2")  # error: event_dims
loss(scores, target, colour=3)  # error: colour
loss(scores)  # error: target
RetrievalLoss()(scores)  # error: labels
WarmUp(loss)  # error: steps
ScoreMemory(target)  # error: target
structured_loss(NDCG(), scores, target)  # error: update
"""


@pytest.mark.slow
def test_a_type_checker_sees_every_argument_and_every_slip(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    errors = {one["range"]["start"]["line"] for one in json.loads(done.stdout)["generalDiagnostics"]}
    wanted = {line for line, text in enumerate(USER.splitlines()) if "# error" in text}
    assert errors == wanted, done.stdout
