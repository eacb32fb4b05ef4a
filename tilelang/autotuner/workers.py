"""Compiling candidates in processes of their own: in parallel, each with a time limit, none able to take the search down.

A child is forked, so that user functions need not be picklable, and compiles into the kernel cache on disk; the parent then
finds the kernel there. Where there is no fork, or no cache on disk, the parent compiles by itself.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any


def can_fork() -> bool:
    """Whether candidates can be compiled in forked children."""
    return "fork" in multiprocessing.get_all_start_methods() and os.uname().sysname != "Darwin"


def compile_all(jobs: Sequence[Callable[[], Any]], workers: int, timeout: float) -> Iterator[tuple[int, str, str]]:
    """Runs each job in a child process, and yields those that fail.

    Args:
        jobs: each compiles one candidate into the cache on disk.
        workers: how many run at a time.
        timeout: seconds after which a job is killed.

    Yields:
        (position, ``"failed"`` or ``"timeout"``, what happened), as they end.
    """
    context = multiprocessing.get_context("fork")
    waiting = list(enumerate(jobs))[::-1]
    running: dict[Any, tuple[int, Any, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                position, job = waiting.pop()
                receive, send = context.Pipe(duplex=False)
                child = context.Process(target=_child, args=(job, send), daemon=True)
                child.start()
                send.close()
                running[receive] = (position, child, time.monotonic() + timeout)
            nearest = min(limit for _, _, limit in running.values())
            ready = wait(list(running), timeout=max(0.0, nearest - time.monotonic()))
            for receive in ready:
                position, child, _ = running.pop(receive)
                error = _outcome(receive, child)
                if error:
                    yield position, "failed", error
            for receive in [r for r, (_, _, limit) in running.items() if limit <= time.monotonic()]:
                position, child, _ = running.pop(receive)
                child.kill()
                child.join()
                yield position, "timeout", f"compilation took more than {timeout:g} s"
    finally:
        for _, child, _ in running.values():
            child.kill()


def _outcome(receive: Any, child: Any) -> str:
    """What went wrong in a child that has ended; empty where nothing did."""
    try:
        error = receive.recv()
    except EOFError:
        child.join()
        error = f"the compiler process ended with code {child.exitcode}"
    child.join()
    return error


def _child(job: Callable[[], Any], send: Connection) -> None:
    """Runs in the child; leaves without cleaning up, as everything belongs to the parent."""
    try:
        job()
        error = ""
    except BaseException as failure:  # noqa: BLE001 - whatever it is, the parent reports it
        error = f"{type(failure).__name__}: {failure}"
    send.send(error)
    send.close()
    os._exit(0)
