"""Naming a target, without loading the compiler.

A target is given as a name (``"auto"``, ``"cuda"``, ``"cpu"``, ``"llvm"``, ``"c"``, ``"interpret"``), a JSON object or a dict
with a ``kind`` (``{"kind": "cuda", "arch": "sm_90a"}``), or a TVM target. Its canonical JSON text is part of every kernel key, so
everything that changes generated code is in it: the architecture, and on a CPU the vector features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tilelang import env
from tilelang.errors import UnknownTargetError
from tilelang.records import Record
from tilelang.target.host import SLOW_BF16_DOT, host_cpu

KINDS = {"cuda": "cuda", "cpu": "cpu", "llvm": "cpu", "c": "c", "interpret": "interpret"}
"""Accepted kind names and what each selects: a target package, or the interpreter."""

CUDA_ARCHS = (
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_103a",
    "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a",
)  # fmt: skip
"""CUDA architectures that the toolchain knows; others are refused by name."""

OTHER_KINDS = ("ascend", "cutedsl", "hip", "metal", "opencl", "rocm", "vulkan", "webgpu")
"""Kinds that programs name and that nothing is generated for."""

_DEFAULT_CUDA_ARCH = "sm_80"
_TVM_UNKNOWN_ARCH = "sm_50"
"""What TVM writes into a CUDA target that names no architecture, where it finds no device; no toolchain here compiles for it."""


class TargetInfo(Record):
    """A target with everything decided.

    Attributes:
        kind: ``"cpu"`` (LLVM), ``"c"``, ``"cuda"`` or ``"interpret"``.
        arch: of a CUDA target ``"sm_90a"`` …, of a CPU its LLVM name.
        features: of a CPU the vector features that generated code may use, sorted.
        triple: of a CPU the LLVM target triple.
        options: other entries that the user gave, kept for the key.
    """

    kind: str
    arch: str
    features: tuple[str, ...] = ()
    triple: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Canonical JSON."""
        fields: dict[str, Any] = {"kind": self.kind, "arch": self.arch}
        if self.features:
            fields["features"] = list(self.features)
        if self.triple:
            fields["triple"] = self.triple
        return json.dumps({**self.options, **fields}, sort_keys=True, separators=(",", ":"))

    @property
    def instruction_sets(self) -> tuple[str, ...]:
        """The features that compilers know: all but those that say how fast an instruction is."""
        return tuple(feature for feature in self.features if feature != SLOW_BF16_DOT)

    @property
    def sm(self) -> int:
        """Of a CUDA target, its compute capability as an integer: 80, 90, 120."""
        return int("".join(ch for ch in self.arch if ch.isdigit()))

    def has(self, feature: str) -> bool:
        """Whether a CPU feature may be used."""
        return feature in self.features


def parse_target(target: Any = "auto") -> TargetInfo:
    """The target that a user names.

    Raises:
        UnknownTargetError: no such kind or architecture; the message offers the nearest.
    """
    if isinstance(target, TargetInfo):
        return target
    fields = _fields(target)
    kind = fields.pop("kind", None)
    if kind == "auto":
        kind = "cuda" if cuda_is_available() else "cpu"
    if kind in OTHER_KINDS:
        raise UnknownTargetError(str(kind), [*KINDS], what="target here, where kernels are compiled for CPUs and CUDA:")
    if kind not in KINDS:
        raise UnknownTargetError(str(kind), ["auto", *KINDS])
    kind = KINDS[kind]
    if kind == "interpret":
        return TargetInfo(kind, "any")
    return _cuda(fields) if kind == "cuda" else _cpu(kind, fields)


def check_target(target: Any) -> None:
    """Refuses a target that no compiler knows, where a program is interpreted whatever its target is.

    Raises:
        UnknownTargetError: no such kind, architecture or field; the message offers the nearest.
    """
    if not isinstance(target, TargetInfo) and _fields(target).get("kind") not in ("auto", *OTHER_KINDS):
        parse_target(target)


def _fields(target: Any) -> dict[str, Any]:
    if target is None:
        return {"kind": "auto"}
    if isinstance(target, Mapping):
        return _checked(dict(target))
    text = target if isinstance(target, str) else str(target)
    if text.lstrip().startswith("{"):
        try:
            fields = dict(json.loads(text))
        except ValueError:
            raise UnknownTargetError(text, ["auto", *KINDS]) from None
        if not isinstance(target, str) and fields.get("arch") == _TVM_UNKNOWN_ARCH:
            del fields["arch"]
        return fields
    kind, *options = text.split() or [""]
    # The old command-line spelling: "cuda -arch=sm_90a", "llvm -mcpu=x86-64-v3".
    named = (option.lstrip("-").partition("=") for option in options)
    return _checked({"kind": kind, **{name: value for name, _, value in named}})


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a target that a user wrote.

    Raises:
        UnknownTargetError: one is neither ours nor TVM's.
    """
    unknown = [name for name in fields if name not in (*_OWN_FIELDS, *_TVM_FIELDS)]
    if unknown:
        raise UnknownTargetError(str(unknown[0]), list(_OWN_FIELDS), what="field of a target")
    return fields


def _cuda(fields: dict[str, Any]) -> TargetInfo:
    given = str(fields.pop("arch", None) or _device_arch() or env.get("TILELANG_CUDA_ARCH") or _DEFAULT_CUDA_ARCH)
    arch = given if given.startswith("sm_") else f"sm_{given}"
    arch = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_120": "sm_120a"}.get(arch, arch)
    if arch not in CUDA_ARCHS:
        raise UnknownTargetError(given, list(CUDA_ARCHS), what="CUDA architecture")
    return TargetInfo("cuda", arch, options=_kept(fields))


def _cpu(kind: str, fields: dict[str, Any]) -> TargetInfo:
    host = host_cpu()
    arch = str(fields.pop("mcpu", fields.pop("arch", host.arch)))
    triple = str(fields.pop("mtriple", fields.pop("triple", host.triple)))
    given = fields.pop("mattr", fields.pop("features", None))
    names = given.split(",") if isinstance(given, str) else given
    features = host.features if names is None else tuple(sorted(name.lstrip("+") for name in names))
    return TargetInfo(kind, arch, features, triple, _kept(fields))


_OWN_FIELDS = ("kind", "arch", "mcpu", "mtriple", "triple", "mattr", "features")
_TVM_FIELDS = (
    "keys", "tag", "host", "max_num_threads", "thread_warp_size", "max_threads_per_block", "max_shared_memory_per_block",
    "device", "model", "libs", "num-cores", "opt-level", "vector-width", "mabi", "mfloat-abi", "fast-math", "registers_per_block",
    "l2_cache_size_bytes",
)  # fmt: skip


def _kept(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in _TVM_FIELDS}


def cuda_is_available() -> bool:
    """Whether a CUDA device can run kernels: a GPU, or the simulator where it stands in for one."""
    if env.on_simulator():
        return True
    return _device_arch() is not None


def _device_arch() -> str | None:
    import torch

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
