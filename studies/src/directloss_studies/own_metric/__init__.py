"""Each metric by its own loss, measured by every metric."""

from .experiment import EXPERIMENT

__all__ = ["EXPERIMENT"]
