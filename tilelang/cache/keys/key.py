"""The kernel key: everything that decides which code comes out, as one SHA-256.

Two processes, and two machines, that would compile the same code have the same key. Each input keeps its name, so that
``tilelang cache why`` can say which of them differs between two entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tilelang import env
from tilelang.cache.keys import header_watch
from tilelang.cache.keys.fingerprint import Fingerprint, compiler_fingerprint
from tilelang.cache.locks.forks import computed
from tilelang.cache.places import location
from tilelang.errors import CacheError
from tilelang.fingerprint.canonical import NotCanonical, canonical, digest
from tilelang.records import Record

FORMAT = "tilelang-kernel-1"
"""Changed when an entry's layout or the meaning of an input changes, so that old entries are no longer found."""


class KernelKey(Record):
    """The inputs of one compilation.

    Attributes:
        name: the program's name (part of the program, and repeated for people).
        program: the canonical text of the program.
        target: the canonical text of the target.
        backend: the execution backend.
        out_idx: positions of the outputs.
        pass_configs: pass configuration -> plain value.
        compile_flags: flags for the toolchain, in order.
        toolchain: tool -> version.
        options: whatever else changes the code, as plain values.
        fingerprint: the compiler; computed where it is None.
        unknown: why the kernel has no key, so that it is compiled at every call and not kept; empty if it has one.
    """

    name: str
    program: str
    target: str
    backend: str
    out_idx: tuple[int, ...] = ()
    pass_configs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    compile_flags: tuple[str, ...] = ()
    toolchain: Mapping[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fingerprint: Fingerprint | None = None
    unknown: str = ""

    @computed
    def compiler(self) -> Fingerprint:
        """The compiler's fingerprint at the time when the key was first asked for it."""
        return self.fingerprint or header_watch.steady(compiler_fingerprint, location.memo_file())

    @computed
    def inputs(self) -> dict[str, str]:
        """Name of each input -> its text (of the program and the compiler, a digest).

        Raises:
            CacheError: a pass configuration or option is not a plain value, or something else is not known.
        """
        if self.unknown:
            raise CacheError(self.unknown)
        texts = {
            "format": FORMAT,
            "name": self.name,
            "program": digest(self.program),
            "target": self.target,
            "backend": self.backend,
            "out_idx": canonical(tuple(self.out_idx)),
            "compile_flags": canonical(tuple(self.compile_flags)),
        }
        groups = (
            ("pass_config", self.pass_configs),
            ("toolchain", self.toolchain),
            ("option", self.options),
            ("environment", env.code_changing()),
            ("compiler", dict(self.compiler.parts)),
        )
        for group, values in groups:
            for name, value in values.items():
                label = f"{group}:{getattr(name, 'value', name)}"
                texts[label] = self._plain(label, value)
        return texts

    @computed
    def digest(self) -> str:
        """The key: 64 hexadecimal digits."""
        inputs = self.inputs
        return digest(*(text for name in sorted(inputs) for text in (name, inputs[name])))

    @staticmethod
    def _plain(label: str, value: Any) -> str:
        try:
            return canonical(value)
        except NotCanonical as error:
            raise CacheError(
                f"{label} cannot be part of a kernel's key: {error}",
                hint="pass None, a bool, number, string, or a tuple, list or dict of them",
            ) from None
