"""VOC2012 object detection, the paper's Table 2."""

from .experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
