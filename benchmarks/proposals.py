"""How many objects the search for proposals finds in images of each size, and how long it takes.

python -m benchmarks.proposals --root DEVKIT     # 200 test images of VOC2012; writes results/proposals.json
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.speed import machine, write
from directloss.experiments.data.voc import read_scenes
from directloss.experiments.detection.images import easy_boxes
from directloss.experiments.vision.images import read_image
from directloss.experiments.vision.proposals import recall, search

RESULTS = Path(__file__).parent.parent / "results" / "proposals.json"
IMAGES, BOXES, SIDES = 200, 2000, (500, 400, 300, 250)


def main(arguments: list[str] | None = None) -> int:
    """Search the same images in all sizes."""
    parser = argparse.ArgumentParser(prog="proposals", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with VOCdevkit")
    options = parser.parse_args(arguments)
    scenes = read_scenes(options.root, "val")
    drawn = [scenes[number] for number in np.random.default_rng(0).permutation(len(scenes))[:IMAGES]]
    images, truths = [read_image(scene.path) for scene in drawn], [easy_boxes(scene.annotations) for scene in drawn]
    found = []
    for side in SIDES:
        begin = time.process_time()
        boxes = [search(image, side=side)[:BOXES] for image in images]
        seconds = (time.process_time() - begin) / len(images)
        mean = float(np.mean([len(some) for some in boxes]))
        found.append({"side": side, "recall": recall(boxes, truths), "boxes": mean, "seconds": seconds})
        print(f"side {side}: {found[-1]['recall']:.3f} of objects, {mean:.0f} boxes, {seconds:.2f} s", flush=True)
    objects = sum(map(len, truths))
    command = "python -m benchmarks.proposals --root DEVKIT"
    write({"command": command, **machine(), "images": len(images), "objects": objects, "sides": found}, RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
