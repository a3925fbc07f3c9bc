"""Each metric by its own loss, measured by every metric."""

from .study import STUDY

__all__ = ["STUDY"]
