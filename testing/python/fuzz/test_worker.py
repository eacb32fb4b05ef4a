"""Processes of a campaign."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_CAMPAIGN = """
import time
from testing.fuzz.worker import Task, Worker

if __name__ == "__main__":
    worker = Worker()
    worker.give(Task(0, None, ("cpu",)), 0.0)
    print(worker.process.pid, flush=True)
    time.sleep(600)
"""

_ENDLESS = """
import pathlib, sys, time, types

def perform(task):
    pathlib.Path(__file__).with_name("busy").touch()
    time.sleep(600)

sys.modules["testing.fuzz.tasks"] = types.SimpleNamespace(perform=perform)
"""


def test_a_worker_ends_with_a_campaign_that_is_killed(tmp_path):
    """Also where it is at a program that does not end."""
    (tmp_path / "campaign.py").write_text(_CAMPAIGN)
    (tmp_path / "sitecustomize.py").write_text(_ENDLESS)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"}
    command = [sys.executable, str(tmp_path / "campaign.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as campaign:
        worker = int(campaign.stdout.readline())
        busy = _becomes(lambda: (tmp_path / "busy").exists())
        campaign.send_signal(signal.SIGKILL)
    ended = _becomes(lambda: not _runs(worker))
    if not ended:
        os.kill(worker, signal.SIGKILL)
    assert busy
    assert ended


def _becomes(holds):
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.1)
    return False


def _runs(process):
    """Whether a process is there, and not only what its parent has not asked for yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
