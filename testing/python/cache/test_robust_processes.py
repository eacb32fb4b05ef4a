"""A cache never fails a call: other processes that hold its locks, are suspended, fork, or clear it at the same time."""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tilelang
from tilelang.cache.database import index
from tilelang.cache.entries import sources, store
from tilelang.cache.kernel_cache import KernelCache
from tilelang.cache.keys.source_key import SourceKey
from tilelang.cache.locks import forks, lease
from tilelang.errors import CacheWarning

from . import fakes


@contextlib.contextmanager
def locked(database: Path):
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        holder.close()


def test_a_locked_index_is_waited_for_once(cache, monkeypatch):
    monkeypatch.setattr(index, "BUSY_SECONDS", 0.3)
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    cache.disk.index.close()
    waits = []
    real = sqlite3.connect
    with locked(cache.disk.index.path), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        monkeypatch.setattr(index.sqlite3, "connect", lambda *args, **options: waits.append(1) or real(*args, **options))
        others = [KernelCache(cache.root), cache]

        def compile(number: int) -> None:
            entry = others[number % 2].lookup_or_compile(fakes.key(f"k{number}"), fakes.artifact)
            assert entry.path.is_relative_to(cache.root)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(compile, range(1, 7)))
    assert len(waits) == 1
    assert ["database is locked" in str(warning.message) for warning in caught] == [True]
    monkeypatch.setattr(index, "_left_out_until", {})
    assert cache.disk.index.listed() == [fakes.key().digest]


def test_the_wait_for_the_index_is_two_seconds():
    assert (index.BUSY_SECONDS, index.LEFT_OUT_SECONDS) == (2.0, 30.0)


HOLDER = """
import sys, time
from pathlib import Path
from tilelang.cache.locks import forks, lease
with lease.exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def holding(path: Path):
    """Another process that holds the lock file ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": fakes.python_path()}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True, cwd="/", env=environment
    )
    try:
        assert holder.stdout.readline() == "held\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def test_a_suspended_lock_holder_is_not_waited_for(cache, own_cache):
    with holding(cache.root / "locks" / f"{fakes.key().digest}.lock") as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.warns(CacheWarning, match=f"process {holder.pid}, which has it, is stopped"):
            assert cache.lookup_or_compile(fakes.key(), fakes.artifact).origin == "compiled"
        assert time.monotonic() - started < 20
    assert KernelCache().lookup_or_compile(fakes.key(), fakes.never).origin == "disk"


def test_waiting_for_a_live_lock_holder_times_out(tmp_path):
    with holding(tmp_path / "lock"):
        with pytest.raises(lease.NotReleased, match="has not given it back for 0 s"), lease.exclusive(tmp_path / "lock", 0.1):
            raise AssertionError("two holders")


def test_forks_while_other_threads_compile(cache):
    stop = threading.Event()

    def compile_on():
        number = 0
        while not stop.is_set():
            number += 1
            KernelCache().lookup_or_compile(fakes.key(f"{threading.get_ident()}-{number % 5}"), fakes.artifact)

    threads = [threading.Thread(target=compile_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(60)
                good = cache.lookup_or_compile(fakes.key(f"child{number}"), fakes.artifact).origin == "compiled"
                cache.disk.index.totals()
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_fork_waits_for_imports_of_other_threads(tmp_path, monkeypatch):
    """Python leaves the locks of modules that another thread imports locked in the child."""
    (tmp_path / "slow_part.py").write_text("import time\nSTARTED.set()\ntime.sleep(0.2)\n")
    started = threading.Event()
    monkeypatch.setattr(tilelang, "__path__", [*tilelang.__path__, str(tmp_path)])
    monkeypatch.setattr(builtins, "STARTED", started, raising=False)
    thread = threading.Thread(target=importlib.import_module, args=("tilelang.slow_part",))
    thread.start()
    started.wait()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        importlib.import_module("tilelang.slow_part")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()
    del sys.modules["tilelang.slow_part"]


def test_an_unreferenced_connection_closes_only_where_no_fork_happens(cache):
    """SQLite's allocator has a mutex; a child forked while a dropped connection closes itself would wait for it for ever."""
    cache.lookup_or_compile(fakes.key(), fakes.artifact)
    cache.disk.index.totals()
    transaction, dropped = threading.Event(), threading.Event()

    def hold():
        with forks.native:
            transaction.set()
            dropped.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    transaction.wait()
    cache.disk.index._local.__dict__.clear()
    gc.collect()
    during = descriptors_of(cache.disk.index.path)
    dropped.set()
    thread.join()
    cache.disk.index.totals()
    assert (during, descriptors_of(cache.disk.index.path)) == (1, 1)


def descriptors_of(path):
    """How many times this process has the file open."""
    links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and os.readlink(link) == str(path) for link in links)


def test_clearing_twice_at_once(cache):
    for number in range(30):
        cache.lookup_or_compile(fakes.key(f"k{number}"), fakes.artifact, SourceKey(f"{number:064x}", "m.f"))
    cache.disk.release_leases()
    counts, errors = [], []
    gate = threading.Barrier(4)

    def clear():
        gate.wait()
        try:
            counts.append(KernelCache().clear_cache())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=clear) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and sum(counts) == 30
    assert list(store.keys(cache.root)) == [] and list(sources.links(cache.root)) == []
    assert cache.disk.index.totals() == (0, 0)


CLEARING = """
import sys, warnings
from cache import fakes
from tilelang.cache.kernel_cache import KernelCache
fakes.freeze_compiler()
warnings.simplefilter("error")
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    cache = KernelCache()
    if sys.argv[1] == "clears":
        cache.clear_cache()
    else:
        entry = cache.lookup_or_compile(fakes.key(f"k{number % 5}"), fakes.artifact)
        assert cache.load(entry, lambda entry: (entry.path / "kernel_lib.so").stat().st_size) == 64
        cache.disk.release_leases()
"""


def test_processes_clear_a_cache_while_others_use_it(own_cache):
    environment = {**os.environ, "PYTHONPATH": fakes.python_path()}
    processes = [
        subprocess.Popen([sys.executable, "-c", CLEARING, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for what in ("clears", "clears", "compiles", "compiles")
    ]
    try:
        assert [process.stdout.readline() for process in processes] == [b"ready\n"] * 4
        for process in processes:
            process.stdin.write(b"\n")
            process.stdin.flush()
        assert [process.wait(120) for process in processes] == [0] * 4
    finally:
        for process in processes:
            process.kill()
            process.communicate()
