#include "tensor_map.h"

#include <algorithm>
#include <cstring>

namespace tilelang {
namespace simulator {

namespace {

constexpr uint32_t kMagic = 0x70616d74;  // "tmap"
constexpr int64_t kMaxExtent = int64_t{1} << 32;
constexpr int64_t kMaxStride = int64_t{1} << 40;
constexpr int64_t kMaxBox = 256;
constexpr int64_t kMaxElementStride = 8;
constexpr int64_t kMaxPixels = 1024;
constexpr uint64_t kGlobalAlignment = 16;

// Indexed by TensorType.
constexpr int kTypeBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
constexpr int kTypeCount = sizeof(kTypeBytes) / sizeof(kTypeBytes[0]);

bool is_float_type(TensorType type) { return type >= TensorType::kF16; }

std::string at(const char* name, size_t index, int64_t value) {
  return std::string(name) + "[" + std::to_string(index) + "] = " + std::to_string(value);
}

// The first element of `values` outside [low, high], as a message.
std::string check_range(const char* name, const std::vector<int64_t>& values, int64_t low, int64_t high) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= low && values[i] <= high) continue;
    return at(name, i, values[i]) + " must lie in " + std::to_string(low) + ".." + std::to_string(high);
  }
  return "";
}

std::string check_count(const char* name, const std::vector<int64_t>& values, int64_t count) {
  if (static_cast<int64_t>(values.size()) == count) return "";
  return std::string(name) + " needs " + std::to_string(count) + " entries, got " + std::to_string(values.size());
}

std::string check_strides(const std::vector<int64_t>& strides) {
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] % static_cast<int64_t>(kGlobalAlignment) == 0) continue;
    return at("globalStrides", i, strides[i]) + " must be a multiple of 16 bytes";
  }
  return check_range("globalStrides", strides, 0, kMaxStride - 1);
}

std::string check_modes(const TensorMapArguments& arguments) {
  if (arguments.type < 0 || arguments.type >= kTypeCount) return "unknown data type " + std::to_string(arguments.type);
  if (arguments.interleave != 0) return "only interleave NONE is supported";
  if (arguments.swizzle < 0 || arguments.swizzle > static_cast<int64_t>(Swizzle::k128B)) {
    return "unknown swizzle " + std::to_string(arguments.swizzle);
  }
  if (arguments.l2_promotion < 0 || arguments.l2_promotion > 3) return "unknown L2 promotion";
  if (arguments.fill < 0 || arguments.fill > 1) return "unknown out-of-bounds fill";
  if (arguments.fill == 1 && !is_float_type(static_cast<TensorType>(arguments.type))) {
    return "the NaN fill needs a floating-point type";
  }
  return "";
}

// The first check that complains.
template <typename... Checks>
std::string first_problem(Checks... checks) {
  std::string problem;
  (void)(... || !(problem = checks()).empty());
  return problem;
}

std::string check_common(const TensorMapArguments& arguments, int64_t lowest_rank) {
  if (arguments.rank < lowest_rank || arguments.rank > kMaxTensorRank) {
    return "the rank must lie in " + std::to_string(lowest_rank) + "..5, got " + std::to_string(arguments.rank);
  }
  if (arguments.address % kGlobalAlignment != 0) return "the global address must be 16-byte aligned";
  return first_problem([&] { return check_modes(arguments); },
                       [&] { return check_count("globalDim", arguments.extents, arguments.rank); },
                       [&] { return check_count("globalStrides", arguments.strides, arguments.rank - 1); },
                       [&] { return check_count("elementStrides", arguments.element_strides, arguments.rank); },
                       [&] { return check_range("globalDim", arguments.extents, 1, kMaxExtent); },
                       [&] { return check_strides(arguments.strides); },
                       [&] { return check_range("elementStrides", arguments.element_strides, 1, kMaxElementStride); });
}

// The innermost run of shared memory: whole 16-byte chunks, and no wider than the swizzle's span.
std::string check_inner(const TensorMapArguments& arguments, const char* name, int64_t elements) {
  const int64_t bytes = elements * kTypeBytes[arguments.type];
  if (bytes % 16 != 0) {
    return std::string(name) + " spans " + std::to_string(bytes) + " bytes, which is no multiple of 16";
  }
  const int64_t span = swizzle_span(static_cast<Swizzle>(arguments.swizzle));
  if (span != 0 && bytes > span) {
    return std::string(name) + " spans " + std::to_string(bytes) + " bytes, more than the swizzle's " +
           std::to_string(span);
  }
  return "";
}

