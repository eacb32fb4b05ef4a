"""Changes that the cache must notice: every way to reach a value, times every way to change it, times every place that uses it.

    python -m fingerprint.adversary                 a part of them: each way and change, in one of the places
    python -m fingerprint.adversary --places 16     all of them

Each is a package of two modules. It runs without a cache, then again with one, through the same calls and changes; what the
cached run gives must be what the other gave. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import linecache
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tilelang.cache.keys import source_key
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.cache.keys.source_key import FunctionTracker, SourceKey, trace

from . import sequences
from .address_ways import ADDRESS_WAYS
from .configuration_ways import CONFIGURATION_WAYS
from .fresh_ways import FRESH_WAYS
from .hidden_ways import HIDDEN_WAYS
from .introspection_ways import INTROSPECTION_WAYS
from .output_ways import OUTPUT_WAYS
from .process_state import preserved
from .uses import USES, program
from .ways import AFTER, BEFORE, WAYS, Way

RELOAD = "the file is edited and loaded again"
CLOCK = "pass"
"""What changes a value that is another one at every call."""
NEW_PROCESS = "the file, or the environment, is another in the next process"


@dataclass(frozen=True)
class Case:
    """One combination."""

    number: int
    way: Way
    change: str
    use: str

    @property
    def package(self) -> str:
        """The name of its package."""
        return f"case{self.number}"

    @property
    def title(self) -> str:
        """A readable description."""
        return f"{self.way.name}, {self.use}, changed by: {self.change}"


def cases(places: int) -> list[Case]:
    """The combinations of each way and change with some of the places."""
    names = list(USES)
    found = []
    ways = (*WAYS, *HIDDEN_WAYS, *OUTPUT_WAYS, *FRESH_WAYS, *CONFIGURATION_WAYS, *INTROSPECTION_WAYS, *ADDRESS_WAYS)
    for position, (way, change) in enumerate((each, change) for each in ways for change in _changes(each)):
        chosen = [names[(position * 7 + step * 5) % len(names)] for step in range(places)]
        found += [Case(position * len(names) + names.index(use), way, change, use) for use in chosen]
    return found


def _changes(way: Way) -> list[str]:
    edited = [RELOAD, NEW_PROCESS] if way.edits else [NEW_PROCESS] if way.environment else []
    return [*way.changes, *edited]


# -- packages ---------------------------------------------------------------------------------------------------------


def write(folder: Path, case: Case, value: str) -> None:
    """Writes the case's package; files that were there keep their time and, with a value of one digit, their size."""
    place = folder / case.package
    place.mkdir(exist_ok=True)
    setup = case.way.setup + program(case.use, case.way.body, case.way.expression)
    for name, text in (("__init__", ""), ("lib", case.way.lib), ("prog", setup)):
        file = place / f"{name}.py"
        before = file.stat() if file.exists() else None
        file.write_text(text.replace("@V@", value).replace("@PKG@", case.package))
        if before is not None:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    (place / "v.txt").write_text("4444")
    for file in set(place.iterdir()) - {place / name for name in ("__init__.py", "lib.py", "prog.py", "v.txt", "__pycache__")}:
        file.unlink()  # made by an earlier run


def _environment(case: Case, value: str | None) -> None:
    for name in case.way.environment:
        name = name.replace("@PKG@", case.package)
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@contextlib.contextmanager
def loaded(folder: Path, case: Case) -> Iterator[tuple[ModuleType, ModuleType]]:
    """(prog, lib) of the case, freshly imported; afterwards the process is what it was."""
    linecache.clearcache()
    importlib.invalidate_caches()
    try:
        with preserved():
            prog = importlib.import_module(f"{case.package}.prog")
            yield prog, importlib.import_module(f"{case.package}.lib")
    finally:
        own = (case.package, f"{case.package}.")
        for name in [name for name in sys.modules if name == own[0] or name.startswith(own[1])]:
            del sys.modules[name]


# -- runs -------------------------------------------------------------------------------------------------------------


@dataclass
class Cached:
    """A factory's calls as ``@tilelang.jit`` answers them: memory, then the source key, then the trace.

    Attributes:
        kept: source key -> program, as on disk.
        hits: how many calls were answered without a trace.
        reason: why the last one that was not remembered had to be traced.
    """

    kept: dict[str, str] = field(default_factory=dict)
    trackers: dict[int, tuple[Any, FunctionTracker]] = field(default_factory=dict)
    hits: int = 0
    reason: str = ""

    def __call__(self, function: Callable, args: tuple = (7,), kwargs: dict | None = None) -> str:
        """The program of ``function(7)``, or of other arguments."""
        kwargs = kwargs or {}
        _, tracker = self.trackers.setdefault(id(function), (function, FunctionTracker(function)))
        found = tracker.recall(args, kwargs)
        if found is not None:
            self.hits += 1
            return found
        source = tracker.source_key(args, kwargs)
        found = self.kept.get(source.digest)
        if found is None:
            found, source = self._traced(functools.partial(function, *args, **kwargs), source)
        else:
            self.hits += 1
        tracker.remember(args, kwargs, found, source)
        self.reason = source.reason
        return found

    def _traced(self, work: Callable, source: SourceKey) -> tuple[str, SourceKey]:
        try:
            value, source = trace(source, work)
        except Exception as error:
            return f"raises {type(error).__name__}", SourceKey(None)
        if source.digest is not None:
            self.kept[source.digest] = repr(value)
        return repr(value), source


