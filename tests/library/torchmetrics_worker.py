"""One process of `test_torchmetrics.py`: sees a part of the data, of another size in each, and saves the values."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from directloss import AveragePrecision
from directloss.integrations.torchmetrics import TaskMetric

generator = torch.Generator().manual_seed(0)
SCORES = torch.randn(60, 3, generator=generator).half()
TARGET = torch.rand(60, 3, generator=generator) < 0.3


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    scores, target, ids = (
        part[:41] if dist.get_rank() == 0 else part[41:] for part in (SCORES, TARGET, torch.arange(60) % 7)
    )
    found = {}
    for name, dim in (("flat", -1), ("ids", -1), ("rows", -1), ("columns", 0)):
        some = TaskMetric(AveragePrecision(), dim=dim)
        for part in (slice(0, 5), slice(5, None)):
            flat = name in ("flat", "ids")
            given = (scores[part, 0], target[part, 0]) if flat else (scores[part], target[part])
            some.update(*given, indexes=ids[part] if name == "ids" else None)
        found[name] = some.compute()
    torch.save(found, Path(folder) / f"{dist.get_rank()}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
