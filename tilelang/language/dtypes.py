"""Every element type of the language by name: ``from tilelang.language.dtypes import dtype, float16``."""

from __future__ import annotations

from typing import Any

from tilelang import dtypes as _dtypes

dtype = _dtypes.DType


def __getattr__(name: str) -> Any:
    if name == "_TORCH_DTYPE_TO_STR":
        return _names_of_torch_dtypes()
    return _dtypes.all_names[name] if name in _dtypes.all_names else getattr(_dtypes, name)


def _names_of_torch_dtypes() -> dict[Any, str]:
    """``torch.dtype`` -> name, for the scalar types that torch has; programs read it under its name in the reference package."""
    import torch

    known = ((getattr(torch, name, None), str(kind)) for name, kind in _dtypes.all_names.items())
    return {found: name for found, name in known if isinstance(found, torch.dtype)}


__all__ = ["dtype", *_dtypes.all_names]
