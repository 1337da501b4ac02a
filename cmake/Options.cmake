# Project-wide compile options. No global -march and no -ffast-math: kernel files carry their own ISA flags (Library.cmake).

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

option(KVASIR_WERROR "Treat warnings as errors" OFF)
option(KVASIR_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(KVASIR_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=: address,undefined or thread")

add_compile_options(
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wimplicit-fallthrough
  # The baseline every x86-64 machine of the last fifteen years has.
  -march=x86-64-v2
  # Contraction is explicit: FMA is written where FMA is meant (docs/numerics.md, rule 2).
  -ffp-contract=off
  # Frame pointers keep profiles and sanitizer stacks readable.
  -fno-omit-frame-pointer
  # g++ 12 asks for every member even where designated initialisers leave the others at their defaults on purpose.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers>)
if(KVASIR_WERROR)
  add_compile_options(-Werror)
endif()
if(KVASIR_SANITIZE)
  add_compile_options(-fsanitize=${KVASIR_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KVASIR_SANITIZE})
endif()
if(KVASIR_FUZZ)
  # Coverage of every library; the fuzz targets alone link the fuzzer (fuzz/CMakeLists.txt).
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
