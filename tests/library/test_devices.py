"""Losses on a device other than the CPU: what crosses to the host in a step, and that the numbers are the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
STEPS = {
    "one list": {"to the host": 2, "waits": 1, "to the device": 3},
    "a batch": {"to the host": 2, "waits": 1, "to the device": 3},
    "a batch with a mask": {"to the host": 3, "waits": 1, "to the device": 3},
    "labels of int64": {"to the host": 2, "waits": 1, "to the device": 3},
    "grades": {"to the host": 2, "waits": 1, "to the device": 3},
    "multi-label": {"to the host": 2, "waits": 2, "to the device": 3},  # the check of the values before they are moved
    "multi-label, labels of int64": {"to the host": 2, "waits": 3, "to the device": 3},
    "indexes": {"to the host": 3, "waits": 2, "to the device": 4},
    "sequences": {"to the host": 3, "waits": 3, "to the device": 3},
}
"""Copies and waits of a step. A copy to the host: scores, target and mask; back: gradient, values, what counts."""


@pytest.mark.skipif(not hasattr(torch._C, "_acc"), reason="this torch takes no backend in Python")
def test_a_step_on_a_device_waits_once_for_the_host():
    command = [sys.executable, "-m", "tests.fake_device"]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert found == {name: step | {"backward": 0, "equal": True} for name, step in STEPS.items()}
