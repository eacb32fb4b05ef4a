"""``tilelang cache …``: look at a cache, explain it, and keep it in order."""

from __future__ import annotations

import errno
import functools
import json
import shutil
import sqlite3
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy.exc import SQLAlchemyError

from tilelang import env
from tilelang.cache.command import explain, maintenance, output, precompile, report
from tilelang.cache.command.catalog import LISTED, SORT_ORDERS, Catalog, Filter
from tilelang.cache.command.output import Column, say
from tilelang.cache.command.units import counted, human_age, human_bytes, moment, parse_age, parse_size, target_name
from tilelang.cache.database import journal
from tilelang.cache.database.index import FILE_NAME, Index
from tilelang.cache.disk import DiskCache
from tilelang.cache.entries import scratch, store
from tilelang.cache.entries.files import DESCRIPTIONS
from tilelang.cache.places import location
from tilelang.cache.printable import printable
from tilelang.cache.travel import bake, bundle
from tilelang.errors import CacheError, CacheWarning, TileLangError

app = typer.Typer(help="The kernel cache.", no_args_is_help=True, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Root = Annotated[Path | None, typer.Option("--root", help="The cache's directory, instead of the default one.")]
Key = Annotated[str, typer.Argument(help="A kernel key, the beginning of one, or a kernel's name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def _disk(root: Path | None, changes: bool = False, makes: bool = False) -> DiskCache:
    """The cache at ``root``, or the default one.

    Args:
        changes: the command writes to it.
        makes: a directory that is not there yet is made.
    """
    chosen = location.default_root() if root is None else root.absolute()
    if root is not None and not (chosen / "kernels").is_dir() and not (makes and _is_free(chosen)):
        raise CacheError(f"there is no kernel cache in {chosen}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        place = location.prepare(chosen)
    if not place.kept:
        raise CacheError(f"the kernel cache {chosen} is not used: {location.problem(chosen)}")
    if changes and not place.writable:
        raise CacheError(f"the kernel cache {chosen} cannot be written to")
    return DiskCache(place)


def _is_free(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _catalog(disk: DiskCache) -> Catalog:
    return Catalog(disk.index if disk.place.writable else _copied_index(disk.root))


def _copied_index(root: Path) -> Index:
    """The index of a cache that cannot be written to: a copy, or one made anew from the entries."""
    copy = scratch.root() / FILE_NAME
    (scratch.root() / "locks").mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        try:
            shutil.copyfile(root / f"{FILE_NAME}{suffix}", f"{copy}{suffix}")
        except OSError:
            break
    return Index(root, copy)


@app.command("ls")
def list_kernels(
    name: Annotated[str, typer.Argument(help="Part of the kernels' name.")] = "",
    target: Annotated[str, typer.Option(help="Part of the target, or the architecture.")] = "",
    backend: Annotated[str, typer.Option(help="The execution backend.")] = "",
    older: Annotated[str | None, typer.Option(help="Compiled longer ago than this, for example 2d.")] = None,
    younger: Annotated[str | None, typer.Option(help="Compiled within this time.")] = None,
    larger: Annotated[str | None, typer.Option(help="Larger than this, for example 1M.")] = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="Pinned ones only.")] = False,
    space: Annotated[int | None, typer.Option(help="Tuning space: 0 own schedule, 1 and 2 searched.")] = None,
    sort: Annotated[str, typer.Option(help="Order: " + ", ".join(SORT_ORDERS))] = "age",
    limit: Annotated[int | None, typer.Option(help="At most this many.")] = None,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Lists kernels."""
    if sort not in SORT_ORDERS:
        raise CacheError(f"{sort!r} is not an order; sort by one of {', '.join(SORT_ORDERS)}")
    which = Filter(
        name=name,
        target=target,
        backend=backend,
        older=parse_age(older),
        younger=parse_age(younger),
        larger=parse_size(larger),
        pinned=pinned,
        space=space,
    )
    rows = _catalog(_disk(root)).kernels(which, sort, limit, None if as_json else LISTED)
    if as_json:
        output.as_json([{**row, "inputs": json.loads(row["inputs"])} for row in rows])
        return
    output.table(_KERNELS, rows, f"{counted(len(rows), 'kernel')}, {human_bytes(sum(row['bytes'] for row in rows))}")


_KERNELS = (
    Column("key", lambda row: row["key"], lambda row: row["key"][:12]),
    Column("name", lambda row: row["name"], cut=True),
    Column("target", lambda row: target_name(row["target"], row["arch"]), cut=True),
    Column("backend", lambda row: row["backend"], spare=True),
    Column("size", lambda row: row["bytes"], lambda row: human_bytes(row["bytes"]), right=True),
    Column("created", lambda row: moment(row["created"]), lambda row: human_age(row["created"]), right=True, spare=True),
    Column("hits", lambda row: row["hits"], right=True),
    Column(
        "seconds",
        lambda row: round(row["compile_seconds"], 6),
        lambda row: f"{row['compile_seconds']:.2f}",
        right=True,
        spare=True,
    ),
    Column("pin", lambda row: "pinned" if row["pinned"] else "", spare=True),
    Column("shortcut", lambda row: row["shortcut"] or "on", lambda row: "off" if row["shortcut"] else "on"),
)


@app.command()
def show(key: Key, as_json: Json = False, root: Root = None) -> None:
    """Shows one kernel, and where every file of it is."""
    disk = _disk(root)
    catalog = _catalog(disk)
    row = catalog.resolve(key)
    path = store.entry_path(disk.root, row["key"])
    files = [{**file, "path": str(path / file["name"])} for file in catalog.files(row["key"])]
    details = {**row, "inputs": json.loads(row["inputs"]), "path": str(path), "functions": catalog.functions(row["key"])}
    if as_json:
        output.as_json({**details, "files": files})
        return
    details["created"] = moment(row["created"])
    details["compile_seconds"] = round(row["compile_seconds"], 6)
    details["functions"] = ", ".join(details["functions"])
    details["shortcut"] = f"off: {row['shortcut']}" if row["shortcut"] else "on"
    output.facts({name: details[name] for name in _SHOWN})
    output.table(_FILES, files)


_SHOWN = "key name target backend space path created hits compile_seconds reason shortcut functions".split()
_FILES = (
    Column("file", lambda file: file["path"], lambda file: file["name"]),
    Column("size", lambda file: file["bytes"], lambda file: human_bytes(file["bytes"]), right=True),
    Column("what it is", lambda file: DESCRIPTIONS.get(file["name"].partition("/")[0], "")),
)


@app.command()
def why(key: Key, as_json: Json = False, root: Root = None) -> None:
    """Says which input of a kernel's key differs from the nearest other kernel of its name, and how their programs differ."""
    disk = _disk(root)
    found = _catalog(disk).why(key)
    diff = explain.program_diff(disk.root, found["key"], found["nearest"]) if found["nearest"] else []
    if as_json:
        output.as_json({**found, "program_diff": diff})
        return
    say(f"{found['name']} {found['key'][:12]}: {found['reason']}")
    if found["shortcut"]:
        say(f"It is found after tracing only: {found['shortcut']}")
    if found["nearest"] is None:
        say("There is no other kernel of this name.")
        return
    say(f"Compared with {found['nearest'][:12]}:")
    output.table(_DIFFERENCES, found["differences"])
    for line in diff:
        say(line)


_DIFFERENCES = (
    Column("input", lambda row: row["name"]),
    Column("here", lambda row: _present(row["here"]), cut=True),
    Column("there", lambda row: _present(row["there"]), cut=True),
)


def _present(text: str | None) -> str:
    return "(absent)" if text is None else text


@app.command()
def stats(
    zero: Annotated[bool, typer.Option("--zero", "-z", help="Set the counters to zero.")] = False,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Shows hit rates, sizes, the time saved, and what was counted since the last --zero."""
    disk = _disk(root, changes=zero)
    if zero:
        disk.index.zero()
    catalog = _catalog(disk)
    found: dict[str, Any] = {**catalog.statistics(), "counters": _counters(catalog.index)}
    if as_json:
        output.as_json(found)
        return
    cap = env.get("TILELANG_CACHE_MAX_SIZE")
    since = found["counters"].pop("since")
    output.facts(
        {
            "entries": f"{found['entries']} ({counted(found['sources'], 'source key')})",
            "size": f"{human_bytes(found['bytes'])} of {human_bytes(cap) if cap else 'any size'}",
            "hits": f"{found['hits']} ({100 * found['hit_rate']:.0f}% of requests that reached the disk)",
            "compile time": f"{found['compile_seconds']:.1f}s spent, {found['saved_seconds']:.1f}s saved",
            "shortcut off": f"{counted(found['without_shortcut'], 'kernel')}, found after tracing only",
            "counted since": moment(since) if since else "the beginning",
            **{_COUNTED[event]: times for event, times in found["counters"].items()},
        }
    )
    output.table(_PROGRAMS, sorted(found["by_name"], key=lambda row: -row["saved_seconds"]))


_COUNTED = {
    "hit": "hits since then",
    "miss": "misses",
    "evicted": "evicted",
    "error": "errors",
    "uncacheable": "uncacheable",
}


def _counters(index: Index) -> dict[str, int]:
    counts = index.counts()
    return {name: counts.get(name, 0) for name in (*journal.EVENTS, "since")}


_PROGRAMS = (
    Column("name", lambda row: row["name"], cut=True),
    Column("entries", lambda row: row["entries"], right=True),
    Column("size", lambda row: row["bytes"], lambda row: human_bytes(row["bytes"]), right=True),
    Column("hits", lambda row: row["hits"], right=True),
    Column("saved", lambda row: round(row["saved_seconds"], 6), lambda row: f"{row['saved_seconds']:.1f}s", right=True),
)


@app.command()
def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Move bad entries aside and repair the index.")] = False,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Reads every file of every entry. Ends with 1 if something is wrong and was not repaired."""
    disk = _disk(root, changes=repair)
    index = disk.index if disk.place.writable else _copied_index(disk.root)
    found = maintenance.verify(disk.root, index, repair, output.progress("verifying", as_json))
    if as_json:
        output.as_json(vars(found))
    else:
        for key, problem in found.bad.items():
            say(f"bad   {key[:12]} {problem}")
        say(
            f"{found.good} good, {len(found.bad)} bad, {len(found.missing_rows)} without a row, "
            f"{len(found.missing_directories)} without a directory" + (" (repaired)" if repair else "")
        )
    if not repair and (found.bad or found.missing_rows or found.missing_directories):
        raise typer.Exit(1)


@app.command()
def gc(
    max_size: Annotated[str | None, typer.Option(help="Evict down to this size; default: the configured cap.")] = None,
    grace: Annotated[float, typer.Option(help="Spare entries used within these seconds.")] = 60.0,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Removes what is over the size cap, leftovers of killed processes, and links that lead nowhere."""
    cap = env.get("TILELANG_CACHE_MAX_SIZE") if max_size is None else parse_size(max_size) or 0
    disk = _disk(root, changes=True)
    found = maintenance.collect(disk.root, disk.index, cap, grace)
    if as_json:
        output.as_json({name: getattr(found, name) for name in found.__slots__})
        return
    say(
        f"{counted(found.evicted, 'entry', 'entries')} evicted ({human_bytes(found.bytes)}); removed "
        f"{counted(found.litter, 'leftover file')}, {counted(found.links, 'dead link')} and "
        f"{counted(found.rows, 'row')} without a directory"
    )


@app.command()
def clear(yes: Yes = False, as_json: Json = False, root: Root = None) -> None:
    """Removes every kernel that no process uses, pinned ones too."""
    disk = _disk(root, changes=True)
    if not yes:
        _expect_consent(f"Remove all kernels in {printable(str(disk.root))}?")
    removed = maintenance.clear(disk.root, disk.index)
    output.as_json({"removed": removed}) if as_json else say(f"{counted(removed, 'entry', 'entries')} removed")


def _expect_consent(question: str) -> None:
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:  # stdin is closed, or the user pressed ctrl-C
        agreed = False
        say("", error=True)
    if not agreed:
        say("tilelang: nothing was removed; with --yes, it is not asked", error=True)
        raise typer.Exit(1)


@app.command()
def pin(
    key: Key,
    off: Annotated[bool, typer.Option("--off", help="Allow its eviction again.")] = False,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Protects a kernel from eviction."""
    catalog = _catalog(_disk(root, changes=True))
    row = catalog.resolve(key)
    catalog.pin(row["key"], not off)
    if as_json:
        output.as_json({"key": row["key"], "pinned": not off})
        return
    say(f"{row['name']} {row['key'][:12]} is {'free' if off else 'pinned'}")


@app.command("export")
def export_bundle(
    file: Annotated[Path, typer.Argument(help="The bundle to write, for example kernels.tar.gz.")],
    keys: Annotated[list[str] | None, typer.Argument(help="Keys or names; all kernels without any.")] = None,
    layer: Annotated[bool, typer.Option("--layer", help="Write a directory for TILELANG_CACHE_LAYERS instead.")] = False,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Writes kernels into one file that can be imported on another machine, or into a layer that every user may read."""
    disk = _disk(root)
    wanted = [_catalog(disk).resolve(key)["key"] for key in keys] if keys else list(store.keys(disk.root))
    try:
        count = (bake.write if layer else bundle.export)(disk.root, wanted, file, output.progress("exporting", as_json))
    except store.BadEntry as error:
        raise CacheError(f"nothing was exported: {error}", hint="`tilelang cache verify --repair`") from error
    except OSError as error:
        raise CacheError(f"{file} cannot be written: {error.strerror}") from error
    output.as_json({"exported": count, "file": str(file)}) if as_json else say(f"{counted(count, 'kernel')} in {file}")


@app.command("import")
def import_bundle(
    file: Annotated[Path, typer.Argument(help="A bundle that `export` wrote.")],
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Adds the kernels of a bundle, each verified. Kernels are programs: import from people you trust."""
    disk = _disk(root, changes=True, makes=True)
    found = bundle.load(disk.root, disk.index if disk.keeps_index else None, file, output.progress("importing", as_json))
    if as_json:
        output.as_json(vars(found))
    else:
        for name, problem in found.refused.items():
            say(f"refused {name}: {problem}")
        say(f"{len(found.added)} added, {len(found.present)} already there, {len(found.refused)} refused")
    if found.refused:
        raise typer.Exit(1)


@app.command("path")
def show_path(
    key: Annotated[str, typer.Argument(help="A kernel; without one, the cache's directory.")] = "",
    file: Annotated[str, typer.Argument(help="A file of the kernel, for example device_kernel.cu.")] = "",
    root: Root = None,
) -> None:
    """Prints where the cache, a kernel or one of its files is."""
    disk = _disk(root)
    path = disk.root if not key else store.entry_path(disk.root, _catalog(disk).resolve(key)["key"]) / file
    print(output.one_line(str(path)) if output.is_terminal() else path)
    if not path.exists():
        raise typer.Exit(1)


@app.command("report")
def write_report(
    file: Annotated[Path, typer.Argument(help="The page to write.")] = Path("cache-report.html"), root: Root = None
) -> None:
    """Writes one HTML page about the cache: entries, hit rates, time saved, sizes, what invalidated what."""
    disk = _disk(root)
    file.write_text(report.page(disk.root, _catalog(disk)), encoding="utf-8")
    say(str(file))


@app.command("precompile")
def precompile_list(
    file: Annotated[Path, typer.Argument(help="A JSON list of calls; see docs/cache.md.")],
    as_json: Json = False,
) -> None:
    """Compiles the kernels of a list, so that programs find them in the cache."""
    found = precompile.run(file, output.progress("compiling", as_json))
    if as_json:
        output.as_json([vars(call) for call in found])
    else:
        output.table(_CALLS, found)
    if any(call.error for call in found):
        raise typer.Exit(1)


_CALLS = (
    Column("function", lambda call: call.function),
    Column("arguments", lambda call: call.arguments, cut=True),
    Column("result", lambda call: call.error or f"{call.seconds:.2f}s"),
)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"tilelang: {message}", error=True)


def _reported(command: Any) -> Any:
    """Errors and warnings as one line each instead of a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return command(*args, **kwargs)
        except TileLangError as error:
            problem = str(error)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # the reader of the pipe has closed it
            problem = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        except (SQLAlchemyError, sqlite3.Error) as error:
            problem = f"the index cannot be used: {getattr(error, 'orig', None) or error}"
        say(f"tilelang: {problem}", error=True)
        raise typer.Exit(2)

    return run


for _command in app.registered_commands:
    _command.callback = _reported(_command.callback)
