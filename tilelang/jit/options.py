"""How a kernel is to be compiled, with every default decided."""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tilelang import env
from tilelang.errors import OptionError
from tilelang.execution import resolve
from tilelang.ignored import ignored
from tilelang.jit.tools import Tools, tools_of
from tilelang.option import debug
from tilelang.records import Record
from tilelang.target.info import TargetInfo, check_target, parse_target

if TYPE_CHECKING:
    from tilelang.jit.includes import UserFiles

_DEVICE_FLAGS = "tl.device_compile_flags"
_DUMP_IR = ("tl.dump_ir", "tl.enable_dump_ir")


class CompileOptions(Record):
    """Resolved options of one compilation.

    Attributes:
        target: for what.
        backend: the execution backend.
        out_idx: as the user gave it; None leaves it to the program.
        pass_configs: pass configuration name -> value.
        compile_flags: for the toolchain, in order.
        verbose: print what is done.
        dump_ir: keep the IR after each pass in the entry.
        space: 0 for the program's own schedule, 1 and 2 for one that a search found; shown by the index.
    """

    target: TargetInfo
    backend: str
    out_idx: tuple[int, ...] | None = None
    pass_configs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    compile_flags: tuple[str, ...] = ()
    verbose: bool = False
    dump_ir: bool = False
    space: int = 0

    def plain(self) -> tuple[Any, ...]:
        """Everything that decides the code, as plain values: part of a source key."""
        tools = self.tools()
        return (
            self.target.text,
            self.backend,
            self.out_idx,
            tuple(sorted(self.pass_configs.items())),
            self.compile_flags,
            self.dump_ir,
            self.space,
            tuple(sorted(tools.versions().items())),
            tuple(sorted(self._files_of_flags(tools).items())),
        )

    def tools(self) -> Tools:
        """The programs that the compilation runs, as they are now."""
        return tools_of(self.target.kind, self.backend)

    def files(self, text: str, tools: Tools) -> UserFiles:
        """The user's files that the toolchain reads.

        Args:
            text: what the program adds to the generated code.
            tools: the programs that the compilation runs.
        """
        from tilelang.jit.includes import UserFiles, user_files  # a process that finds its kernels without flags needs neither
        from tilelang.jit.shadows import watched_names

        kind = self.target.kind
        added = tools.added_flags()
        if kind not in env.TOOLS and not added:
            return UserFiles(problem=tools.problem())
        found = user_files(text, (*self._flags(), *added), env.of_tools(kind), functools.partial(watched_names, kind))
        found.problem = tools.problem() or found.problem
        return found

    def _flags(self) -> tuple[str, ...]:
        extra = self.pass_configs.get(_DEVICE_FLAGS, ())
        variables = env.of_tools(self.target.kind)
        of_variables = (word for name in env.FLAG_VARIABLES for word in variables.get(name, "").split())
        return (*self.compile_flags, *(extra.split() if isinstance(extra, str) else extra or ()), *of_variables)

    def _files_of_flags(self, tools: Tools) -> Mapping[str, str]:
        """The files that the toolchain reads whatever the program is, with the digests of their contents."""
        if not self._flags() and not env.of_tools(self.target.kind) and not tools.added_flags():
            return {}
        return self.files("", tools).digests


def resolve_options(
    out_idx: int | Sequence[int] | None = None,
    target: Any = None,
    target_host: Any = None,
    execution_backend: str | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    verbose: bool | None = None,
) -> CompileOptions:
    """Options as users write them, resolved.

    Args:
        out_idx, target, execution_backend, pass_configs, compile_flags: as for :func:`tilelang.compile`.
        target_host: has no effect, as the host is the machine that compiles; a value warns.
        verbose: by default ``TILELANG_VERBOSE``.

    Returns:
        The options, with a concrete target and backend.

    Raises:
        UnknownTargetError: no such target or backend.
        UnsupportedBackendError: the backend does not run that target's kernels.
        CompileError: an unknown pass configuration.
    """
    ignored("compile", target_host=target_host)
    env.warn_unknown()
    if env.get("TILELANG_INTERPRET"):
        check_target(target)
        target, execution_backend = "interpret", "auto"
    info = parse_target(target if target is not None else env.get("TILELANG_DEFAULT_TARGET"))
    named = execution_backend or (env.get("TILELANG_EXECUTION_BACKEND") if info.kind != "interpret" else None)
    backend = resolve(named, info.kind)
    if out_idx is not None:
        out_idx = _positions(out_idx)
    flags = shlex.split(compile_flags) if isinstance(compile_flags, str) else list(compile_flags or ())
    flags = [part for flag in flags for part in shlex.split(flag)]
    verbose = env.get("TILELANG_VERBOSE") if verbose is None else verbose
    configs = _config_names(pass_configs or {})
    asked = [configs.pop(name, False) for name in _DUMP_IR]
    dump_ir = any(asked) or debug.dump_ir()
    return CompileOptions(info, backend, out_idx, configs, tuple(flags), bool(verbose), dump_ir)


