// Decoders of the asynchronous instructions, by file. exec_async.cc owns their opcode table.
#ifndef TILELANG_SIMULATOR_EXEC_ASYNC_H_
#define TILELANG_SIMULATOR_EXEC_ASYNC_H_

namespace tilelang {
namespace simulator {

class Decoder;

void decode_bulk_copy(Decoder& decoder);    // after cp.async.bulk: exec_bulk.cc
void decode_bulk_reduce(Decoder& decoder);  // after cp.reduce.async.bulk: exec_bulk.cc
void decode_mbarrier(Decoder& decoder);     // exec_mbarrier.cc

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXEC_ASYNC_H_
