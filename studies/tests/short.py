"""The command `directloss` with short runs of two studies: how runs are kept is the same with long ones."""

from dataclasses import replace
from functools import wraps

from directloss_studies.__main__ import main
from directloss_studies.registry import STUDIES


def shortened(whole):
    return wraps(whole)(lambda *arguments: [replace(config, iterations=30) for config in whole(*arguments)])


CONFIGS = {name: shortened(STUDIES[name].configs) for name in ("separable", "label-noise")}

if __name__ == "__main__":
    for name, configs in CONFIGS.items():
        vars(STUDIES[name])["configs"] = configs
    main()
