"""Does it help me? Losses on real tables under label noise."""

from .experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
