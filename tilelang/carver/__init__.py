"""Configurations worth trying, from a model of the device: what a search starts from instead of a full grid.

    template = MatmulTemplate(M=1024, N=1024, K=1024, in_dtype="float16").with_arch(CUDA("cuda"))
    for hint in template.recommend_hints(topk=10):
        ...                               # hint.block, hint.warp, hint.rstep, hint.pipeline_stage, hint.rasterization_plan

:mod:`~tilelang.carver.arch` describes devices, :mod:`~tilelang.carver.template` problems, :mod:`~tilelang.carver.roller` what is
recommended. Nothing here loads TVM except ``equivalent_function``.
"""

from tilelang.attributes import attributes
from tilelang.carver.roller.hint import Hint
from tilelang.carver.template import ElementwiseTemplate, GEMVTemplate, GeneralReductionTemplate, MatmulTemplate

__all__ = ["ElementwiseTemplate", "GEMVTemplate", "GeneralReductionTemplate", "Hint", "MatmulTemplate"]

__getattr__ = attributes(
    __name__,
    {
        "tilelang.carver.arch": "CUDA TileDevice",
        "tilelang.carver.roller.rasterization": "NoRasterization Rasterization2DColumn Rasterization2DRow",
    },
)
