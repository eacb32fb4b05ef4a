// What the compiled adapter knows about one kernel: how to check a call's tensors and put its C arguments together.
//
// The plan is filled once, when a kernel is loaded, and read by every call. It accepts or refuses; explaining a refusal is
// the work of tilelang/execution/arguments.py.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace tilelang::cython {

#if !(defined(__x86_64__) && !defined(_WIN32)) && !(defined(__aarch64__) && !defined(_WIN32))
#error "the calling convention below holds on x86-64 (System V) and AArch64 (AAPCS64) only"
#endif

constexpr int kMaxFloats = 8;
constexpr int kMaxIntegers = 96;

// Calls `int32_t entry(...)` whose parameters are pointers or int64_t, and doubles, in any order.
//
// System V x86-64 (ABI 3.2.3) and AAPCS64 (6.8.2) assign integers and doubles to separate register files, each in the order
// of the parameters, and whatever finds no register to the stack, in order too. With no more doubles than there are
// registers for them (eight in both) only integers reach the stack, so how the two kinds interleave does not matter, and
// arguments beyond those that the callee reads are ignored: the caller removes them.
template <size_t... I>
int32_t call_with(void* entry, const double* d, const int64_t* a, std::index_sequence<I...>) {
  using Entry = int32_t (*)(double, double, double, double, double, double, double, double,
                            decltype(static_cast<void>(I), int64_t())...);
  return reinterpret_cast<Entry>(entry)(d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], a[I]...);
}

inline int32_t call_entry(void* entry, const double* floats, const int64_t* integers, size_t count) {
  if (count <= 8) return call_with(entry, floats, integers, std::make_index_sequence<8>());
  if (count <= 16) return call_with(entry, floats, integers, std::make_index_sequence<16>());
  if (count <= 32) return call_with(entry, floats, integers, std::make_index_sequence<32>());
  return call_with(entry, floats, integers, std::make_index_sequence<kMaxIntegers>());
}

// A size: a number, a dynamic variable, or a postfix program over both.
struct Size {
  enum Kind { kNumber, kVariable, kProgram };
  int kind = kNumber;
  int64_t value = 0;  // the number, or the variable's slot
  std::vector<std::pair<int, int64_t>> program;  // (operation, operand)
};

enum Operation { kPushNumber, kPushVariable, kAdd, kSub, kMul, kFloorDiv, kFloorMod, kCeilDiv, kMin, kMax };

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

inline bool apply(int operation, int64_t a, int64_t b, int64_t* out) {
  switch (operation) {
    case kAdd: return !__builtin_add_overflow(a, b, out);
    case kSub: return !__builtin_sub_overflow(a, b, out);
    case kMul: return !__builtin_mul_overflow(a, b, out);
    case kMin: *out = a < b ? a : b; return true;
    case kMax: *out = a > b ? a : b; return true;
    default: break;
  }
  if (b == 0 || b == -1) {  // no division instruction: 0 is an error, -1 overflows for the smallest number
    if (b == 0) return false;
    *out = operation == kFloorMod ? 0 : static_cast<int64_t>(0 - static_cast<uint64_t>(a));
    return true;
  }
  const int64_t quotient = floor_div(a, b);
  if (operation == kFloorDiv) *out = quotient;
  if (operation == kFloorMod) *out = a - quotient * b;
  if (operation == kCeilDiv) *out = -floor_div(-a, b);
  return true;
}

inline bool evaluate(const Size& size, const int64_t* variables, int64_t* out) {
  if (size.kind == Size::kNumber) return *out = size.value, true;
  if (size.kind == Size::kVariable) return *out = variables[size.value], true;
  std::vector<int64_t> stack;
  for (const auto& [operation, operand] : size.program) {
    if (operation == kPushNumber) {
      stack.push_back(operand);
    } else if (operation == kPushVariable) {
      stack.push_back(variables[operand]);
    } else {
      const int64_t b = stack.back();
      stack.pop_back();
      if (!apply(operation, stack.back(), b, &stack.back())) return false;
    }
  }
  *out = stack.back();
  return true;
}

struct TensorPlan {
  std::vector<DLDataType> dtypes;  // any of them
  std::vector<Size> shape;
  std::vector<Size> strides;  // empty: compact and row-major
  bool compact = true;
  uint64_t alignment = 1;
};

// Binds variable `slot` to an axis of a tensor; axes count on into the strides.
struct Binding {
  int tensor, axis, slot;
};

// Binds variable `slot` to a value over the variables bound before; it must not be negative.
struct Derived {
  int slot;
  Size value;
};

inline bool same_type(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

inline bool is_compact(const DLTensor& t) {
  if (t.strides == nullptr) return true;
  int64_t want = 1;
  bool compact = true, empty = false;
  for (int axis = t.ndim - 1; axis >= 0; --axis) {
    if (t.shape[axis] == 0) empty = true;
    if (t.shape[axis] != 1 && t.strides[axis] != want) compact = false;
    want *= t.shape[axis];
  }
  return compact || empty;
}

inline int64_t elements(const DLTensor& t) {
  int64_t count = 1;
  for (int axis = 0; axis < t.ndim; ++axis) count *= t.shape[axis];
  return count;
}

inline uint64_t address(const DLTensor& t) { return reinterpret_cast<uint64_t>(t.data) + t.byte_offset; }

struct CallPlan {
  std::vector<TensorPlan> tensors;  // inputs in order
  std::vector<Binding> bindings;
  std::vector<Derived> derived;  // after all bindings, in order
  int32_t device_type = kDLCPU;

  // Checks everything but the sizes' agreement: type, rank, device.
  bool accepts(int index, const DLTensor& t) const {
    const TensorPlan& plan = tensors[index];
    bool typed = false;
    for (const DLDataType& dtype : plan.dtypes) typed = typed || same_type(dtype, t.dtype);
    return typed && static_cast<size_t>(t.ndim) == plan.shape.size() && t.device.device_type == device_type &&
           address(t) % plan.alignment == 0;
  }

  bool bind(const DLTensor* given, int64_t* variables) const {
    for (const Binding& binding : bindings) {
      const DLTensor& t = given[binding.tensor];
      variables[binding.slot] = binding.axis < t.ndim ? t.shape[binding.axis] : t.strides[binding.axis - t.ndim];
    }
    for (const Derived& size : derived) {
      int64_t* value = variables + size.slot;
      if (!evaluate(size.value, variables, value) || *value < 0) return false;
    }
    return true;
  }

  bool sizes_agree(const DLTensor* given, const int64_t* variables) const {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorPlan& plan = tensors[i];
      const DLTensor& t = given[i];
      if (t.device.device_id != given[0].device.device_id) return false;
      if (address(t) == 0 && elements(t) != 0) return false;  // its storage has been freed
      if (!all_equal(plan.shape, t.shape, variables)) return false;
      if (plan.compact ? !is_compact(t) : !all_equal(plan.strides, t.strides, variables)) return false;
    }
    return true;
  }

 private:
  static bool all_equal(const std::vector<Size>& sizes, const int64_t* actual, const int64_t* variables) {
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      int64_t want = 0;
      if (!evaluate(sizes[axis], variables, &want) || want != actual[axis]) return false;
    }
    return true;
  }
};

}  // namespace tilelang::cython
