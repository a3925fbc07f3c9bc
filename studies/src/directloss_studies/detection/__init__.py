"""VOC2012 object detection, the paper's Table 2."""

from .study import STUDY

__all__ = ["STUDY"]
