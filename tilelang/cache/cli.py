"""``tilelang cache …``: look at a cache, explain it, and keep it in order."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tilelang import env
from tilelang.cache import bake, bundle, location, maintenance, precompile, report, store
from tilelang.cache.catalog import SORT_ORDERS, Catalog, Filter
from tilelang.cache.disk import DiskCache
from tilelang.cache.files import DESCRIPTIONS
from tilelang.errors import TileLangError

app = typer.Typer(help="The kernel cache.", no_args_is_help=True)
_out = Console()
_errors = Console(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Root = Annotated[Path | None, typer.Option("--root", help="The cache's directory, instead of the one in force.")]
Key = Annotated[str, typer.Argument(help="A kernel key, the beginning of one, or a kernel's name.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_AGE_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _disk(root: Path | None) -> DiskCache:
    return DiskCache(location.current() if root is None else location.prepare(root.absolute()))


def _catalog(root: Path | None) -> Catalog:
    return Catalog(_disk(root).index)


def _progress(title: str, as_json: bool) -> Any:
    """A progress bar on the terminal, silent under ``--json`` and where the output is not a terminal."""

    def show(items: Iterable) -> Iterator:
        return track(items, title, console=_errors, transient=True, disable=as_json or not _errors.is_terminal)

    return show


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def _table(title: str, columns: str, rows: Iterable[Iterable[Any]]) -> None:
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name in columns.split():
        table.add_column(name.strip("+").replace("_", " "), justify="right" if name.startswith("+") else "left")
    for row in rows:
        table.add_row(*map(str, row))
    _out.print(table)


def human_bytes(count: float) -> str:
    """``1536`` as ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def target_name(row: Mapping[str, Any]) -> str:
    """A kernel's kind of target and architecture: ``c x86-64-v4`` and ``cpu x86-64-v4`` are different programs."""
    try:
        return f"{json.loads(row['target'])['kind']} {row['arch']}".rstrip()
    except (ValueError, TypeError, KeyError):
        return row["target"][:24]


def human_age(then: float) -> str:
    """Time since ``then`` (seconds since 1970) in its largest unit."""
    seconds = max(0.0, time.time() - then)
    for unit, size in reversed(_AGE_UNITS.items()):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return "now"


def parse_age(text: str | None) -> float | None:
    """``90m``, ``2d``: the moment that long ago."""
    if text is None:
        return None
    try:
        return time.time() - float(text[:-1]) * _AGE_UNITS[text[-1:]]
    except (KeyError, ValueError):
        raise typer.BadParameter(f"{text!r} is not an age; write for example 90m, 12h, 2d") from None


def parse_size(text: str | None) -> int | None:
    """``10M``, ``2GiB``: a number of bytes."""
    try:
        return None if text is None else env.byte_size(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a size; write for example 500K, 10M, 2G") from None


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
        raise typer.BadParameter(f"sort by one of {', '.join(SORT_ORDERS)}")
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
    rows = _catalog(root).kernels(which, sort, limit)
    if as_json:
        _print_json([{**row, "inputs": json.loads(row["inputs"])} for row in rows])
        return
    shown = (
        (
            row["key"][:12],
            row["name"],
            target_name(row),
            row["backend"],
            human_bytes(row["bytes"]),
            human_age(row["created"]),
            row["hits"],
            f"{row['compile_seconds']:.2f}s",
            "pinned" if row["pinned"] else "",
        )
        for row in rows
    )
    _table("", "key name target backend +size +age +hits +compiled_in pin", shown)
    _out.print(f"{len(rows)} kernels, {human_bytes(sum(row['bytes'] for row in rows))}", style="dim")


@app.command()
def show(key: Key, as_json: Json = False, root: Root = None) -> None:
    """Shows one kernel, and where every file of it is."""
    disk = _disk(root)
    catalog = Catalog(disk.index)
    row = catalog.resolve(key)
    path = store.entry_path(disk.root, row["key"])
    files = [{**file, "path": str(path / file["name"])} for file in catalog.files(row["key"])]
    details = {**row, "inputs": json.loads(row["inputs"]), "path": str(path), "functions": catalog.functions(row["key"])}
    if as_json:
        _print_json({**details, "files": files})
        return
    for name in "key name target backend space path created hits compile_seconds reason functions".split():
        value = details[name]
        text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value)) if name == "created" else value
        _out.print(f"{name:16}", text if not isinstance(text, list) else ", ".join(text), soft_wrap=True, highlight=False)
    for file in files:
        meaning = DESCRIPTIONS.get(file["name"].partition("/")[0], "")
        _out.print(f"  {file['path']}", human_bytes(file["bytes"]), meaning, soft_wrap=True, highlight=False)


