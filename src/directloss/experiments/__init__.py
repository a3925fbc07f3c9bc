"""Everything behind the extra: experiments, their harness and report, data and vision, and the command line."""

from . import actions, detection, label_noise, segmentation, separable, synthetic
from .harness.experiment import AnyExperiment

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, AnyExperiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (synthetic, label_noise, separable, actions, detection, segmentation)
}
"""By name: one for each table or figure of the paper, and two that answer questions it leaves open."""
