"""``tilelang.jit.adapter.base``: a class that some programs patch on import, to work around a bug of the reference package."""

from __future__ import annotations

from typing import Any


class BaseKernelAdapter:
    """Nothing calls it: lists that programs give as ``out_idx`` are never written to, which is what they mend."""

    def _legalize_result_idx(self, result_idx: Any) -> Any:
        return result_idx
