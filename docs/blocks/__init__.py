"""What documents show: a module for each subject, a function for each block that `docs.generate` fills."""

from . import (
    actions,
    choosing,
    claims,
    detection,
    metric_learning,
    own_metric,
    paths,
    people,
    regimes,
    segmentation,
    speed,
    synthetic,
    tasks,
    text_search,
    training,
    verdicts,
)
from .numbers import BLOCKS, ROOT

__all__ = [
    "BLOCKS",
    "ROOT",
    "actions",
    "choosing",
    "claims",
    "detection",
    "metric_learning",
    "own_metric",
    "paths",
    "people",
    "regimes",
    "segmentation",
    "speed",
    "synthetic",
    "tasks",
    "text_search",
    "training",
    "verdicts",
]
