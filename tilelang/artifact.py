"""The compiler's output as plain, picklable data.

A :class:`KernelArtifact` is produced by a target, stored by the cache and loaded by an execution backend. It holds
bytes, strings and numbers only, so that the cache never needs TVM or torch to read one, and a process can run a kernel
from disk without importing the compiler.

Sizes that depend on the arguments of a call are :data:`Dim` expressions over *dynamic variables*; a dynamic variable is
bound from the shape or stride of a tensor argument, or from an integer argument, at call time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from tilelang.records import Record

ORIGINS_FILE = "origins.json"
"""Which line of the program each line of ``device_kernel.cu`` comes from, and what lies in shared memory and in registers."""

Dim: TypeAlias = "int | str | tuple[str, Dim, Dim]"
"""A size: an integer, the name of a dynamic variable, or ``(operator, operand, operand)`` with an operator of
:data:`DIM_OPERATORS`; for example ``("ceildiv", "m", 128)``."""

DIM_OPERATORS: Mapping[str, tuple[str, Callable[[int, int], int]]] = {
    # name -> (Python expression over {a} and {b}, function)
    "add": ("({a} + {b})", operator.add),
    "sub": ("({a} - {b})", operator.sub),
    "mul": ("({a} * {b})", operator.mul),
    "floordiv": ("({a} // {b})", operator.floordiv),
    "floormod": ("({a} % {b})", operator.mod),
    "ceildiv": ("(-(-{a} // {b}))", lambda a, b: -(-a // b)),
    "min": ("min({a}, {b})", min),
    "max": ("max({a}, {b})", max),
    # 1 where it holds, else 0; with min, max and eq to 0 for and, or and not
    "lt": ("({a} < {b})", operator.lt),
    "le": ("({a} <= {b})", operator.le),
    "eq": ("({a} == {b})", operator.eq),
    "ne": ("({a} != {b})", operator.ne),
}


def dim_source(dim: Dim) -> str:
    """Python source that computes ``dim`` from local variables named like its dynamic variables.

    Only integers, identifiers and the operators of :data:`DIM_OPERATORS` can come out, so the text of an artifact that
    was read from disk is safe to compile.

    Raises:
        ValueError: ``dim`` is not a well-formed :data:`Dim`.
    """
    if isinstance(dim, int) and not isinstance(dim, bool):
        return str(dim)
    if isinstance(dim, str) and dim.isidentifier():
        return dim
    if isinstance(dim, tuple) and len(dim) == 3 and dim[0] in DIM_OPERATORS:
        return DIM_OPERATORS[dim[0]][0].format(a=dim_source(dim[1]), b=dim_source(dim[2]))
    raise ValueError(f"not a dimension: {dim!r}")


def dim_names(dims: Iterable[Dim]) -> Iterator[str]:
    """The dynamic variables in ``dims``, in order, as often as they occur."""
    for dim in dims:
        if isinstance(dim, str):
            yield dim
        elif isinstance(dim, tuple):
            yield from dim_names(dim[1:])


def evaluate_dim(dim: Dim, variables: Mapping[str, int]) -> int:
    """The value of ``dim`` where ``variables`` gives every dynamic variable."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return variables[dim]
    name, left, right = dim
    return DIM_OPERATORS[name][1](evaluate_dim(left, variables), evaluate_dim(right, variables))