def _positions(out_idx: int | Sequence[int]) -> tuple[int, ...]:
    given: tuple[Any, ...] = tuple(out_idx) if isinstance(out_idx, Sequence) else (out_idx,)
    if not all(isinstance(index, int) and not isinstance(index, bool) for index in given):
        raise OptionError(
            f"out_idx takes positions of parameters, got {out_idx!r}",
            hint="0 is the first parameter, -1 the last; several as a list",
        )
    return given


_SWITCHES = ("tl.disable_", "tl.enable_", "tir.disable_", "tir.enable_")
"""How the names of pass configurations begin that are on or off."""


def _config_names(configs: Mapping[Any, Any]) -> dict[str, Any]:
    """Pass configurations by name, from names or ``PassConfigKey`` members."""
    if not configs:
        return {}
    from tilelang.transform.config import known_names

    given: Any = configs  # by an author without a type checker
    if not isinstance(given, Mapping):
        hint = 'pass_configs={"tl.disable_tma_lower": True}'
        raise OptionError(f"pass_configs is a dict of names and values, got {type(given).__name__}", hint=hint)
    named = {str(getattr(key, "value", key)): value for key, value in configs.items()}
    unknown = [name for name in named if name not in known_names()]
    if unknown:
        import difflib

        longer = [name for name in known_names() if name.startswith(unknown[0])]
        near = longer or difflib.get_close_matches(unknown[0], list(known_names()), n=1)
        raise OptionError(f"unknown pass configuration {unknown[0]!r}", hint=f"did you mean {near[0]!r}?" if near else None)
    for name, value in named.items():
        if name.startswith(_SWITCHES) and not isinstance(value, (bool, int, type(None))):
            raise OptionError(f"pass configuration {name} is a switch, got {value!r}", hint="True or False")
    return named


def annotated_options(func: Any, options: CompileOptions) -> CompileOptions:
    """The options combined with the program's own (``T.annotate_pass_configs``, ``T.annotate_compile_flags``)."""
    attrs: Mapping[str, Any] = func.attrs or {}
    configs = _config_names(json.loads(attrs["tl.pass_configs"])) if "tl.pass_configs" in attrs else {}
    flags = tuple(json.loads(attrs["tl.compile_flags"])) if "tl.compile_flags" in attrs else ()
    if not configs and not flags:
        return options
    asked = [configs.pop(name, False) for name in _DUMP_IR]
    return dataclasses.replace(
        options,
        pass_configs={**configs, **options.pass_configs},
        compile_flags=(*options.compile_flags, *(part for flag in flags for part in shlex.split(flag))),
        dump_ir=any(asked) or options.dump_ir,
    )


def output_positions(options: CompileOptions, parameters: int) -> tuple[int, ...]:
    """The positions that ``out_idx`` names, in its order.

    Args:
        options: with the user's ``out_idx``, negative counting from the end.
        parameters: how many parameters the program declares.

    Raises:
        OptionError: out of range, or given twice.
    """
    positions: list[int] = []
    for index in options.out_idx or ():
        if not -parameters <= index < parameters:
            raise OptionError(f"out_idx={index!r} is out of range for {parameters} parameters")
        positions.append(index % parameters)
    if len(set(positions)) != len(positions):
        raise OptionError(f"out_idx={list(options.out_idx or ())} names a parameter twice")
    return tuple(positions)
