"""Concurrent requests: one kernel is compiled once, even if a process is killed; different kernels do not wait for each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from tilelang.cache.kernel_cache import KernelCache

from . import fakes

WORKER = """
import os, signal, sys, time
from cache import fakes
from tilelang.cache.kernel_cache import KernelCache

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with interrupts ignored

log, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])

def compile():
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(seconds)
    return fakes.artifact(name)

print("ready", flush=True)
sys.stdin.readline()
entry = KernelCache().lookup_or_compile(fakes.key(name), compile)
print(entry.origin, entry.path / "kernel_lib.so", flush=True)
"""


def start(log, name: str, seconds: float) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(log), name, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": fakes.python_path()},
    )


def let_go(workers: list[subprocess.Popen]) -> None:
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()


def finish(worker: subprocess.Popen) -> list[str]:
    return worker.communicate(timeout=60)[0].split()


def test_32_processes_compile_once(tmp_path):
    log = tmp_path / "log"
    workers = [start(log, "add", 0.3) for _ in range(32)]
    let_go(workers)
    answers = [finish(worker) for worker in workers]
    assert len(log.read_text().split()) == 1
    assert sorted(origin for origin, _ in answers) == ["compiled"] + ["disk"] * 31
    assert len({path for _, path in answers}) == 1 and os.path.getsize(answers[0][1]) == 64


def test_32_threads_compile_once(own_cache):
    caches = [KernelCache() for _ in range(4)]
    compilations = []
    gate = threading.Barrier(32)
    entries = []

    def compile():
        compilations.append(1)
        time.sleep(0.1)
        return fakes.artifact()

    def ask(cache):
        gate.wait()
        entries.append(cache.lookup_or_compile(fakes.key(), compile))

    threads = [threading.Thread(target=ask, args=(caches[n % 4],)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compilations) == 1 and len(entries) == 32
    assert {entry.artifact.name for entry in entries} == {"add"}


def test_a_waiting_process_compiles_when_the_lock_holder_is_killed(tmp_path):
    log = tmp_path / "log"
    first = start(log, "add", 60)
    let_go([first])
    while not log.exists():
        time.sleep(0.01)
    second = start(log, "add", 0.0)
    let_go([second])
    time.sleep(0.3)
    assert second.poll() is None
    killed_at = time.monotonic()
    first.send_signal(signal.SIGKILL)
    first.communicate()
    origin, _ = finish(second)
    assert origin == "compiled" and time.monotonic() - killed_at < 2.0
    assert len(log.read_text().split()) == 2


def test_a_failed_compilation_releases_the_lock(cache):
    gate = threading.Barrier(2)
    outcomes = []

    def ask(compile):
        gate.wait()
        try:
            outcomes.append(cache.lookup_or_compile(fakes.key(), compile).origin)
        except RuntimeError as error:
            outcomes.append(str(error))

    calls = []

    def fails_once():
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no")
        return fakes.artifact()

    threads = [threading.Thread(target=ask, args=(fails_once,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["compiled", "no"]


MANY = """
import sys, time
from cache import fakes
from tilelang.cache.kernel_cache import KernelCache

first = int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
cache = KernelCache()

def compile():
    time.sleep(0.2)
    return fakes.artifact()

origins = [cache.lookup_or_compile(fakes.key(f"k{(first * 8 + n) % 64}"), compile).origin for n in range(64)]
print(origins.count("compiled"), flush=True)
"""


def test_different_keys_do_not_wait_for_each_other():
    """Eight processes, 64 kernels of 0.2 s each: one after the other would take 12.8 s."""
    environment = {**os.environ, "PYTHONPATH": fakes.python_path()}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=environment,
        )
        for n in range(8)
    ]
    let_go(workers)
    started = time.monotonic()
    compiled = [int(finish(worker)[0]) for worker in workers]
    assert sum(compiled) == 64
    assert time.monotonic() - started < 8


def test_a_waiting_thread_can_be_interrupted(tmp_path):
    log = tmp_path / "log"
    first = start(log, "add", 600)
    let_go([first])
    while not log.exists():
        time.sleep(0.01)
    second = start(log, "add", 0.0)
    let_go([second])
    deadline = time.monotonic() + 60
    try:
        while second.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
            second.send_signal(signal.SIGINT)
        assert second.poll() not in (None, 0)
    finally:
        first.kill()
        second.kill()
    first.communicate()
    second.communicate()
