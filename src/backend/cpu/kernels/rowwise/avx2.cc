#include "backend/cpu/kernels/rowwise/rowwise.h"
#include "backend/cpu/kernels/simd_avx2.h"

namespace kvasir::backend::cpu::avx2 {

#include "backend/cpu/kernels/rowwise/rowwise.inc"

const RowKernels kRowKernels = kTable;

}  // namespace kvasir::backend::cpu::avx2