class KernelParam(Record):
    """One parameter of a kernel.

    Attributes:
        name: the parameter's name in the user's program.
        kind: ``"tensor"``, ``"scalar"`` or ``"pointer"`` (a raw device address, passed as an integer or a tensor).
        dtype: canonical dtype name, for example ``"float16"`` or ``"float8_e4m3fn"``; of a pointer, the pointee's.
        shape: one :data:`Dim` per axis; empty for scalars and pointers. A bare variable name in a shape binds that
            variable where it first occurs and is checked where it occurs again.
        strides: element strides, or None where the tensor must be compact and row-major.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[Dim, ...] = ()
    strides: tuple[Dim, ...] | None = None

    def is_scalar(self) -> bool:
        """Whether it has no axes."""
        return not self.shape

    def is_unsigned(self) -> bool:
        """Whether its elements are unsigned integers."""
        return self.dtype.startswith("uint")

    def is_float8(self) -> bool:
        """Whether its elements are floats of 8 bits."""
        return self.dtype.startswith("float8")

    def is_float4(self) -> bool:
        """Whether its elements are floats of 4 bits."""
        return self.dtype.startswith("float4")

    def is_boolean(self) -> bool:
        """Whether its elements are bools."""
        return self.dtype.startswith("bool")

    def torch_dtype(self) -> Any:
        """Its element type as a ``torch.dtype``."""
        from tilelang.dtypes import to_torch

        return to_torch(self.dtype)

    def tilelang_dtype(self) -> Any:
        """Its element type as a dtype of the language."""
        from tilelang.dtypes import canonical

        return canonical(self.dtype)


class TensorMapSpec(Record):
    """A TMA descriptor that the host encodes before a launch (``cuTensorMapEncodeTiled``).

    Attributes:
        name: the kernel parameter that takes the 128-byte descriptor.
        tensor: the tensor parameter whose base address it describes.
        dtype: element type name.
        shape: global extents, innermost axis first.
        strides: byte strides of the axes after the innermost one.
        box: extents of the box in shared memory, innermost axis first.
        element_strides: traversal strides, innermost first.
        swizzle: 0, 32, 64 or 128 bytes.
        interleave, l2_promotion, oob_fill: as in the driver API, by name (``"none"``, ``"256B"``, ``"zeros"`` …).
    """

    name: str
    tensor: str
    dtype: str
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int = 0
    interleave: str = "none"
    l2_promotion: str = "128B"
    oob_fill: str = "zeros"


class KernelLaunch(Record):
    """One device kernel of a program, in launch order.

    Attributes:
        symbol: the ``extern "C"`` name in the device module.
        args: what is passed, in order, as ``(kind, name)``: ``("tensor", A)`` its data pointer, ``("scalar", x)`` a scalar
            parameter, ``("dim", m)`` a dynamic variable, ``("tensor_map", d)`` a descriptor of :attr:`tensor_maps`.
        arg_dtypes: dtype name of each argument (``"handle"`` for pointers and descriptors).
        grid, block, cluster: extents (x, y, z).
        shared_bytes: dynamic shared memory.
        cooperative: launch so that all blocks are co-resident (grid synchronisation).
        dependent_launch: programmatic dependent launch.
        within: control flow of the host around the launch, outermost first: ``("loop", i, n)`` runs it for ``i`` from 0 to
            ``n - 1``, ``("if", c)`` where the size ``c`` is not 0. Neighbours share the steps in which they agree.
    """

    symbol: str
    args: tuple[tuple[str, str], ...]
    arg_dtypes: tuple[str, ...]
    grid: tuple[Dim, Dim, Dim]
    block: tuple[Dim, Dim, Dim]
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: Dim = 0
    tensor_maps: tuple[TensorMapSpec, ...] = ()
    cooperative: bool = False
    dependent_launch: bool = False
    within: tuple[tuple, ...] = ()


class KernelArtifact(Record):
    """Everything one compilation produced.

    Attributes:
        name: the program's name; also the symbol of its entry point.
        target: canonical JSON text of the target.
        backend: the execution backend that it was built for.
        params: parameters in the order of the user's signature.
        out_idx: positions of the parameters that a call allocates and returns, ascending, non-negative.
        files: file name in the cache entry -> content (``device_kernel.cu``, ``host_kernel.cu``, ``kernel_lib.so``,
            ``executable.so``, ``kernel.cubin``, ``kernel.ptx``, ``kernel.py``, ``program.txt``, ``options.txt``,
            ``compile.sh``, ``compile_log.txt``, ``origins.json``, ``ir/<nn>_<pass>.txt``).
        launches: device kernels in launch order (empty on the CPU).
        metadata: strings, numbers, and tuples, lists or dicts of them: toolchain versions, seconds per stage, resource usage.
    """

    name: str
    target: str
    backend: str
    params: tuple[KernelParam, ...]
    out_idx: tuple[int, ...]
    files: Mapping[str, bytes] = field(repr=False)
    launches: tuple[KernelLaunch, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kernel_source(self) -> str:
        """The generated device code; on a CPU, the code of the kernel itself."""
        return self._text("device_kernel.cu", "device_kernel.c", "device_kernel.ll", "host_kernel.cu", "program.txt")

    @property
    def device_mod(self) -> str:
        """The device code, by the name of programs that print it."""
        return self.kernel_source

    @property
    def host_mod(self) -> str:
        """The host code, by the name of programs that print it."""
        return self.host_source

    @property
    def host_source(self) -> str:
        """The generated host code."""
        return self._text("host_kernel.cu", "kernel.py")

    @property
    def ptx(self) -> str:
        """The PTX of the device code; empty on a CPU."""
        return self._text("kernel.ptx")

    def _text(self, *names: str) -> str:
        found = next((self.files[name] for name in names if name in self.files), b"")
        return found.decode("utf-8", errors="replace")
