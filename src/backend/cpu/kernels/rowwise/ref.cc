#include "backend/cpu/kernels/rowwise/rowwise.h"
#include "backend/cpu/kernels/simd_ref.h"

namespace kvasir::backend::cpu::ref {

#include "backend/cpu/kernels/rowwise/rowwise.inc"

const RowKernels kRowKernels = kTable;

}  // namespace kvasir::backend::cpu::ref
