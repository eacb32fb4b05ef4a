"""``params.pkl``: an artifact without its files, pickled, and the unpickler that can build nothing else.

A cache directory may hold anything by the time it is read, so the unpickler resolves the four classes of
:mod:`tilelang.artifact` and no other name; a pickle that asks for one fails before it runs.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilelang import artifact as vocabulary
from tilelang.artifact import KernelArtifact, KernelLaunch, KernelParam, TensorMapSpec

_ADMITTED = {(vocabulary.__name__, kind.__name__): kind for kind in (KernelArtifact, KernelLaunch, KernelParam, TensorMapSpec)}
_PLAIN = (str, int, float, bool, type(None), bytes)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"params.pkl asks for {module}.{name}, which is not a plain type") from None

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("params.pkl holds a persistent reference")


def encode(artifact: KernelArtifact) -> bytes:
    """``artifact`` without its files, as the bytes of ``params.pkl``.

    Raises:
        TypeError: the artifact holds something that is not plain data.
    """
    bare = dataclasses.replace(artifact, files={}, metadata=dict(artifact.metadata))
    _check_artifact(bare)
    return pickle.dumps(bare, protocol=4)


def decode(raw: bytes, files: Mapping[str, bytes]) -> KernelArtifact:
    """The artifact of ``params.pkl``, with ``files``.

    Raises:
        pickle.UnpicklingError, TypeError, EOFError, ValueError, AttributeError: ``raw`` is not what :func:`encode` writes.
    """
    artifact = _Unpickler(io.BytesIO(raw)).load()
    if type(artifact) is not KernelArtifact:
        raise TypeError(f"params.pkl holds a {type(artifact).__name__}, not a KernelArtifact")
    _check_artifact(artifact)
    return dataclasses.replace(artifact, files=files)


def _check_artifact(artifact: KernelArtifact) -> None:
    """Fields hold what their declarations say: a forged state may have put anything there."""
    _require(type(artifact.params) is tuple and all(type(p) is KernelParam for p in artifact.params), "params")
    _require(
        type(artifact.launches) is tuple and all(type(k) is KernelLaunch for k in artifact.launches),
        "launches",
    )
    _require(type(artifact.metadata) is dict, "metadata")
    for launch in artifact.launches:
        _require(all(type(m) is TensorMapSpec for m in launch.tensor_maps), "tensor_maps")
    for record in (artifact, *artifact.params, *artifact.launches):
        for spec in dataclasses.fields(record):
            if spec.name not in ("params", "launches", "tensor_maps"):
                _require(_is_plain(getattr(record, spec.name)), spec.name)


_PARTS: Mapping[type, Callable[[Any], Iterable[Any]]] = {tuple: iter, list: iter, dict: lambda table: (*table, *table.values())}


def _is_plain(value: object) -> bool:
    kind = type(value)
    parts = _PARTS.get(kind)
    return kind in _PLAIN or (parts is not None and all(map(_is_plain, parts(value))))


def _require(condition: bool, name: str) -> None:
    if not condition:
        raise TypeError(f"the artifact's field {name!r} does not hold plain data")
