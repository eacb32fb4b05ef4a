// Tensor maps: the simulator's encoder behind the driver's function.
#include "module.h"
#include "state.h"
#include "tensor_map.h"

namespace test_driver {
namespace {

constexpr uint64_t kMapAlignment = 64;

template <class Number>
std::vector<int64_t> numbers(const Number* values, uint32_t count) {
  return {values, values + count};
}

}  // namespace

DRIVER_FUNCTION cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* base, const uint64_t* shape, const uint64_t* strides,
                                       const uint32_t* box, const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                                       int fill) {
  return initialised([&]() -> Status {
    using namespace tilelang::simulator;
    if (map == nullptr || reinterpret_cast<uint64_t>(map) % kMapAlignment != 0) return kInvalidValue;
    if (rank < 1 || rank > static_cast<uint32_t>(kMaxTensorRank)) return kInvalidValue;
    if (!shape || !box || !element_strides || (rank > 1 && !strides)) return kInvalidValue;
    const TensorMapArguments arguments{type, rank, reinterpret_cast<uint64_t>(base), numbers(shape, rank), numbers(strides, rank - 1),
                                       numbers(element_strides, rank), interleave, swizzle, promotion, fill};
    const std::string problem = encode_tiled(arguments, numbers(box, rank), static_cast<uint8_t*>(map));
    return problem.empty() ? kSuccess : kInvalidValue;
  });
}

}  // namespace test_driver
