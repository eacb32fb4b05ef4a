// The pure functions of the simulator as tvm-ffi functions, so that tests can compare them with
// independent models without a kernel around them. Arrays are CPU tensors, contiguous.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <map>
#include <string>
#include <vector>

#include "format_names.h"
#include "ldmatrix.h"
#include "matrix.h"
#include "numerics.h"
#include "vector_functions.h"

namespace tilelang {
namespace simulator {
namespace {

using tvm::ffi::String;
using tvm::ffi::TensorView;

template <typename T>
T* data(const TensorView& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

template <typename T>
T look_up(const std::map<std::string, T>& table, const String& name) {
  const auto found = table.find(std::string(name));
  if (found == table.end()) TVM_FFI_THROW(ValueError) << "unknown name: " << name;
  return found->second;
}

Format format_named(const String& name) {
  Format format;
  if (!find_format(std::string(name), &format)) TVM_FFI_THROW(ValueError) << "unknown format: " << name;
  return format;
}

Round round_named(const String& name) {
  static const std::map<std::string, Round> table = {
      {"rn", Round::kNearestEven}, {"rz", Round::kTowardZero},   {"rm", Round::kDown},
      {"rp", Round::kUp},          {"rna", Round::kNearestAway},
  };
  return look_up(table, name);
}

bool has_flag(const String& flags, const char* flag) {
  return (" " + std::string(flags) + " ").find(" " + std::string(flag) + " ") != std::string::npos;
}

Convert convert_spec(const String& to, const String& from, const String& round, const String& flags) {
  return {format_named(to),         format_named(from),           round_named(round),
          has_flag(flags, "int"),   has_flag(flags, "sat"),       has_flag(flags, "satfinite"),
          has_flag(flags, "relu"),  has_flag(flags, "ftz")};
}

// uint64 in and out.
void export_convert(String to, String from, String round, String flags, TensorView in, TensorView out) {
  const Convert spec = convert_spec(to, from, round, flags);
  for (int64_t i = 0; i < in.numel(); ++i) data<uint64_t>(out)[i] = convert(spec, data<uint64_t>(in)[i]);
}

// float32 pairs to uint32.
void export_convert_pair(String to, String round, String flags, TensorView high, TensorView low, TensorView out) {
  const Convert spec = convert_spec(to, "f32", round, flags);
  for (int64_t i = 0; i < out.numel(); ++i) {
    data<uint32_t>(out)[i] = convert_pair(spec, data<uint32_t>(high)[i], data<uint32_t>(low)[i]);
  }
}

void export_convert_packed(String to, String from, String flags, TensorView in, TensorView out) {
  const Convert spec = convert_spec(to, from, "rn", flags);
  for (int64_t i = 0; i < out.numel(); ++i) {
    data<uint32_t>(out)[i] = convert_packed(spec, data<uint32_t>(in)[i]);
  }
}

uint16_t half_operation(const std::string& name, Format format, HalfMode mode, const MinMaxMode& order, uint16_t a,
                        uint16_t b, uint16_t c) {
  if (name == "add") return half_add(format, a, b, mode);
  if (name == "sub") return half_sub(format, a, b, mode);
  if (name == "mul") return half_mul(format, a, b, mode);
  if (name == "fma") return half_fma(format, a, b, c, mode);
  if (name == "ex2") return half_ex2_approx(format, a, mode.flush);
  if (name == "tanh") return half_tanh_approx(format, a);
  return half_minmax(format, a, b, order);
}

void export_half(String name, String format, String flags, TensorView a, TensorView b, TensorView c, TensorView out) {
  const HalfMode mode = {has_flag(flags, "ftz"), has_flag(flags, "sat"), has_flag(flags, "relu")};
  const MinMaxMode order = {name == "max", has_flag(flags, "nan"), has_flag(flags, "xorsign"), mode.flush};
  for (int64_t i = 0; i < out.numel(); ++i) {
    data<uint16_t>(out)[i] = half_operation(std::string(name), format_named(format), mode, order,
                                            data<uint16_t>(a)[i], data<uint16_t>(b)[i], data<uint16_t>(c)[i]);
  }
}

void export_f32_minmax(String name, String flags, TensorView a, TensorView b, TensorView out) {
  const MinMaxMode order = {name == "max", has_flag(flags, "nan"), has_flag(flags, "xorsign"),
                            has_flag(flags, "ftz")};
  for (int64_t i = 0; i < out.numel(); ++i) {
    data<float>(out)[i] = f32_minmax(data<float>(a)[i], data<float>(b)[i], order);
  }
}

void export_approximation(String name, bool flush, TensorView in, TensorView out) {
  using Function = float (*)(float, bool);
  static const std::map<std::string, Function> table = {
      {"ex2", ex2_approx},   {"lg2", lg2_approx}, {"rcp", rcp_approx}, {"sqrt", sqrt_approx},
      {"rsqrt", rsqrt_approx}, {"sin", sin_approx}, {"cos", cos_approx},
      {"tanh", [](float x, bool) { return tanh_approx(x); }},
  };
  const Function function = look_up(table, name);
  for (int64_t i = 0; i < in.numel(); ++i) data<float>(out)[i] = function(data<float>(in)[i], flush);
}

void export_divide(String name, bool flush, TensorView a, TensorView b, TensorView out) {
  const auto function = name == "full" ? div_full : div_approx;
  for (int64_t i = 0; i < a.numel(); ++i) {
    data<float>(out)[i] = function(data<float>(a)[i], data<float>(b)[i], flush);
  }
}

Arithmetic arithmetic_named(const String& name) {
  static const std::map<std::string, Arithmetic> table = {
      {"add", Arithmetic::kAdd}, {"sub", Arithmetic::kSub}, {"mul", Arithmetic::kMul},
      {"div", Arithmetic::kDiv}, {"fma", Arithmetic::kFma}, {"sqrt", Arithmetic::kSqrt},
  };
  return look_up(table, name);
}

void export_f32_arithmetic(String name, String round, TensorView a, TensorView b, TensorView c, TensorView out) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    data<float>(out)[i] = f32_arithmetic(arithmetic_named(name), round_named(round), data<float>(a)[i],
                                         data<float>(b)[i], data<float>(c)[i]);
  }
}

void export_f64_arithmetic(String name, String round, TensorView a, TensorView b, TensorView c, TensorView out) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    data<double>(out)[i] = f64_arithmetic(arithmetic_named(name), round_named(round), data<double>(a)[i],
                                          data<double>(b)[i], data<double>(c)[i]);
  }
}

