"""The host as Python, for the ``nvrtc`` backend: ``<name>_call(runtime, arguments..., sizes..., stream)``.

It needs no compiler on the machine that runs the kernel. ``runtime`` is what :mod:`tilelang.execution.nvrtc` gives it.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from tilelang.artifact import Dim, dim_source
from tilelang.target.hosts.text import HostProgram, Names, launch_steps, tensor_maps


def python_source(program: HostProgram) -> str:
    """The text of ``kernel.py``."""
    names = Names([*keyword.kwlist, "runtime", "stream", "min", "max", "range", f"{program.name}_call"])
    parameters = [names.of(param) for param in program.params] + [names(name) for name in program.dynamic]
    lines = [
        f'"""Host of {program.name}: tensors come as addresses, sizes as integers; kernels are launched in order."""',
        "",
        "",
        f"def {program.name}_call({', '.join(['runtime', *parameters, 'stream'])}):",
    ]
    lines += [
        f"    if not {_size(assumption.condition, names)}: raise ValueError({assumption.located_message!r})"
        for assumption in program.assumptions
    ]
    indent = "    "
    for what, detail in launch_steps(program.launches):
        if what == "open":
            lines.append(f"{indent}{_opened(detail, names)}")
            indent += "    "
        elif what == "close":
            indent = indent[4:]
        else:
            lines += [f"{indent}{line}" for line in _launch(detail, program.launches[detail], names)]
    return "\n".join([*lines, ""]) if program.launches else "\n".join([*lines, "    return None", ""])


def _opened(step: tuple, names: Names) -> str:
    """The head of a loop or of a condition around launches."""
    if step[0] == "if":
        return f"if {_size(step[1], names)}:"
    return f"for {names(step[1])} in range({_size(step[2], names)}):"


def _launch(index: int, launch, names: Names) -> list[str]:
    maps = tensor_maps(launch)
    lines = [f"# {launch.symbol}"]
    for number, spec in maps.values():
        shape, strides = _tuple(spec.shape, names), _tuple(spec.strides, names)
        base = names.address(spec.tensor)
        lines.append(f"tl_map{number} = runtime.encode_tensor_map({index}, {number}, {base}, {shape}, {strides})")
    values = [
        f"tl_map{maps[name][0]}" if kind == "tensor_map" else names.address(name) if dtype == "handle" else names(name)
        for (kind, name), dtype in zip(launch.args, launch.arg_dtypes)
    ]
    arguments = "(" + "".join(value + ", " for value in values).rstrip(" ") + ")"
    lines.append(
        f"runtime.launch({index}, grid={_extents(launch.grid, names)}, block={_extents(launch.block, names)}, "
        f"cluster={launch.cluster!r}, shared_bytes={_size(launch.shared_bytes, names)}, args={arguments}, stream=stream)"
    )
    return lines


def _tuple(dims: tuple[Dim, ...], names: Names) -> str:
    return _listed(_size(dim, names) for dim in dims)


def _extents(dims: tuple[Dim, ...], names: Names) -> str:
    """As :func:`_tuple`; a negative size is an empty grid."""
    return _listed(str(dim) if isinstance(dim, int) else f"max({_size(dim, names)}, 0)" for dim in dims)


def _listed(values: Iterable[str]) -> str:
    return "(" + "".join(value + ", " for value in values).rstrip(" ") + ")"


def _size(dim: Dim, names: Names) -> str:
    return dim_source(_renamed(dim, names))


def _renamed(dim: Dim, names: Names) -> Dim:
    if isinstance(dim, tuple):
        return (dim[0], _renamed(dim[1], names), _renamed(dim[2], names))
    return names(dim) if isinstance(dim, str) else dim
