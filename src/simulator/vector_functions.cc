#include "vector_functions.h"

namespace tilelang {
namespace simulator {

const VectorFunctions& vector_functions() {
  static const VectorFunctions widest = avx512_functions().warp_product ? avx512_functions() : avx2_functions();
  return widest;
}

}  // namespace simulator
}  // namespace tilelang
