// cli/flag_table.h
// The flags that several commands have: one name, one meaning, one set of environment variables each.
//
// Names are llama-server's where it has the flag, and so are the LLAMA_ARG_ variables.
#pragma once

#include "cli/flags.h"

namespace kvasir::cli {

inline constexpr Flag kModelFlag{"-m --model", "FILE", "GGUF file, or the name of a model in $KVASIR_MODELS (smollm2)",
                                 "LLAMA_ARG_MODEL KVASIR_MODEL"};
inline constexpr Flag kContextFlag{"-c --ctx-size", "N", "tokens of a sequence; 0: as trained, or what memory allows",
                                   "LLAMA_ARG_CTX_SIZE KVASIR_CTX_SIZE"};
inline constexpr Flag kThreadsFlag{"-t --threads", "N", "CPU threads; 0: one per physical core",
                                   "LLAMA_ARG_THREADS KVASIR_THREADS"};
inline constexpr Flag kBatchFlag{"-b --batch-size", "N", "most tokens handed to a step, before -ub",
                                 "LLAMA_ARG_BATCH KVASIR_BATCH"};
inline constexpr Flag kUbatchFlag{"-ub --ubatch-size", "N", "tokens evaluated in one step",
                                  "LLAMA_ARG_UBATCH KVASIR_UBATCH"};
inline constexpr Flag kTypeKFlag{"-ctk --cache-type-k", "TYPE", "type of the keys: f32, f16, q8_0",
                                 "LLAMA_ARG_CACHE_TYPE_K KVASIR_CACHE_TYPE_K"};
inline constexpr Flag kTypeVFlag{"-ctv --cache-type-v", "TYPE", "type of the values: f32, f16, q8_0",
                                 "LLAMA_ARG_CACHE_TYPE_V KVASIR_CACHE_TYPE_V"};
inline constexpr Flag kParallelFlag{"-np --parallel", "N", "agents (sequences) at the same time",
                                    "LLAMA_ARG_N_PARALLEL KVASIR_PARALLEL"};
inline constexpr Flag kPredictFlag{"-n --predict", "N", "tokens to generate at most; -1: until the model ends",
                                   "LLAMA_ARG_N_PREDICT KVASIR_PREDICT"};
inline constexpr Flag kIsaFlag{"--isa", "LEVEL", "kernels: auto, ref, avx2, avx512", "KVASIR_ISA"};
inline constexpr Flag kJsonFlag{"--json", "", "one JSON object on standard output"};

}  // namespace kvasir::cli
