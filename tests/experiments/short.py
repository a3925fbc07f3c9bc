"""The command `directloss` with short runs of the study `separable`: how runs are kept is the same with long ones."""

from dataclasses import replace

from directloss.__main__ import main
from directloss.experiments import EXPERIMENTS

_whole = EXPERIMENTS["separable"].configs


def configs(*arguments):
    return [replace(config, iterations=30) for config in _whole(*arguments)]


if __name__ == "__main__":
    vars(EXPERIMENTS["separable"])["configs"] = configs
    main()
