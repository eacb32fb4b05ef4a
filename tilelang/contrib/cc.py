"""The C and C++ compilers of the system, under the names that programs call them by."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from tilelang import env
from tilelang.attributes import attributes

__getattr__ = attributes(__name__, {})


def get_cc() -> str | None:
    """The path or name of a compiler of C and C++: ``TILELANG_CC``, or what the path has; None where there is none."""
    return _first("g++", "gcc", "clang++", "clang", "c++", "cc")


def get_cplus_compiler() -> str | None:
    """The same, for C++."""
    return _first("g++", "clang++", "c++")


def _first(*names: str) -> str | None:
    return env.get("TILELANG_CC") or next(filter(None, map(shutil.which, names)), None)


def is_darwin() -> bool:
    """Whether this is macOS."""
    return sys.platform == "darwin"


def create_shared(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Makes a shared library.

    Args:
        output: its path.
        objects: object files, or sources of C and C++.
        options: further options of the compiler.
        cc: the compiler; that of :func:`get_cc` by default.
        cwd: the folder that the compiler runs in.
        ccache_env: variables for ``ccache``, through which the compiler is called then.

    Raises:
        RuntimeError: the compiler failed; the message has its output.
    """
    _compile(["-shared", "-fPIC"], output, objects, options, cc, cwd, ccache_env)


def create_executable(
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Makes a program; as :func:`create_shared`.

    Args:
        output: its path.
        objects: object files, or sources of C and C++.
        options: further options of the compiler.
        cc: the compiler; that of :func:`get_cc` by default.
        cwd: the folder that the compiler runs in.
        ccache_env: variables for ``ccache``, through which the compiler is called then.

    Raises:
        RuntimeError: the compiler failed; the message has its output.
    """
    _compile([], output, objects, options, cc, cwd, ccache_env)


def _compile(
    kind: list[str],
    output: str,
    objects: str | Sequence[str],
    options: Sequence[str] | None,
    cc: str | None,
    cwd: str | None,
    ccache_env: Mapping[str, str] | None,
) -> None:
    compiler = cc or get_cc()
    if compiler is None:
        raise RuntimeError("no C compiler: install gcc or clang, or set TILELANG_CC")
    command = [compiler, *kind, "-o", output, *([objects] if isinstance(objects, str) else objects), *(options or ())]
    if ccache_env is not None:
        if shutil.which("ccache") is None:
            raise ValueError("ccache is not installed")
        command = ["env", *(f"{name}={value}" for name, value in ccache_env.items()), "ccache", *command]
    _output(command, cwd)


def create_staticlib(output: str, inputs: str | Sequence[str], ar: str | None = None) -> None:
    """Makes a static library.

    Args:
        output: its path.
        inputs: object files.
        ar: the archiver; ``ar`` by default.

    Raises:
        RuntimeError: the archiver failed; the message has its output.
    """
    _output([ar or "ar", "-crs", output, *([inputs] if isinstance(inputs, str) else inputs)])


def get_global_symbol_section_map(path: str, *, nm: str | None = None) -> dict[str, str]:
    """The symbols that a library defines, each with the letter that ``nm`` has for its section."""
    rows = map(str.split, _output([nm or "nm", "-g", "--defined-only", path]).splitlines())
    return {name: section for _, section, name in (row for row in rows if len(row) == 3)}


def get_target_by_dump_machine(compiler: str | None) -> Callable[[], str | None]:
    """The function that asks a compiler for the triple of its target."""
    return lambda: _output([compiler, "-dumpmachine"]).strip() if compiler else None


def _output(command: list[str], cwd: str | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout
