"""All studies by name."""

from . import (
    actions,
    detection,
    label_noise,
    metric_learning,
    own_metric,
    paths,
    score_memory,
    segmentation,
    separable,
    synthetic,
    tables,
    text_search,
    warm_up,
)
from .harness.study import AnyStudy

__all__ = ["STUDIES"]

STUDIES: dict[str, AnyStudy] = {
    module.STUDY.name: module.STUDY
    for module in (
        synthetic,
        label_noise,
        separable,
        own_metric,
        tables,
        paths,
        segmentation,
        actions,
        detection,
        warm_up,
        score_memory,
        text_search,
        metric_learning,
    )
}
"""By name: one for each table or figure of the paper, and others that answer questions it leaves open."""