def uncached(function: Callable, args: tuple = (7,), kwargs: dict | None = None) -> str:
    """The program of ``function(7)``, or of other arguments, traced."""
    try:
        return repr(function(*args, **(kwargs or {})))
    except Exception as error:
        return f"raises {type(error).__name__}"


def run(case: Case, folder: Path, call: Callable[[Callable], str]) -> list[str]:
    """What the calls of a case give: twice before the change within the process, and after it."""
    write(folder, case, BEFORE)
    _environment(case, BEFORE)
    with loaded(folder, case) as (prog, lib):
        first = prog.make
        given = [call(first), call(first)]
        if case.change == RELOAD:
            write(folder, case, AFTER)
            importlib.reload(lib)
            importlib.reload(prog)
        else:
            scope = {"prog": prog, "lib": lib, "os": os, "sys": sys, "NEW": int(AFTER), "KEY": f"KERNEL_{case.package}"}
            try:
                exec(case.change, scope)
            except (AttributeError, TypeError, ValueError):
                given.append("cannot be changed so")
        given += [call(first), call(prog.make), call(prog.make)]
    _environment(case, None)
    return given


def stale_within_a_process(case: Case, folder: Path) -> tuple[str, int]:
    """(the wrong results of the cached run, empty if it agrees with the uncached one; its number of hits)."""
    expected, cached = run(case, folder, uncached), Cached()
    found = run(case, folder, cached)
    if case.change == CLOCK:
        return "" if len(set(found)) == len(found) else f"the clock stood still: {found}", cached.hits
    return "" if found == expected else f"gave {found} where {expected} is right", cached.hits


def answers(folder: Path, chosen: list[Case], value: str, kept: dict[str, str]) -> dict[int, tuple[str, str, int]]:
    """Number of each case -> (without a cache, with the cache ``kept``, hits); for a process of its own."""
    found = {}
    for case in chosen:
        write(folder, case, value)
        _environment(case, value)
        with loaded(folder, case) as (prog, _):
            expected = uncached(prog.make)
        cached = Cached(kept)
        with loaded(folder, case) as (prog, _):
            found[case.number] = (expected, cached(prog.make), cached.hits)
        _environment(case, None)
    return found


def stale_between_processes(chosen: list[Case], places: int) -> dict[Case, str]:
    """The cases in which a process with another value got the program of the first."""
    by_number = {case.number: case for case in chosen}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for value in (BEFORE, AFTER):
            here = place / value
            here.mkdir()
            command = [sys.executable, "-m", "fingerprint.adversary", "--process", str(here), value, str(place / "kept.json")]
            subprocess.run([*command, "--places", str(places)], check=True, env=_process_environment())
        found = json.loads((place / AFTER / "answers.json").read_text())
    return {
        by_number[int(number)]: f"gave {got} where {expected} is right"
        for number, (expected, got, _) in found.items()
        if expected != got
    }


def _process_environment() -> dict[str, str]:
    paths = [str(Path(__file__).resolve().parents[1]), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def _process(folder: Path, value: str, store: Path, places: int) -> None:
    chosen = [case for case in cases(places) if case.change == NEW_PROCESS]
    kept = json.loads(store.read_text()) if store.exists() else {}
    sys.path.insert(0, str(folder))
    (folder / "answers.json").write_text(json.dumps(answers(folder, chosen, value, kept)))
    store.write_text(json.dumps(kept))


def stale(places: int) -> tuple[dict[Case, str], int, int]:
    """(case -> its wrong results, number of cases, number of cases in which the cache had hits)."""
    chosen, answered = cases(places), 0
    found = stale_between_processes([case for case in chosen if case.change == NEW_PROCESS], places)
    with tempfile.TemporaryDirectory() as folder, imports_from(folder):
        for case in (case for case in chosen if case.change != NEW_PROCESS):
            wrong, hits = stale_within_a_process(case, Path(folder))
            answered += hits > 0
            if wrong:
                found[case] = wrong
    return found, len(chosen), answered


@contextlib.contextmanager
def imports_from(folder: str) -> Iterator[None]:
    """Packages of ``folder`` can be imported, and leave no byte code there."""
    sys.path.insert(0, folder)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = before


def stale_sequences() -> tuple[dict[str, list[str]], int]:
    """(name of a sequence of calls -> its wrong results, number of sequences)."""
    chosen = [each for each in sequences.SEQUENCES if each.is_runnable]
    with imports_from(tempfile.gettempdir()):
        found = {each.name: sequences.stale(each, functools.partial(Cached, {}), uncached) for each in chosen}
    return {name: wrong for name, wrong in found.items() if wrong}, len(chosen)


def main() -> None:
    """Runs the combinations and tells which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=1, help=f"of {len(USES)}: in how many each way and change is tried")
    parser.add_argument("--process", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # The compiler is none of what changes here.
    source_key.compiler_fingerprint = lambda memo_file: Fingerprint((), True)
    source_key.header_watch.records = list
    if options.process:
        folder, value, store = options.process
        _process(Path(folder), value, Path(store), options.places)
        return
    found, count, answered = stale(options.places)
    for case, wrong in found.items():
        print(f"{case.title}: {wrong}")
    others, sequences_run = stale_sequences()
    for name, wrong in others.items():
        print(f"{name}: {wrong[0]}")
    print(f"Python {sys.version.split()[0]}: {sequences_run} sequences of calls, {len(others)} stale")
    print(f"Python {sys.version.split()[0]}: {count} combinations, {answered} with hits, {len(found)} stale")
    sys.exit(bool(found or others))


if __name__ == "__main__":
    main()
