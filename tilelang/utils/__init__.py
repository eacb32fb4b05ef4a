"""Small tools around kernels: tensors (:mod:`tilelang.utils.tensor`), devices, questions about buffers."""

from tilelang.attributes import attributes
from tilelang.utils.deprecated import deprecated as deprecated  # not on first use: its module has the same name

__getattr__ = attributes(
    __name__,
    {
        "tilelang.utils.tensor": "TensorSupplyType map_torch_type torch_assert_close",
        "tilelang.utils.language": (
            "array_reduce get_buffer_region_from_load get_prim_func_name is_fragment is_full_region is_global is_local is_shared"
            " is_shared_dynamic is_tensor_memory retrieve_shape retrieve_stride to_buffer_region"
        ),
    },
)