@app.command()
def why(key: Key, as_json: Json = False, root: Root = None) -> None:
    """Says which input of a kernel's key differs from the nearest other kernel of its name."""
    found = _catalog(root).why(key)
    if as_json:
        _print_json(found)
        return
    _out.print(f"{found['name']} {found['key'][:12]}: {found['reason']}", soft_wrap=True)
    if found["nearest"] is None:
        _out.print("There is no other kernel of this name.")
        return
    _out.print(f"Compared with {found['nearest'][:12]}:")
    rows = ((row["name"], _short(row["here"]), _short(row["there"])) for row in found["differences"])
    _table("", "input here there", rows)


def _short(text: str | None, width: int = 60) -> str:
    return "(absent)" if text is None else text if len(text) <= width else text[: width - 1] + "…"


@app.command()
def stats(as_json: Json = False, root: Root = None) -> None:
    """Shows hit rates, sizes and the time saved."""
    found = _catalog(root).statistics()
    if as_json:
        _print_json(found)
        return
    cap = env.get("TILELANG_CACHE_MAX_SIZE")
    _out.print(f"entries        {found['entries']} ({found['sources']} source keys)")
    _out.print(f"size           {human_bytes(found['bytes'])} of {human_bytes(cap) if cap else 'any size'}")
    _out.print(f"hits           {found['hits']} ({100 * found['hit_rate']:.0f}% of requests that reached the disk)")
    _out.print(f"compile time   {found['compile_seconds']:.1f}s spent, {found['saved_seconds']:.1f}s saved")
    rows = (
        (row["name"], row["entries"], human_bytes(row["bytes"]), row["hits"], f"{row['saved_seconds']:.1f}s")
        for row in sorted(found["by_name"], key=lambda row: -row["saved_seconds"])
    )
    _table("", "name +entries +size +hits +saved", rows)


@app.command()
def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Move bad entries aside and mend the index.")] = False,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Reads every file of every entry. Ends with 1 if something is wrong and was not repaired."""
    disk = _disk(root)
    found = maintenance.verify(disk.root, disk.index, repair, _progress("verifying", as_json))
    if as_json:
        _print_json(vars(found))
    else:
        for key, problem in found.bad.items():
            _out.print(f"bad   {key[:12]} {problem}", soft_wrap=True)
        _out.print(
            f"{found.good} good, {len(found.bad)} bad, {len(found.missing_rows)} without a row, "
            f"{len(found.missing_directories)} without a directory" + (" (repaired)" if repair else "")
        )
    if not repair and (found.bad or found.missing_rows or found.missing_directories):
        raise typer.Exit(1)


