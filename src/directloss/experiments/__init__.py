"""Experiments: one file a table or figure of the paper, and those that answer a question it leaves."""

from . import actions, detection, label_noise, separable, synthetic
from .harness.experiment import AnyExperiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, AnyExperiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (synthetic, label_noise, separable, actions, detection)
}
"""By name, for the command line, the report and the tests."""
