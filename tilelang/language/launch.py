"""Kernels that open an axis at a time, as in TVM's scripts: ``tx = T.env_thread("threadIdx.x")``, ``T.launch_thread(tx, 128)``.

``for bx in T.thread_binding(3, thread="blockIdx.x"):`` is the same as a loop. Inside ``with T.Kernel(...)`` all name an axis of
that kernel. Outside they open one, which goes on to the end of the program, or of the ``with`` or ``for`` that opened it; axes
that are not launched have one block or thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import DtypeError, Location, MisplacedError, OperandError, OptionError
from tilelang.frontend.builder import Builder, current, kernel_info
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.expr import same
from tilelang.ir.span import user_location
from tilelang.ir.text import expr_text
from tilelang.language.kernel import KernelFrame, axis_of, block_counts, thread_counts

_TAGS = [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"]
"""The axes of a kernel."""


class LaunchedKernel(KernelFrame):
    """A kernel of one block of one thread whose axes get their extents one by one.

    Attributes:
        extents: of the axes that are launched.
        asked: the axes of ``T.env_thread``, and where it stands.
        opener: what the first ``T.launch_thread`` or ``T.thread_binding`` returned; the kernel ends with its ``with`` or ``for``.
    """

    def __init__(self, builder: Builder):
        if builder.frames[-1].kind != "function":
            raise MisplacedError("a thread's axis opens a kernel inside of another statement", hint="with T.Kernel(...) as bx:")
        super().__init__((1, 1, 1), (1, 1, 1), None)
        self.of = builder
        self.extents: dict[str, Any] = {}
        self.asked: dict[str, Location | None] = {}
        self.opener: Any = None
        # Entered without a `with`: the axes of a script come one by one, and the first of them opens the kernel.
        self.__enter__()
        builder.launched = self

    def variable(self, tag: str) -> Any:
        """The index along an axis."""
        return self.axes[_TAGS.index(tag)].var

    def launch(self, tag: str, extent: Any) -> Any:
        """Gives an axis its extent, and the index along it."""
        known = self.extents.setdefault(tag, extent)
        if not same(as_expr(known), as_expr(extent)):
            raise OptionError(f"T.launch_thread: {tag} has {expr_text(as_expr(known))} values already")
        self._resize([self.extents.get(each, 1) for each in _TAGS])
        return self.variable(tag)

    def _resize(self, sizes: list[Any]) -> None:
        builder, info = self.of, kernel_info("T.launch_thread")
        self.blocks, self.threads = block_counts(sizes[:3]), thread_counts(sizes[3:])
        sizes = [*self.blocks, *self.threads]
        # The variables stay: statements that name an index may stand before the axis gets its extent.
        self.axes = [axis_of(builder, axis.var, tag, size) for axis, tag, size in zip(self.axes, _TAGS, sizes)]
        builder.kernel = replace(info, block_extents=self.blocks, thread_extents=self.threads)

    def close(self) -> None:
        """Ends the kernel.

        Raises:
            MisplacedError: an axis of ``T.env_thread`` was not launched.
        """
        for tag, location in self.asked.items():
            if tag not in self.extents:
                raise MisplacedError(f'T.env_thread("{tag}") is not launched', location, f'T.launch_thread("{tag}", extent)')
        self.__exit__(None, None, None)
        self.of.launched = None


def env_thread(thread_tag: str, dtype: str = "int32") -> Any:
    """The thread's or block's index along an axis, whose extent ``T.launch_thread`` gives.

    Args:
        thread_tag: ``"threadIdx.x"``, ``"threadIdx.y"``, ``"threadIdx.z"``, or the same of ``blockIdx``.
        dtype: accepted for compatibility; indices are int32.

    Raises:
        DtypeError: another tag.
    """
    builder = current("T.env_thread")
    tag = _tag(thread_tag, "T.env_thread")
    if str(dtype) != "int32":
        raise DtypeError(f"T.env_thread({tag!r}, {dtype!r}): indices of threads are int32")
    if builder.kernel is not None and builder.launched is None:
        return _index(tag)
    launched = builder.launched or LaunchedKernel(builder)
    launched.asked.setdefault(tag, user_location())
    return launched.variable(tag)


def launch_thread(thread: Any, extent: Any) -> Any:
    """The thread's (or block's) index along an axis of ``extent`` values, or ``with T.launch_thread("threadIdx.x", 128) as tx``.

    Args:
        thread: a tag like ``"threadIdx.x"``, or what ``T.env_thread`` gave.
        extent: how many values; of threads a compile-time integer.

    Returns:
        An int32 expression.

    Raises:
        CompileError: the axis has another extent already, or the kernel of that ``T.env_thread`` has ended.
    """
    builder = current("T.launch_thread")
    tag = _tag(thread, "T.launch_thread") if isinstance(thread, str) else _tag_of(builder, thread)
    return _returned(builder, _launched(builder, tag, extent, "T.launch_thread"))


def thread_binding(start: Any, stop: Any = None, thread: str = "threadIdx.x", *, annotations: Any = None) -> Any:
    """``start`` plus the index of the thread (or block), as a value or in ``for tx in T.thread_binding(0, 128, "threadIdx.x")``.

    Args:
        start, stop: bounds as in ``range``; their difference is the number of threads (or blocks) along the axis. A text is
            the ``thread`` after one bound: ``T.thread_binding(128, "threadIdx.x")``.
        thread: ``"threadIdx.x"``, ``"threadIdx.y"``, ``"threadIdx.z"``, or the same of ``blockIdx``.
        annotations: has no effect; a value warns.

    Returns:
        An int32 expression.

    Raises:
        CompileError: the range is not as long as the kernel has threads (or blocks) along that axis.
    """
    ignored("T.thread_binding", annotations=annotations)
    if isinstance(stop, str):
        stop, thread = None, stop
    low, high = (0, start) if stop is None else (start, stop)
    builder, tag = current("T.thread_binding"), _tag(thread, "T.thread_binding")
    return _returned(builder, low + _launched(builder, tag, high - low, "T.thread_binding"))


def _launched(builder: Builder, tag: str, extent: Any, what: str) -> Any:
    """The index along an axis: of the kernel of ``with T.Kernel(...)``, which has this extent, or of one that it opens.

    Args:
        builder: of the program.
        tag: the axis.
        extent: how many blocks or threads.
        what: the function that was called, for messages.

    Raises:
        OptionError: the kernel has another extent along that axis.
    """
    if builder.kernel is None or builder.launched is not None:
        return (builder.launched or LaunchedKernel(builder)).launch(tag, extent)
    extents = {**dict(zip(_TAGS[3:], builder.kernel.thread_extents)), **dict(zip(_TAGS, builder.kernel.block_extents))}
    index = _index(tag)
    if not same(as_expr(extent), as_expr(extents[tag])):
        raise OptionError(f"{what}: {tag} has {expr_text(as_expr(extents[tag]))} values in this kernel")
    return index


def _returned(builder: Builder, index: Any) -> Any:
    """An index, noted for the ``with`` or ``for`` that it may be the head of."""
    builder.axis = index
    if builder.launched is not None and builder.launched.opener is None:
        builder.launched.opener = index
    return index


def _tag(tag: str, what: str) -> str:
    if tag not in _TAGS:
        raise OptionError(f"{what}({tag!r}): expected one of {', '.join(_TAGS)}")
    return tag


def _index(tag: str) -> Any:
    """The index along an axis of the open kernel."""
    kind, axis = tag.split(".")
    info = kernel_info("T.env_thread")
    indices = info.threads if kind == "threadIdx" else info.blocks
    if "xyz".index(axis) >= len(indices):
        raise OptionError(f"T.env_thread: the kernel has no {tag!r}")
    return indices["xyz".index(axis)]


def _tag_of(builder: Builder, index: Any) -> str:
    """The axis of an index that ``T.env_thread`` gave."""
    info = builder.kernel
    named = {} if info is None else dict(zip(_TAGS[3:], info.threads)) | dict(zip(_TAGS, info.blocks))
    for tag, variable in named.items():
        if isinstance(index, ir.Var) and index.same_as(variable):
            return tag
    hint = 'tx = T.env_thread("threadIdx.x")'
    raise OperandError("T.launch_thread takes a tag, or what T.env_thread gave in this kernel", hint=hint)