@app.command()
def gc(
    max_size: Annotated[str | None, typer.Option(help="Evict down to this size; default: the cap in force.")] = None,
    grace: Annotated[float, typer.Option(help="Spare entries used within these seconds.")] = 60.0,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Removes what is over the size cap, leftovers of killed processes, and links that lead nowhere."""
    cap = env.get("TILELANG_CACHE_MAX_SIZE") if max_size is None else parse_size(max_size)
    disk = _disk(root)
    found = maintenance.collect(disk.root, disk.index, cap, grace)
    if as_json:
        _print_json({name: getattr(found, name) for name in found.__slots__})
        return
    _out.print(
        f"{found.evicted} entries evicted ({human_bytes(found.bytes)}), {found.litter} leftovers, "
        f"{found.links} dead links and {found.rows} rows without a directory removed"
    )


@app.command()
def clear(yes: Yes = False, as_json: Json = False, root: Root = None) -> None:
    """Removes every kernel that no process uses, pinned ones too."""
    disk = _disk(root)
    if not yes and not as_json:
        typer.confirm(f"Remove all kernels in {disk.root}?", abort=True)
    removed = maintenance.clear(disk.root, disk.index)
    _print_json({"removed": removed}) if as_json else _out.print(f"{removed} entries removed")


@app.command()
def pin(
    key: Key,
    off: Annotated[bool, typer.Option("--off", help="Give the kernel free again.")] = False,
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Protects a kernel from eviction."""
    catalog = _catalog(root)
    row = catalog.resolve(key)
    catalog.pin(row["key"], not off)
    if as_json:
        _print_json({"key": row["key"], "pinned": not off})
        return
    _out.print(f"{row['name']} {row['key'][:12]} is {'free' if off else 'pinned'}")


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
    catalog = Catalog(disk.index)
    wanted = [catalog.resolve(key)["key"] for key in keys] if keys else list(store.keys(disk.root))
    try:
        count = (bake.write if layer else bundle.export)(disk.root, wanted, file, _progress("exporting", as_json))
    except (store.BadEntry, OSError) as error:
        raise TileLangError(f"nothing was exported: {error}", hint="`tilelang cache verify --repair`") from error
    _print_json({"exported": count, "file": str(file)}) if as_json else _out.print(f"{count} kernels in {file}")


@app.command("import")
def import_bundle(
    file: Annotated[Path, typer.Argument(help="A bundle that `export` wrote.", exists=True, dir_okay=False)],
    as_json: Json = False,
    root: Root = None,
) -> None:
    """Adds the kernels of a bundle, each verified. Kernels are programs: import from people you trust."""
    disk = _disk(root)
    found = bundle.load(disk.root, disk.index if disk.keeps_index else None, file, _progress("importing", as_json))
    if as_json:
        _print_json(vars(found))
    else:
        for name, problem in found.refused.items():
            _out.print(f"refused {name}: {problem}", soft_wrap=True)
        _out.print(f"{len(found.added)} added, {len(found.present)} already there, {len(found.refused)} refused")
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
    path = disk.root if not key else store.entry_path(disk.root, Catalog(disk.index).resolve(key)["key"]) / file
    print(path)
    if not path.exists():
        raise typer.Exit(1)


@app.command("report")
def write_report(
    file: Annotated[Path, typer.Argument(help="The page to write.")] = Path("cache-report.html"), root: Root = None
) -> None:
    """Writes one HTML page about the cache: entries, hit rates, time saved, sizes, what invalidated what."""
    disk = _disk(root)
    file.write_text(report.page(disk.root, Catalog(disk.index)), encoding="utf-8")
    _out.print(str(file), soft_wrap=True)


@app.command("precompile")
def precompile_list(
    file: Annotated[Path, typer.Argument(help="A JSON list of calls; see docs/cache.md.", exists=True, dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Compiles the kernels of a list, so that programs find them in the cache."""
    found = precompile.run(file, _progress("compiling", as_json))
    if as_json:
        _print_json([vars(call) for call in found])
    else:
        rows = ((call.function, call.arguments, call.error or f"{call.seconds:.2f}s") for call in found)
        _table("", "function arguments result", rows)
    if any(call.error for call in found):
        raise typer.Exit(1)


def _reported(command: Any) -> Any:
    """Errors of ours as one message instead of a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except TileLangError as error:
            _errors.print(f"tilelang: {error}", soft_wrap=True, highlight=False, markup=False)
            raise typer.Exit(2) from None

    return run


for _command in app.registered_commands:
    _command.callback = _reported(_command.callback)
