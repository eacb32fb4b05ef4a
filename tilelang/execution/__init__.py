"""Execution backends: each turns a compiled artifact into something that can be called.

A backend is one module of this package and one row of :data:`tilelang.execution.registry.BACKENDS`. It never compiles a tile
program. All of them accept the same arguments: :mod:`tilelang.execution.arguments` is the reference.
"""

from tilelang.execution.executor import Executor
from tilelang.execution.registry import BACKENDS, load, resolve, supported

__all__ = ["BACKENDS", "Executor", "load", "resolve", "supported"]
