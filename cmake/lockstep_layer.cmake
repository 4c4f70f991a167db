# SPDX-License-Identifier: Apache-2.0
# lockstep_layer(NAME SOURCES ... [LAYERS ...] [PRIVATE ...] [PUBLIC ...]
#                [ABOVE_TORCH_LINE])
#
# One library per layer of the design. LAYERS are the layers it may include;
# a missing one fails at link time, and tests/layers checks the includes.
# PRIVATE libraries stay out of our public headers. Layers ABOVE_TORCH_LINE are
# installed as a set of their own, which needs libtorch.
function(lockstep_layer name)
  cmake_parse_arguments(ARG "ABOVE_TORCH_LINE" "" "SOURCES;LAYERS;PRIVATE;PUBLIC" ${ARGN})
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
  lockstep_install_with(${target} ${ARG_ABOVE_TORCH_LINE})
endfunction()

function(lockstep_install_with target above_torch_line)
  if(above_torch_line)
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TORCH_TARGETS ${target})
  else()
    set_property(GLOBAL APPEND PROPERTY LOCKSTEP_TARGETS ${target})
  endif()
endfunction()
