# SPDX-License-Identifier: Apache-2.0
# How tests and examples are compiled, where there are tests.
find_package(GTest REQUIRED)

# Tests and examples are compiled for the shortest way from a change to its
# result: not optimized, with line numbers for backtraces. Loops that take time
# are in lockstep_test_support, which is optimized as the library is.
function(lockstep_quick_to_compile target)
  lockstep_compile_options(${target})
  target_compile_options(${target} PRIVATE -O0 -g1)
endfunction()

file(WRITE ${PROJECT_BINARY_DIR}/nothing.cc "")

# Headers that most tests need, compiled once: target lockstep_precompiled for
# those below the torch line, lockstep_precompiled_torch above it.
function(lockstep_precompile target)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;HEADERS" ${ARGN})
  add_library(${target} STATIC ${PROJECT_BINARY_DIR}/nothing.cc)
  lockstep_quick_to_compile(${target})
  # Compiled as the executables that use it are.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE)
  target_link_libraries(${target} PRIVATE ${ARG_LIBRARIES} GTest::gmock)
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()
lockstep_precompile(lockstep_precompiled LIBRARIES lockstep::comm fmt::fmt
  HEADERS <chrono> <functional> <memory> <string> <thread> <vector>
          <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h>)
if(LOCKSTEP_TORCH)
  lockstep_precompile(lockstep_precompiled_torch LIBRARIES lockstep::lockstep
    HEADERS <torch/torch.h> <gmock/gmock.h> <gtest/gtest.h>)
endif()

# lockstep_use_precompiled(TARGET HEADERS): HEADERS is one of the two above.
function(lockstep_use_precompiled target headers)
  target_precompile_headers(${target} REUSE_FROM ${headers})
  # The headers were compiled with it; programs without gtest do not have it.
  target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)
endfunction()
