"""One process of `test_recipes.py`: runs the recipes for several processes, and writes what they print to a file."""

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist

RECIPES = Path(__file__).parent.parent / "docs" / "recipes"
PAGES = ["ddp", "accelerate", "lightning", "trainer"]  # the first starts the group
CHANGES = {"lightning": ("devices=1", 'devices=2, strategy="ddp"')}  # as the page says


def main(folder: str) -> None:
    # Groups that are started one after the other find the addresses of those before them: one serves all pages.
    finish, dist.destroy_process_group = dist.destroy_process_group, lambda *_: None
    found = {}
    for page in PAGES:
        text = (RECIPES / f"{page}.md").read_text().replace(*CHANGES.get(page, ("", "")))
        names: dict[str, Any] = {"__name__": "document"}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)), names)
        loss = names["loss"] if "loss" in names else names["trainer"].lightning_module.loss
        lines = [line for line in printed.getvalue().splitlines() if not line.startswith("{")]  # the Trainer's own
        ranking, steps = (loss.loss, loss.step) if hasattr(loss, "loss") else (loss, None)
        found[page] = lines, dist.get_world_size(ranking.process_group), steps
    (Path(folder) / f"{os.environ['RANK']}.json").write_text(json.dumps(found))
    finish()


if __name__ == "__main__":
    main(sys.argv[1])
