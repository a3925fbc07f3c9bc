"""VOC2012 action classification, the paper's Table 1."""

from .study import STUDY

__all__ = ["STUDY"]