TensorMap common_map(const TensorMapArguments& arguments) {
  TensorMap map{};
  map.magic = kMagic;
  map.type = static_cast<TensorType>(arguments.type);
  map.swizzle = static_cast<Swizzle>(arguments.swizzle);
  map.fill = static_cast<OutOfBoundsFill>(arguments.fill);
  map.rank = static_cast<uint8_t>(arguments.rank);
  map.address = arguments.address;
  for (int i = 0; i < map.rank; ++i) {
    map.last[i] = static_cast<uint32_t>(arguments.extents[i] - 1);
    map.element_stride[i] = static_cast<uint8_t>(arguments.element_strides[i]);
    if (i > 0) map.stride[i - 1] = static_cast<uint64_t>(arguments.strides[i - 1]);
  }
  // Without interleaving the stride of dimension 0 is ignored.
  map.element_stride[0] = 1;
  return map;
}

void store(const TensorMap& map, uint8_t* out) {
  std::memset(out, 0, kTensorMapBytes);
  std::memcpy(out, &map, sizeof map);
}

// Rows narrower than the swizzle's span still start a span apart.
uint32_t row_pitch(const TensorMap& map, uint32_t row_bytes) {
  return map.swizzle == Swizzle::kNone ? row_bytes : swizzle_span(map.swizzle);
}

// The part of a row that starts at element `start` of dimension 0 and lies in the tensor; `base` is
// the address of the row's element 0, `inside` whether its other coordinates are in bounds.
TileRow make_row(const TensorMap& map, int64_t start, int64_t count, uint64_t base, bool inside, uint32_t shared) {
  const int64_t first = std::clamp<int64_t>(-start, 0, count);
  const int64_t last = std::clamp<int64_t>(map.extent(0) - start, first, count);
  if (!inside || first == last) return {0, shared, 0, 0};
  const uint32_t bytes = static_cast<uint32_t>(map.element_bytes());
  return {base + static_cast<uint64_t>(start + first) * bytes, shared, static_cast<uint32_t>(first) * bytes,
          static_cast<uint32_t>(last) * bytes};
}

// Counts through a box of `extents`, dimension 1 fastest (dimension 0 is a whole row).
bool advance(int rank, const int64_t* extents, int64_t* index) {
  for (int i = 1; i < rank; ++i) {
    if (++index[i] < extents[i]) return true;
    index[i] = 0;
  }
  return false;
}

}  // namespace

int tensor_type_bytes(TensorType type) { return kTypeBytes[static_cast<int>(type)]; }

std::string encode_tiled(const TensorMapArguments& arguments, const std::vector<int64_t>& box, uint8_t* out) {
  const std::string problem =
      first_problem([&] { return check_common(arguments, 1); }, [&] { return check_count("boxDim", box, arguments.rank); },
                    [&] { return check_range("boxDim", box, 1, kMaxBox); },
                    [&] { return check_inner(arguments, "boxDim[0]", box[0]); });
  if (!problem.empty()) return problem;
  TensorMap map = common_map(arguments);
  for (int i = 0; i < map.rank; ++i) map.box[i] = static_cast<uint16_t>(box[i]);
  store(map, out);
  return "";
}

std::string encode_im2col(const TensorMapArguments& arguments, const std::vector<int64_t>& lower_corner,
                          const std::vector<int64_t>& upper_corner, int64_t channels, int64_t pixels, uint8_t* out) {
  // The corners are 16, 8 or 5 bits wide for one, two or three spatial dimensions.
  const int64_t bits = arguments.rank == 3 ? 16 : (arguments.rank == 4 ? 8 : 5);
  const int64_t low = -(int64_t{1} << (bits - 1)), high = (int64_t{1} << (bits - 1)) - 1;
  const std::string problem = first_problem(
      [&] { return check_common(arguments, 3); },
      [&] { return check_count("pixelBoxLowerCorner", lower_corner, arguments.rank - 2); },
      [&] { return check_count("pixelBoxUpperCorner", upper_corner, arguments.rank - 2); },
      [&] { return check_range("pixelBoxLowerCorner", lower_corner, low, high); },
      [&] { return check_range("pixelBoxUpperCorner", upper_corner, low, high); },
      [&] { return check_range("channelsPerPixel", {channels}, 1, kMaxBox); },
      [&] { return check_range("pixelsPerColumn", {pixels}, 1, kMaxPixels); },
      [&] { return check_inner(arguments, "channelsPerPixel", channels); });
  if (!problem.empty()) return problem;
  TensorMap map = common_map(arguments);
  map.im2col = 1;
  map.box[0] = static_cast<uint16_t>(channels);
  map.box[1] = static_cast<uint16_t>(pixels);
  for (int i = 0; i < map.rank - 2; ++i) {
    map.lower_corner[i] = static_cast<int16_t>(lower_corner[i]);
    map.upper_corner[i] = static_cast<int16_t>(upper_corner[i]);
  }
  store(map, out);
  return "";
}

