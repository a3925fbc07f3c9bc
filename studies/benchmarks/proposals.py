"""How many objects the search for proposals finds in images of each size, and how long it takes.

python -m studies.benchmarks.proposals --root DEVKIT     # 200 test images of VOC2012; writes results/proposals.json

Beside it OpenCV's selective search, fast mode: pip install opencv-contrib-python-headless
"""

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from directloss_studies.data.voc import read_scenes
from directloss_studies.detection.images import easy_boxes
from directloss_studies.vision.images import read_image
from directloss_studies.vision.proposals import recall, search

from benchmarks.speed import machine, write

RESULTS = Path(__file__).parent.parent / "results" / "proposals.json"
IMAGES, BOXES, LIMIT, SIDES = 200, 2000, 1200, (500, 400, 300, 250)


def opencv(image: Any, side: int) -> Any:
    """The proposals of images of at most 500 pixels by OpenCV."""
    cv2: Any = import_module("cv2")  # not a package that the project installs
    cv2.setNumThreads(1)
    peer = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    peer.setBaseImage(np.ascontiguousarray(np.asarray(image)[:, :, ::-1]))
    peer.switchToSelectiveSearchFast()
    left, top, width, height = peer.process().T
    boxes = np.stack([left + 1, top + 1, left + width, top + height], axis=1)
    return boxes[(width >= 20) & (height >= 20)]


def main(arguments: list[str] | None = None) -> int:
    """Search the same images in all sizes."""
    parser = argparse.ArgumentParser(prog="proposals", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with VOCdevkit")
    options = parser.parse_args(arguments)
    scenes = read_scenes(options.root, "val")
    drawn = [scenes[number] for number in np.random.default_rng(0).permutation(len(scenes))[:IMAGES]]
    images, truths = [read_image(scene.path) for scene in drawn], [easy_boxes(scene.annotations) for scene in drawn]
    found = []
    searches = [(opencv, "OpenCV", SIDES[0]), *((search, "ours", side) for side in SIDES)]
    for searched, name, side in searches:
        searched(images[0], side=side)  # compiles
        begin = time.process_time()
        boxes = [searched(image, side=side)[:BOXES] for image in images]
        seconds = (time.process_time() - begin) / len(images)
        for most in (LIMIT, BOXES):
            some = [each[:most] for each in boxes]
            mean = float(np.mean([len(each) for each in some]))
            facts = {"search": name, "side": side, "most": most, "recall": recall(some, truths), "boxes": mean}
            found.append({**facts, "seconds": seconds})
            print(*(f"{key} {value:.3g}" if key != "search" else value for key, value in found[-1].items()), flush=True)
    objects = sum(map(len, truths))
    command = "python -m studies.benchmarks.proposals --root DEVKIT"
    write({"command": command, **machine(), "images": len(images), "objects": objects, "searches": found}, RESULTS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
