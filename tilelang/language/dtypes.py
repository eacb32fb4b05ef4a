"""Every element type of the language by name: ``from tilelang.language.dtypes import dtype, float16``."""

from __future__ import annotations

from typing import Any

from tilelang import dtypes as _dtypes

dtype = _dtypes.DType


def __getattr__(name: str) -> Any:
    try:
        return _dtypes.all_names[name]
    except KeyError:
        raise AttributeError(f"{__name__} has no {name!r}") from None


__all__ = ["dtype", *_dtypes.all_names]
