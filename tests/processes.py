"""Start a script in several processes, as `torchrun` does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"


def torchrun(monkeypatch: pytest.MonkeyPatch, processes: int, worker: Path, folder: Path, attempts: int = 2) -> None:
    """Run the worker with a folder for its results; once more where processes did not meet, as on busy machines."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    with open(folder / "log", "w+") as log:
        started = subprocess.Popen([*command, str(worker), str(folder)], stdout=log, stderr=log, start_new_session=True)
        try:
            code = started.wait(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            assert attempts > 1, (folder / "log").read_text()[-3000:]
            return torchrun(monkeypatch, processes, worker, folder, attempts - 1)
        assert code == 0, (folder / "log").read_text()[-3000:]
