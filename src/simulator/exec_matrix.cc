// mma.sync, mma.sp, ldmatrix, stmatrix, movmatrix: decoding and execution. wgmma is in exec_wgmma.cc.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "exec_wgmma.h"
#include "ldmatrix.h"
#include "matrix.h"
#include "memory.h"
#include "memory_operands.h"
#include "operands.h"

namespace tilelang {
namespace simulator {

namespace {

// ---------------------------------------------------------------------------------------------
// mma.sync.aligned.m16n8k16.row.col[.satfinite].f32.f16.f16.f32[.and.popc]  d, a, b, c
// mma.sp[::ordered_metadata].sync.aligned.m16n8k32.row.col...               d, a, b, c, e, selector

constexpr int kMostAccumulators = 8;  // registers, over all shapes
constexpr int kMostOperands = 8;      // likewise for A and B (m16n8k16 f64)

struct MmaInstruction {
  Mma mma;
  MmaRegisters count;
  // Frame offsets of the registers, and of the metadata register of mma.sp.
  uint32_t a[kMostOperands], b[kMostOperands], c[kMostAccumulators], d[kMostAccumulators];
  uint32_t metadata;
};

template <typename T>
void locate(Warp& warp, const uint32_t* offsets, int count, T** registers) {
  for (int i = 0; i < count; ++i) registers[i] = warp.reg<T>(offsets[i]);
}

// Runs `compute(a, b, c, d)` on pointers to the lanes of every register.
template <typename T, typename Compute>
void with_fragments(Warp& warp, const MmaInstruction& mma, Compute compute) {
  T *a[kMostOperands], *b[kMostOperands], *c[kMostAccumulators], *d[kMostAccumulators];
  locate(warp, mma.a, mma.count.a, a);
  locate(warp, mma.b, mma.count.b, b);
  locate(warp, mma.c, mma.count.c, c);
  locate(warp, mma.d, mma.count.d, d);
  compute(a, b, c, d);
}

Step execute_mma(Warp& warp, const Instruction& instruction, LaneMask) {
  const auto& decoded = *static_cast<const MmaInstruction*>(instruction.extra);
  const Mma& mma = decoded.mma;
  bool valid = true;
  if (mma.family == MmaFamily::kDouble) {
    with_fragments<double>(warp, decoded, [&](auto a, auto b, auto c, auto d) { run_mma_f64(mma, a, b, c, d); });
  } else {
    const uint32_t* metadata = mma.sparse ? warp.reg<uint32_t>(decoded.metadata) : nullptr;
    with_fragments<uint32_t>(warp, decoded,
                             [&](auto a, auto b, auto c, auto d) { valid = run_mma(mma, a, b, c, d, metadata); });
  }
  if (!valid && warp.checking(kCheckDescriptor)) {
    warp.report(FindingKind::kDescriptor, instruction, -1,
                "the sparsity metadata has a group whose indices do not ascend");
  }
  const int products = mma.family == MmaFamily::kQuadPair ? 4 : 1;
  count_tensor(warp, instruction, static_cast<uint64_t>(products) * mma.m * mma.n * mma.k);
  return Step::kNext;
}

MmaFamily family_of(Decoder& d, Format a, bool bits, int k) {
  if (bits) {
    const bool exclusive = d.modifiers.take("xor");
    if (!exclusive && !d.modifiers.take("and")) d.fail("mma of .b1 needs .xor.popc or .and.popc");
    if (!d.modifiers.take("popc")) d.fail("mma of .b1 needs .popc");
    return exclusive ? MmaFamily::kBitXor : MmaFamily::kBitAnd;
  }
  if (a == Format::kF64) return MmaFamily::kDouble;
  if (!is_float(a)) return MmaFamily::kInteger;
  return k == 4 && a == Format::kF16 ? MmaFamily::kQuadPair : MmaFamily::kFloat;
}

// "m16n8k32" to its three numbers.
void take_shape(Decoder& d, Mma& mma) {
  const std::string shape = d.modifiers.next();
  int end = 0;
  const bool read = std::sscanf(shape.c_str(), "m%dn%dk%d%n", &mma.m, &mma.n, &mma.k, &end) == 3;
  if (!read || end != static_cast<int>(shape.size())) d.fail("expected a shape such as .m16n8k16, got ." + shape);
}

// True for .col; fails for anything but .row and .col.
bool take_column_major(Decoder& d) {
  const std::string order = d.modifiers.take_any({"row", "col"});
  if (order.empty()) d.fail("expected .row or .col");
  return order == "col";
}

void take_sparsity(Decoder& d, Mma& mma) {
  mma.sparse = !d.modifiers.take_any({"sp", "sp::ordered_metadata"}).empty();
  take_all(d, {"sync", "aligned"});
}

void take_types(Decoder& d, Mma& mma) {
  mma.d = take_format(d);
  const bool bits = d.modifiers.take("b1");
  if (bits) {
    if (!d.modifiers.take("b1")) d.fail("mma needs .b1 for both operands");
    mma.a = mma.b = Format::kU8;
  } else {
    mma.a = take_format(d);
    mma.b = take_format(d);
  }
  mma.c = take_format(d);
  mma.family = family_of(d, mma.a, bits, mma.k);
}

void take_layouts(Decoder& d, Mma& mma) {
  mma.a_column = take_column_major(d);
  mma.b_row = !take_column_major(d);
}

void check_layouts(Decoder& d, const Mma& mma) {
  const bool usual = !mma.a_column && !mma.b_row;
  if (!usual && mma.family != MmaFamily::kQuadPair) d.fail("this mma needs .row.col");
}

void resolve(Decoder& d, size_t operand, bool destination, int count, uint32_t bytes, const char* name,
             uint32_t* offsets) {
  const std::vector<uint32_t> slots =
      destination ? d.destination_vector(operand, bytes) : d.source_vector(operand, bytes);
  if (static_cast<int>(slots.size()) != count) {
    d.fail(std::string("operand ") + name + " needs " + std::to_string(count) + " registers, got " +
           std::to_string(slots.size()));
  }
  std::copy(slots.begin(), slots.end(), offsets);
}

void resolve_operands(Decoder& d, MmaInstruction& decoded) {
  const MmaRegisters& count = decoded.count = mma_registers(decoded.mma);
  const uint32_t bytes = decoded.mma.family == MmaFamily::kDouble ? 8 : 4;
  resolve(d, 0, true, count.d, bytes, "d", decoded.d);
  resolve(d, 1, false, count.a, bytes, "a", decoded.a);
  resolve(d, 2, false, count.b, bytes, "b", decoded.b);
  resolve(d, 3, false, count.c, bytes, "c", decoded.c);
  if (!decoded.mma.sparse) return;
  decoded.metadata = d.source_bits(4, 4);
}

void decode_mma(Decoder& d) {
  auto& decoded = d.attach<MmaInstruction>();
  Mma& mma = decoded.mma = Mma{};
  take_sparsity(d, mma);
  take_shape(d, mma);
  take_layouts(d, mma);
  mma.saturate = d.modifiers.take("satfinite");
  take_types(d, mma);
  d.expect_no_more_modifiers();
  d.expect_operands(mma.sparse ? 6 : 4, mma.sparse ? 6 : 4);
  check_layouts(d, mma);
  if (mma.sparse) mma.selector = static_cast<int>(d.constant(5));
  if (const char* problem = check_mma(mma)) d.fail(std::string("mma: ") + problem);
  if (mma.saturate && mma.family != MmaFamily::kInteger) d.fail(".satfinite goes with integer mma only");
  resolve_operands(d, decoded);
  d.out.convergence = Convergence::kAligned;
  d.out.run = execute_mma;
}

// ---------------------------------------------------------------------------------------------
// ldmatrix.sync.aligned.m8n8.x4[.trans][.shared[::cta]].b16  {r0, ...}, [address]
// stmatrix.sync.aligned.m8n8.x4[.trans][.shared[::cta]].b16  [address], {r0, ...}

struct MatrixAccess {
  Address address;
  Space space;
  bool transpose;
};

// Lanes 8i to 8i + 7 give the row addresses of matrix i. Read first: a destination may be the base.
using RowAddresses = uint64_t[kLanes];

void count_rows(Warp& warp, const Instruction& instruction, const RowAddresses& addresses, int matrix, bool write) {
  uint32_t rows[kLanes] = {};
  for (int row = 0; row < kMatrixSide; ++row) {
    rows[row] = static_cast<uint32_t>(addresses[matrix * kMatrixSide + row]);
  }
  count_shared(warp, instruction, rows, 0xff, kMatrixRowBytes, write);
}

constexpr uint8_t kPoisonedRow[kMatrixRowBytes] = {kPoison, kPoison, kPoison, kPoison, kPoison, kPoison, kPoison, kPoison,
                                                   kPoison, kPoison, kPoison, kPoison, kPoison, kPoison, kPoison, kPoison};

/// Lanes that give the row addresses of so many matrices.
LaneMask row_lanes(int matrices) { return static_cast<LaneMask>((uint64_t{1} << matrices * kMatrixSide) - 1); }

Step execute_ldmatrix(Warp& warp, const Instruction& instruction, LaneMask) {
  const auto& decoded = *static_cast<const MatrixAccess*>(instruction.extra);
  const int matrices = static_cast<int>(instruction.list_size);
  const LaneMask lanes = row_lanes(matrices);
  RowAddresses addresses;
  uint8_t* rows[kLanes];
  lane_addresses(warp, decoded.address, addresses);
  const LaneMask good =
      access_lanes(warp, instruction, decoded.space, addresses, lanes, kMatrixRowBytes, AccessKind::kRead, rows);
  for_lanes(lanes & ~good, [&](int lane) { rows[lane] = const_cast<uint8_t*>(kPoisonedRow); });
  for (int matrix = 0; matrix < matrices; ++matrix) {
    matrix_to_fragment(rows + matrix * kMatrixSide, decoded.transpose, warp.reg<uint32_t>(instruction.list[matrix]));
    if (warp.counting) count_rows(warp, instruction, addresses, matrix, false);
  }
  return Step::kNext;
}

Step execute_stmatrix(Warp& warp, const Instruction& instruction, LaneMask) {
  const auto& decoded = *static_cast<const MatrixAccess*>(instruction.extra);
  const int matrices = static_cast<int>(instruction.list_size);
  RowAddresses addresses;
  uint8_t* targets[kLanes];
  lane_addresses(warp, decoded.address, addresses);
  const LaneMask good = access_lanes(warp, instruction, decoded.space, addresses, row_lanes(matrices), kMatrixRowBytes,
                                     AccessKind::kWrite, targets);
  for (int matrix = 0; matrix < matrices; ++matrix) {
    MatrixRows rows;
    fragment_to_matrix(warp.reg<uint32_t>(instruction.list[matrix]), decoded.transpose, rows);
    for_lanes(good & 0xffu << matrix * kMatrixSide,
              [&](int lane) { std::memcpy(targets[lane], rows[lane % kMatrixSide], kMatrixRowBytes); });
    if (warp.counting) count_rows(warp, instruction, addresses, matrix, true);
  }
  return Step::kNext;
}

void decode_matrix_access(Decoder& d, bool load) {
  auto& decoded = d.attach<MatrixAccess>();
  take_all(d, {"sync", "aligned"});
  if (!d.modifiers.take("m8n8")) d.fail("only the .m8n8 matrices of 16-bit elements exist on sm_75 to sm_90a");
  const std::string count = d.modifiers.take_any({"x1", "x2", "x4"});
  if (count.empty()) d.fail("expected .x1, .x2 or .x4");
  decoded.transpose = d.modifiers.take("trans");
  decoded.space = d.modifiers.take_any({"shared", "shared::cta"}).empty() ? Space::kGeneric : Space::kShared;
  take_all(d, {"b16"});
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  const size_t registers = load ? 0 : 1;
  const std::vector<uint32_t> slots = load ? d.destination_vector(registers, 4) : d.source_vector(registers, 4);
  if (slots.size() != static_cast<size_t>(count[1] - '0')) {
    d.fail("." + count + " needs " + count.substr(1) + " registers, got " + std::to_string(slots.size()));
  }
  d.set_list(slots);
  decoded.address = d.address(1 - registers);
  d.out.convergence = Convergence::kAligned;
  d.out.run = load ? execute_ldmatrix : execute_stmatrix;
}

void decode_ldmatrix(Decoder& d) { decode_matrix_access(d, true); }
void decode_stmatrix(Decoder& d) { decode_matrix_access(d, false); }

// movmatrix.sync.aligned.m8n8.trans.b16  d, a
Step execute_movmatrix(Warp& warp, const Instruction& instruction, LaneMask) {
  MatrixRows rows;
  fragment_to_matrix(warp.reg<uint32_t>(instruction.op[1]), false, rows);
  matrix_to_fragment(rows, true, warp.reg<uint32_t>(instruction.op[0]));
  return Step::kNext;
}

void decode_movmatrix(Decoder& d) {
  take_all(d, {"sync", "aligned", "m8n8", "trans", "b16"});
  d.expect_no_more_modifiers();
  d.expect_operands(2, 2);
  d.out.op[0] = d.destination(0, 4);
  d.out.op[1] = d.source_bits(1, 4);
  d.out.convergence = Convergence::kAligned;
  d.out.run = execute_movmatrix;
}

}  // namespace

const std::vector<OpcodeRow>& matrix_opcodes() {
  static const std::vector<OpcodeRow> rows = {
      {"mma", decode_mma, "tensor core", Effect::kDefines},
      {"wgmma", decode_wgmma, "tensor core"},
      {"ldmatrix", decode_ldmatrix, "matrix load/store", Effect::kDefines},
      {"stmatrix", decode_stmatrix, "matrix load/store"},
      {"movmatrix", decode_movmatrix, "matrix load/store"},
  };
  return rows;
}

}  // namespace simulator
}  // namespace tilelang
