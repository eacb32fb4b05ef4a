"""The C header of an exported library: how its entries are called."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator

from tilelang.artifact import Dim, KernelArtifact, KernelParam
from tilelang.execution.arguments import dim_text
from tilelang.execution.entry import entry_kinds, entry_name
from tilelang.execution.native import is_device_artifact
from tilelang.identifiers import is_taken, usable
from tilelang.storage import storage_dtypes, storage_shape, storage_strides

_TYPES = {"pointer": "void*", "integer": "int64_t", "float": "double"}

_TEXT = """\
/* {name}: a kernel made by tilelang, for {target}.
 *
{arguments}
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif
{entries}
#ifdef __cplusplus
}}
#endif
"""

_PLAIN = """
/* Runs the kernel{where}: 0, or another number where it failed.
   Of the arguments nothing is checked but what the program assumes (T.assume). */
int32_t {entry}({parameters});

/* Why the last call in this thread failed. */
const char* tilelang_last_error(void);
"""

_PACKED = """
/* The same for tvm-ffi (TVMFFISafeCallType), as which libtvm_ffi loads it by the name "{name}"; it checks the tensors. */
int __tvm_ffi_{name}(void* self, const void* arguments, int32_t count, void* result);
"""


def header_text(artifact: KernelArtifact, plain: bool, packed: bool) -> str:
    """The text of the header.

    Args:
        artifact: the kernel.
        plain: whether the library has the plain entry.
        packed: whether it has tvm-ffi's.

    Returns:
        C11 and C++ text, with a comment that says what each argument is.
    """
    names = list(_names(artifact))
    parameters = ", ".join(f"{_TYPES[kind]} {name}" for kind, name in zip(entry_kinds(artifact), names))
    where = ",\n   on a stream of the current CUDA context" if is_device_artifact(artifact) else ""
    entries = _PLAIN.format(entry=entry_name(artifact), parameters=parameters, where=where) if plain else ""
    entries += _PACKED.format(name=artifact.name) if packed else ""
    lines = [f" *   {name}: {text}" for name, text in zip(names, _meanings(artifact))]
    return _TEXT.format(name=artifact.name, target=_target(artifact), arguments="\n".join(lines), entries=entries)


def _target(artifact: KernelArtifact) -> str:
    target = json.loads(artifact.target)
    return " ".join(str(target[field]) for field in ("kind", "arch") if target.get(field))


def _names(artifact: KernelArtifact) -> Iterator[str]:
    """A C name for each argument of the plain entry."""
    taken = {"stream", *keyword.kwlist}
    wanted = [*(param.name for param in artifact.params), *artifact.metadata.get("dynamic", ())]
    for name in wanted:
        plain = usable(re.sub(r"\W", "_", name))
        while plain in taken or is_taken(plain):
            plain += "_"
        taken.add(plain)
        yield plain
    yield "stream"


def _meanings(artifact: KernelArtifact) -> Iterator[str]:
    place = "device memory" if is_device_artifact(artifact) else "memory"
    for index, param in enumerate(artifact.params):
        aligned = dict(artifact.metadata.get("alignment", {})).get(param.name)
        yield (
            _meaning(param, place)
            + (f", at a multiple of {aligned} bytes" if aligned else "")
            + (", which Python's calls allocate" if index in artifact.out_idx else "")
        )
    yield from (f"the size {name} of the tensors" for name in artifact.metadata.get("dynamic", ()))
    yield "CUstream, or NULL" if is_device_artifact(artifact) else "NULL"


def _meaning(param: KernelParam, place: str) -> str:
    if param.kind == "scalar":
        return f"a number, {param.dtype} in the kernel"
    if param.kind == "pointer":
        return f"{place}, of {param.dtype}"
    held = "" if storage_shape(param) == param.shape else f", held by {_sizes(storage_shape(param))} {storage_dtypes(param)[0]}"
    strides = storage_strides(param)
    lies = "row-major and compact" if strides is None else f"strides {_sizes(strides)}"
    return f"{place}, {param.dtype} {_sizes(param.shape)}, {lies}{held}"


def _sizes(dims: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(map(dim_text, dims)) + "]"
