// Where a 16-byte row chunk lies under the XOR swizzles of the tensor memory accelerator and wgmma, and the order of blocks.
#pragma once
#include "common.h"

namespace tl {

// Byte offset with the 16-byte chunk bits [4, 4 + log2(Bytes / 16)) XORed by the bits above bit 6 (Bytes: 0, 32, 64, 128).
template <int Bytes>
TL_DEVICE uint32_t swizzle_offset(uint32_t offset) {
  if constexpr (Bytes == 0) {
    return offset;
  } else {
    return offset ^ (((offset >> 7) & (Bytes / 16 - 1)) << 4);
  }
}

// Blocks in panels of `Panel` rows (grid y), each panel walked column by column, alternate columns backwards; what a block
// loads is then shared with its neighbours in time.
template <int Panel>
TL_DEVICE dim3 rasterize_row() {
  const uint block = blockIdx.x + blockIdx.y * gridDim.x;
  const uint panel_blocks = Panel * gridDim.x;
  const uint panel = block / panel_blocks;
  const uint inside = block - panel * panel_blocks;
  const uint first = panel * Panel;
  const uint height = gridDim.y - first < Panel ? gridDim.y - first : Panel;
  const uint column = inside / height;
  return dim3((panel & 1) ? gridDim.x - 1 - column : column, first + inside % height, blockIdx.z);
}

template <int Panel>
TL_DEVICE dim3 rasterize_column() {
  const uint block = blockIdx.x + blockIdx.y * gridDim.x;
  const uint panel_blocks = Panel * gridDim.y;
  const uint panel = block / panel_blocks;
  const uint inside = block - panel * panel_blocks;
  const uint first = panel * Panel;
  const uint width = gridDim.x - first < Panel ? gridDim.x - first : Panel;
  const uint row = inside / width;
  return dim3(first + inside % width, (panel & 1) ? gridDim.y - 1 - row : row, blockIdx.z);
}

}  // namespace tl
