"""Dynamic check of the static analysis: records what a run of the code really accesses.

While a program is traced for the first time, all functions of the user that start are noted, with the compiled functions that
they call, the files that they open and the environment variables that they read. Python 3.12 and later report events by
``sys.monitoring`` (each place in a library once, so that it costs next to nothing), earlier versions by ``sys.setprofile``; an
audit hook reports files.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

from tilelang import env
from tilelang.fingerprint import genuine, libraries
from tilelang.fingerprint.reads import code_tree
from tilelang.fingerprint.walk import Describer

_LIBRARIES = (*sorted(libraries.OWN_PACKAGES), *sorted(libraries.LARGE))
_MODULES_OF_THE_SYSTEM = frozenset("posix time _io _random _socket _datetime _uuid _posixsubprocess".split())
_HARMLESS = frozenset(("fspath", "_path_splitroot_ex"))
_EVENTS = frozenset("open os.listdir os.scandir subprocess.Popen os.system os.exec socket.connect socket.getaddrinfo".split())
_TELLING = frozenset(("logging", "warnings"))
_GENERATED = ("<string>", "<unknown>")  # of data classes, for instance, and of the tracebacks of compiled code
_MODULE = "<module>"
_DEEP = 300
"""Calls that are nested deeper may exceed the recursion limit in another run, if more frames are on the stack before them."""


class Touched:
    """The accesses of one run.

    Attributes:
        codes: code of the user that ran.
        compiled: compiled functions that it called.
        system: what it asked the system for: files, the clock, other programs.
        environment: names of environment variables.
    """

    def __init__(self) -> None:
        self.codes: set[CodeType] = set()
        self.compiled: dict[int, BuiltinFunctionType] = {}
        self.system: set[str] = set()
        self.environment: set[str] = set()
        self._too_deep = _DEEP + _depth()

    def note_depth(self) -> None:
        """Notes that calls lie so deep in one another that the limit of recursion may decide."""
        if "the limit of recursion" not in self.system and _depth_is(self._too_deep):
            self.system.add("the limit of recursion")

    def uncovered(self, described: Iterable[Describer]) -> str:
        """Why the descriptions do not cover the run; empty where they do."""
        described = tuple(described)
        return self._uncovered_code(described) or self._uncovered_state(described) or self._uncovered_function()

    def _uncovered_code(self, described: tuple[Describer, ...]) -> str:
        covered: dict[str, list[range]] = {}
        for code in (code for one in described for code in one.covered):
            covered.setdefault(code.co_filename, []).append(_lines(code))
        for code in sorted(self.codes, key=lambda code: (code.co_filename, code.co_firstlineno)):
            # A front end compiles a function again, whose code then has other names but lies on the same lines.
            lines = covered.get(code.co_filename, [])
            of_front_end = bool(lines) and code.co_name == _MODULE
            if not of_front_end and not any(code.co_firstlineno in part for part in lines):
                return f"{code.co_name}() of {code.co_filename} ran, which nothing in the code leads to"
        return ""

    def _uncovered_state(self, described: tuple[Describer, ...]) -> str:
        if self.system:
            return f"it used {min(self.system)}"
        names = set().union(*(one.environment for one in described))
        missing = self.environment - names if "*" not in names else set()
        return f"it read the environment variable {min(missing)}" if missing else ""

    def _uncovered_function(self) -> str:
        for function in self.compiled.values():
            try:
                libraries.library_label(function)
            except libraries.Untrusted as error:
                return str(error)
        return ""


def _depth() -> int:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _depth_is(depth: int) -> bool:
    """Whether there are that many frames on the stack."""
    try:
        sys._getframe(depth)
    except ValueError:
        return False
    return True


def _lines(code: CodeType) -> range:
    """The lines of the file that ``code`` came from."""
    lines = [line for part in code_tree(code) for _, _, line in part.co_lines() if line is not None]
    return range(code.co_firstlineno, 1 + max(lines, default=code.co_firstlineno))


_active = threading.local()
_is_user: dict[CodeType, bool] = {}
_environment_code = env.lookup_code()
_lock = threading.Lock()
_forks: list[bool] = []


def _before_fork() -> None:
    _lock.acquire()
    _forks.append(True)


def _after_fork() -> None:
    if _forks:  # not where this module was imported while the fork waited for something
        _forks.pop()
        _lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
_hooked: list[bool] = []


@contextlib.contextmanager
def recording() -> Iterator[Touched | None]:
    """The accesses of the body in this thread; None under a debugger or profiler, which recording would disturb."""
    touched = Touched()
    with _without_collection():
        with _lock:
            end = _begin_monitoring(touched) if sys.version_info >= (3, 12) else _begin_profiling(touched)
        if end is None:
            yield None
            return
        _hook_files()
        _active.touched = touched
        try:
            yield touched
        finally:
            _active.touched = None
            end()


_paused: list[bool] = []  # for each recording under way, whether the garbage collector was on before


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """The collector runs callbacks and finalisers wherever it happens to start: they are nothing that the body does."""
    _paused.append(gc.isenabled())
    gc.disable()
    try:
        yield
    finally:
        if _paused and _paused.pop():
            gc.enable()


def _resume_collection() -> None:
    # The threads whose recordings had paused it do not exist in the child.
    if True in _paused:
        gc.enable()
    _paused.clear()


os.register_at_fork(after_in_child=_resume_collection)


def _begin_profiling(touched: Touched) -> Any:
    if sys.getprofile() is not None:
        return None

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            _started(touched, frame.f_code, frame)
        elif event == "c_call":
            _called(touched, frame, argument)

    sys.setprofile(profile)
    return lambda: sys.setprofile(None)


def _begin_monitoring(touched: Touched) -> Any:
    monitoring = sys.monitoring  # pyright: ignore[reportAttributeAccessIssue]
    # Numbers 0, 1, 2 and 5 are those of debuggers, coverage, profilers and optimisers (sys.monitoring's documentation).
    tool = next((number for number in (3, 4) if monitoring.get_tool(number) is None), None)
    if tool is None:
        return None
    thread, events = threading.get_ident(), monitoring.events

    def start(code: CodeType, offset: int) -> Any:
        if threading.get_ident() == thread:
            _started(touched, code, sys._getframe(1))
        # DISABLE ends the events of this place until the next restart, which keeps a library's hot loops at full speed. The
        # user's functions and the look-up of environment variables are recorded at every start, since each may be another one.
        return None if code is _environment_code or _is_of_user(code) else monitoring.DISABLE

    def call(code: CodeType, offset: int, function: Any, first: Any) -> Any:
        if threading.get_ident() == thread and type(function) is BuiltinFunctionType:
            _called(touched, sys._getframe(1), function)
        return None if _is_of_user(code) or not _is_frozen_choice(function) else monitoring.DISABLE

    monitoring.use_tool_id(tool, "tilelang")
    monitoring.register_callback(tool, events.PY_START, start)
    monitoring.register_callback(tool, events.CALL, call)
    monitoring.set_events(tool, events.PY_START | events.CALL)
    # Places that an earlier recording disabled report again.
    monitoring.restart_events()

    def end() -> None:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)

    return end


def _is_frozen_choice(function: Any) -> bool:
    """Whether calls of this function need no further recording: it is no builtin that reads system state."""
    return _system_module(function) is None


def _started(touched: Touched, code: CodeType, frame: FrameType) -> None:
    # Python's own look-up in os.environ was called: the next frame on the stack is the one that reads the variable.
    if code is _environment_code:
        if _asked_by_user(frame.f_back):
            touched.environment.add(str(frame.f_locals.get("key")))
    elif code in touched.codes:
        touched.note_depth()
    # Code of an installed package counts if the user's code called it, and not if the compiler did.
    elif _is_of_user(code) and not (genuine.is_packaged(code) and not _asked_by_user(frame.f_back)):
        touched.codes.add(code)


def _called(touched: Touched, frame: FrameType, function: Any) -> None:
    module = _system_module(function)
    if module is not None and _asked_by_user(frame):
        touched.system.add(f"{module}.{function.__name__}")
    elif isinstance(getattr(function, "__self__", None), ModuleType) and _is_of_user(frame.f_code):
        if not genuine.is_packaged(frame.f_code) or _asked_by_user(frame):
            touched.compiled[id(function)] = function


def _system_module(function: Any) -> str | None:
    owner = getattr(function, "__self__", None)
    if type(function) is not BuiltinFunctionType or not isinstance(owner, ModuleType) or function.__name__ in _HARMLESS:
        return None
    return owner.__name__ if owner.__name__ in _MODULES_OF_THE_SYSTEM else None


def _is_of_user(code: CodeType) -> bool:
    known = _is_user.get(code)
    if known is None:
        is_python = code.co_filename.endswith((".py", ">")) and code.co_filename not in _GENERATED
        known = _is_user[code] = is_python and genuine.home_of(code, _LIBRARIES) is None
    return known


def _asked_by_user(frame: FrameType | None) -> bool:
    """Whether the nearest code that is neither installed nor of the standard library is the user's: the compiler uses packages
    too, which do not count; nor does what a logger does on the way."""
    while frame is not None:
        if _is_of_user(frame.f_code) and not genuine.is_packaged(frame.f_code):
            return True
        home = genuine.home_of(frame.f_code, _LIBRARIES)
        if home is not None and (home.package in _LIBRARIES or home.package in _TELLING):
            return False
        frame = frame.f_back
    return False


def _hook_files() -> None:
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple) -> None:
    if event in _EVENTS:
        touched = getattr(_active, "touched", None)
        if touched is not None and _asked_by_user(sys._getframe(1)):
            touched.system.add(f"{event}({arguments[0]!r})" if arguments else event)
