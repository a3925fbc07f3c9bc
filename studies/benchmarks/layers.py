"""What detection gains by features of two layers of EfficientNet-Lite0 instead of one, and by hard negatives.

python -m studies.benchmarks.layers --root DEVKIT     # 300 training and 300 test images of VOC2012
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from directloss_studies.data.voc import CLASSES
from directloss_studies.detection.config import Config, DetectionOptions
from directloss_studies.detection.experiment import prepare, run
from directloss_studies.sweep import grid
from joblib import Parallel, delayed

from benchmarks.speed import machine, write

RESULTS = Path(__file__).parent.parent / "results" / "layers.json"
IMAGES, SIDE, ITERATIONS = 300, 300, 600
STRENGTHS = {"x-ent": 1.0, "hinge-AP": 100.0, "pos-AP": 1.0}
RATES, DECAYS = (0.003, 0.03), (0.0, 0.03)
VARIANTS = (("pooled", 0.0), ("layers", 0.0), ("layers", 0.5))
"""Features, and the share of the negatives that are hard."""


def test_ap(config: Config) -> dict[str, Any]:
    """AP on the test images, with the setting that is best on the images held out."""
    result = run(config)
    facts = {"features": config.source.features, "hard": config.source.hard} if config.source else {}
    facts |= {"class": config.category, "method": config.method, "noise": config.noise}
    return {**facts, "test_ap": result.test[result.chosen]}


def main(arguments: list[str] | None = None) -> int:
    """Train on boxes of the same images with every variant."""
    parser = argparse.ArgumentParser(prog="layers", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with VOCdevkit")
    root = parser.parse_args(arguments).root
    runs: list[dict[str, Any]] = []
    common = DetectionOptions(preset="paper", root=root, backbone="efficientnet-lite0", images=IMAGES, side=SIDE)
    for features, hard in VARIANTS:
        options = replace(common, features=features, hard=hard)
        source, _ = prepare(options)
        configs = [
            Config(method, 0, noise, category, source, ITERATIONS, grid(method, (strength,), RATES, DECAYS))
            for method, strength in STRENGTHS.items()
            for noise in (0.0, 0.2)
            for category in CLASSES
        ]
        found: Any = Parallel(n_jobs=-1)(delayed(test_ap)(config) for config in configs)
        runs += found
        for method in STRENGTHS:
            mine = [one for one in found if one["method"] == method]
            means = (fmean(one["test_ap"] for one in mine if one["noise"] == noise) for noise in (0.0, 0.2))
            print(features, hard, method, *(f"{mean:.3f}" for mean in means), flush=True)
    write({"command": "python -m studies.benchmarks.layers --root DEVKIT", **machine(), "runs": runs}, RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