void export_matrix_to_fragment(bool transpose, TensorView rows, TensorView lanes) {
  matrix_to_fragment(*data<MatrixRows>(rows), transpose, data<uint32_t>(lanes));
}

void export_fragment_to_matrix(bool transpose, TensorView lanes, TensorView rows) {
  fragment_to_matrix(data<uint32_t>(lanes), transpose, *data<MatrixRows>(rows));
}

VectorFunctions functions_of(int64_t bits) { return bits == 512 ? avx512_functions() : avx2_functions(); }

/// The m16n8 product by vectors of that many bits; false where this machine has none. Registers lie one after the other.
bool export_warp_product(int64_t bits, bool brain, TensorView a, TensorView b, TensorView c, TensorView d) {
  const auto product = functions_of(bits).warp_product;
  if (!product) return false;
  std::vector<const uint32_t*> registers[3];
  const TensorView* operands[] = {&a, &b, &c};
  for (int i = 0; i < 3; ++i) {
    for (int64_t r = 0; r < operands[i]->numel(); r += kLanes) registers[i].push_back(data<uint32_t>(*operands[i]) + r);
  }
  std::vector<uint32_t*> results;
  for (int64_t r = 0; r < d.numel(); r += kLanes) results.push_back(data<uint32_t>(d) + r);
  if (registers[0].size() != 2 * registers[1].size()) TVM_FFI_THROW(ValueError) << "A has two registers for each of B";
  const int depth = static_cast<int>(registers[1].size()) * 8;
  product({registers[0].data(), registers[1].data(), registers[2].data(), results.data(), depth, brain});
  return true;
}

/// c += a * b by vectors of that many bits; false where this machine has none.
bool export_dense_product(int64_t bits, bool exact, TensorView a, TensorView b, TensorView c) {
  const auto product = functions_of(bits).dense_product;
  if (!product) return false;
  product({static_cast<int>(a.size(0)), static_cast<int>(b.size(1)), static_cast<int>(b.size(0)), data<float>(a), data<float>(b),
           data<float>(c), exact});
  return true;
}

/// 2^x of 32 lanes by vectors of that many bits; false where this machine has no such version.
bool export_exp2(int64_t bits, TensorView x, TensorView out) {
  const auto exp2 = functions_of(bits).exp2;
  if (exp2) exp2(data<float>(x), data<float>(out));
  return exp2 != nullptr;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def("tilelang.simulator.testing.convert", export_convert)
      .def("tilelang.simulator.testing.convert_pair", export_convert_pair)
      .def("tilelang.simulator.testing.convert_packed", export_convert_packed)
      .def("tilelang.simulator.testing.half", export_half)
      .def("tilelang.simulator.testing.f32_minmax", export_f32_minmax)
      .def("tilelang.simulator.testing.approximation", export_approximation)
      .def("tilelang.simulator.testing.divide", export_divide)
      .def("tilelang.simulator.testing.f32_arithmetic", export_f32_arithmetic)
      .def("tilelang.simulator.testing.f64_arithmetic", export_f64_arithmetic)
      .def("tilelang.simulator.testing.matrix_to_fragment", export_matrix_to_fragment)
      .def("tilelang.simulator.testing.fragment_to_matrix", export_fragment_to_matrix)
      .def("tilelang.simulator.testing.warp_product", export_warp_product)
      .def("tilelang.simulator.testing.dense_product", export_dense_product)
      .def("tilelang.simulator.testing.exp2", export_exp2);
}

}  // namespace
}  // namespace simulator
}  // namespace tilelang
