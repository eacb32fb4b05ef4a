// The tensor-map encoder over tvm-ffi: what a device runtime calls in place of the driver's.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <string>
#include <vector>

#include "tensor_map.h"

namespace tilelang {
namespace simulator {
namespace {

using tvm::ffi::Array;
using tvm::ffi::Bytes;

std::vector<int64_t> numbers(const Array<int64_t>& array) { return {array.begin(), array.end()}; }

Bytes finish(const std::string& problem, const uint8_t* encoded) {
  if (!problem.empty()) TVM_FFI_THROW(ValueError) << "tensor map: " << problem;
  return Bytes(std::string(reinterpret_cast<const char*>(encoded), kTensorMapBytes));
}

TensorMapArguments arguments_of(int64_t type, int64_t address, const Array<int64_t>& extents,
                                const Array<int64_t>& strides, const Array<int64_t>& element_strides,
                                int64_t interleave, int64_t swizzle, int64_t l2_promotion, int64_t fill) {
  return {type,
          static_cast<int64_t>(extents.size()),
          static_cast<uint64_t>(address),
          numbers(extents),
          numbers(strides),
          numbers(element_strides),
          interleave,
          swizzle,
          l2_promotion,
          fill};
}

// cuTensorMapEncodeTiled; enumerations are passed as the driver's numbers, the rank is len(extents).
Bytes encode_tiled_map(int64_t type, int64_t address, Array<int64_t> extents, Array<int64_t> strides,
                       Array<int64_t> box, Array<int64_t> element_strides, int64_t interleave, int64_t swizzle,
                       int64_t l2_promotion, int64_t fill) {
  uint8_t encoded[kTensorMapBytes];
  const TensorMapArguments arguments =
      arguments_of(type, address, extents, strides, element_strides, interleave, swizzle, l2_promotion, fill);
  return finish(encode_tiled(arguments, numbers(box), encoded), encoded);
}

// cuTensorMapEncodeIm2col.
Bytes encode_im2col_map(int64_t type, int64_t address, Array<int64_t> extents, Array<int64_t> strides,
                        Array<int64_t> lower_corner, Array<int64_t> upper_corner, int64_t channels, int64_t pixels,
                        Array<int64_t> element_strides, int64_t interleave, int64_t swizzle, int64_t l2_promotion,
                        int64_t fill) {
  uint8_t encoded[kTensorMapBytes];
  const TensorMapArguments arguments =
      arguments_of(type, address, extents, strides, element_strides, interleave, swizzle, l2_promotion, fill);
  return finish(encode_im2col(arguments, numbers(lower_corner), numbers(upper_corner), channels, pixels, encoded),
                encoded);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("tilelang.simulator.encode_tensor_map_tiled", encode_tiled_map)
      .def("tilelang.simulator.encode_tensor_map_im2col", encode_im2col_map);
}

}  // namespace
}  // namespace simulator
}  // namespace tilelang
