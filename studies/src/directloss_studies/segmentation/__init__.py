"""Segmentation: direct loss on IoU beside cross-entropy, Dice and the Lovász hinge."""

from .study import STUDY

__all__ = ["STUDY"]
