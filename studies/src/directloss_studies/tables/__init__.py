"""Does it help me? Losses on real tables under label noise."""

from .study import STUDY

__all__ = ["STUDY"]
