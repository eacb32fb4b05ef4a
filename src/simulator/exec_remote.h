// st.async and red.async: stores to the shared memory of another block that report to an mbarrier there.
#ifndef TILELANG_SIMULATOR_EXEC_REMOTE_H_
#define TILELANG_SIMULATOR_EXEC_REMOTE_H_

#include "decoder.h"

namespace tilelang {
namespace simulator {

/// Decode st.async and red.async; the modifier "async" has been consumed.
void decode_store_async(Decoder& decoder);
void decode_reduce_async(Decoder& decoder);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXEC_REMOTE_H_
