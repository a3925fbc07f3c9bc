"""Segmentation: direct loss on IoU beside cross-entropy, Dice and the Lovász hinge."""

from .experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
