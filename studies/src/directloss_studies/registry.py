"""All studies by name."""

from . import actions, detection, label_noise, own_metric, paths, segmentation, separable, synthetic, tables
from .harness.study import AnyStudy

__all__ = ["STUDIES"]

STUDIES: dict[str, AnyStudy] = {
    module.STUDY.name: module.STUDY
    for module in (synthetic, label_noise, separable, own_metric, tables, paths, segmentation, actions, detection)
}
"""By name: one for each table or figure of the paper, and others that answer questions it leaves open."""
