"""VOC2012 action classification, the paper's Table 1."""

from .experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
