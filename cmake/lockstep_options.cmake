# SPDX-License-Identifier: Apache-2.0
# How our own code is compiled. Other people's targets are never touched: a
# program that adds lockstep as a subdirectory keeps its own flags.

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(CCACHE ccache)
  if(CCACHE)
    # CCACHE_SLOPPINESS lets it cache what uses a precompiled header.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
        ${CCACHE})
  endif()
endif()

# lockstep_compile_options(target): language level, warnings, sanitizers.
function(lockstep_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_17)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Wcast-qual -Wunused -Woverloaded-virtual -Wdouble-promotion
    $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
  if(CMAKE_UNITY_BUILD)
    # Where sources are included into one, anonymous namespaces look like those
    # of headers.
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(LOCKSTEP_SANITIZE)
    target_compile_options(${target} PUBLIC
      -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${LOCKSTEP_SANITIZE})
    # g++ warns of the standard library's own code there.
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  endif()
endfunction()
