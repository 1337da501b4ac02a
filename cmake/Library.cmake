# kvasir_library(NAME [DEPS ...] [LIBS ...])
#
# One static library per folder: every *.cc of the calling folder, tests and fuzz targets apart. DEPS are kvasir libraries (the
# arrows of src/LAYERS), LIBS third-party targets. *_test.cc become one test binary, NAME_test, registered with CTest under the
# label `unit`; lists are globbed, so a test cannot be left out.
function(kvasir_library NAME)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  add_library(kvasir_${NAME} STATIC ${sources})
  target_include_directories(kvasir_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPS PREPEND kvasir_)
  target_link_libraries(kvasir_${NAME} PUBLIC ${ARG_DEPS} ${ARG_LIBS})

  if(tests)
    kvasir_test(${NAME}_test SOURCES ${tests} LABELS unit DEPS ${NAME})
  endif()
endfunction()

# kvasir_test(NAME SOURCES ... LABELS ... [DEPS ...] [LIBS ...])
function(kvasir_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;LABELS;DEPS;LIBS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND kvasir_)
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${NAME} PRIVATE KVASIR_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
  set_tests_properties(${NAME} PROPERTIES LABELS "${ARG_LABELS}")
endfunction()

# kvasir_isa_flags(): gives every avx2*.cc, avx512*.cc and avx512_amx*.cc below the calling folder its instruction set. Kernel files are always
# optimised fully: at -O2 g++ 12 leaves accumulator arrays in memory and runs 1.6-4x slower (docs/adr/0002). g++ 12 warns of an
# uninitialised variable inside its own AVX-512 intrinsics (GCC bug 105593). Without -mtune clang splits 32-byte loads in two.
function(kvasir_isa_flags)
  file(GLOB_RECURSE avx2 CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/avx2*.cc)
  file(GLOB_RECURSE avx512 CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/avx512*.cc)
  set(avx2_flags -O3 -mavx2 -mfma -mf16c -mbmi2 -mtune=haswell)
  set_source_files_properties(${avx2} PROPERTIES COMPILE_OPTIONS "${avx2_flags}")
  set_source_files_properties(${avx512} PROPERTIES COMPILE_OPTIONS
    "${avx2_flags};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni;-mprefer-vector-width=512;-mtune=icelake-server;$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>;$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
  set(amx ${avx512})
  list(FILTER amx INCLUDE REGEX "avx512_amx")
  set_property(SOURCE ${amx} APPEND PROPERTY COMPILE_OPTIONS -mamx-tile -mamx-int8)
endfunction()