bool decode_tensor_map(const uint8_t* bytes, TensorMap* map) {
  std::memcpy(map, bytes, sizeof *map);
  return map->magic == kMagic && map->rank >= 1 && map->rank <= kMaxTensorRank &&
         static_cast<int>(map->type) < kTypeCount && map->swizzle <= Swizzle::k128B;
}

Tile tile_at(const TensorMap& map, const int32_t* coordinates) {
  int64_t extents[kMaxTensorRank], index[kMaxTensorRank] = {};
  size_t rows = 1;
  for (int i = 0; i < map.rank; ++i) {
    // Strided dimensions take every element_stride-th element of the box.
    extents[i] = (map.box[i] + map.element_stride[i] - 1) / map.element_stride[i];
    if (i > 0) rows *= static_cast<size_t>(extents[i]);
  }
  Tile tile;
  tile.row_bytes = static_cast<uint32_t>(extents[0] * map.element_bytes());
  const uint32_t pitch = row_pitch(map, tile.row_bytes);
  tile.rows.reserve(rows);
  do {
    uint64_t base = map.address;
    bool inside = true;
    for (int i = 1; i < map.rank; ++i) {
      const int64_t position = coordinates[i] + index[i] * map.element_stride[i];
      inside = inside && position >= 0 && position < map.extent(i);
      base += static_cast<uint64_t>(position) * map.stride[i - 1];
    }
    const uint32_t shared = static_cast<uint32_t>(tile.rows.size()) * pitch;
    tile.rows.push_back(make_row(map, coordinates[0], extents[0], base, inside, shared));
  } while (advance(map.rank, extents, index));
  tile.shared_bytes = static_cast<uint32_t>(rows) * pitch;
  return tile;
}

Tile im2col_tile_at(const TensorMap& map, const int32_t* coordinates, const uint16_t* offsets) {
  const int spatial = map.rank - 2;
  const int batch = map.rank - 1;
  int64_t position[kMaxTensorRank];
  for (int i = 0; i < map.rank; ++i) position[i] = coordinates[i];
  Tile tile;
  tile.row_bytes = static_cast<uint32_t>(map.box[0] * map.element_bytes());
  const uint32_t pitch = row_pitch(map, tile.row_bytes);
  for (int pixel = 0; pixel < map.box[1]; ++pixel) {
    uint64_t base = map.address;
    bool inside = position[batch] >= 0 && position[batch] < map.extent(batch);
    for (int i = 1; i < map.rank; ++i) {
      const int64_t element = position[i] + (i <= spatial ? offsets[i - 1] : 0);
      inside = inside && element >= 0 && element < map.extent(i);
      base += static_cast<uint64_t>(element) * map.stride[i - 1];
    }
    tile.rows.push_back(make_row(map, position[0], map.box[0], base, inside, static_cast<uint32_t>(pixel) * pitch));
    // The next pixel of the bounding box: spatial dimensions in order, then the batch.
    int i = 1;
    for (; i <= spatial; ++i) {
      position[i] += map.element_stride[i];
      if (position[i] < map.extent(i) + map.upper_corner[i - 1]) break;
      position[i] = map.lower_corner[i - 1];
    }
    if (i > spatial) ++position[batch];
  }
  tile.shared_bytes = pitch * map.box[1];
  return tile;
}

uint64_t fill_pattern(const TensorMap& map) {
  if (map.fill == OutOfBoundsFill::kZero) return 0;
  switch (map.element_bytes()) {
    case 2:
      return 0x7fff;
    case 4:
      return 0x7fffffff;
    default:
      return 0x7fffffffffffffff;
  }
}

}  // namespace simulator
}  // namespace tilelang
