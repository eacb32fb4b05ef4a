// wgmma.*: see exec_wgmma.cc. The opcode table of the matrix instructions names it.
#ifndef TILELANG_SIMULATOR_EXEC_WGMMA_H_
#define TILELANG_SIMULATOR_EXEC_WGMMA_H_

namespace tilelang {
namespace simulator {

class Decoder;

void decode_wgmma(Decoder& decoder);

}  // namespace simulator
}  // namespace tilelang

#endif  // TILELANG_SIMULATOR_EXEC_WGMMA_H_
