// The order in which the blocks of a grid run (T.use_swizzle).
#pragma once
#include "common.h"

namespace tl {

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
