# SPDX-License-Identifier: Apache-2.0
# lockstep_layer(NAME SOURCES ... [LAYERS ...] [PRIVATE ...] [PUBLIC ...])
#
# One library per layer of the design. LAYERS are the layers it may include;
# a missing one fails at link time, and tests/layers checks the includes.
# PRIVATE libraries stay out of our public headers.
function(lockstep_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LAYERS;PRIVATE;PUBLIC" ${ARGN})
  set(target lockstep_${name})
  add_library(${target} ${ARG_SOURCES})
  add_library(lockstep::${name} ALIAS ${target})
  lockstep_compile_options(${target})
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM ARG_LAYERS PREPEND lockstep::)
  target_link_libraries(${target}
    PUBLIC ${ARG_LAYERS} ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TARGETS ${target})
endfunction()
