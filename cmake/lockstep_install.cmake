# SPDX-License-Identifier: Apache-2.0
# `cmake --install` gives headers, libraries, the command line and a CMake
# package, so that find_package(lockstep) works.
include(CMakePackageConfigHelpers)

get_property(targets GLOBAL PROPERTY LOCKSTEP_TARGETS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

install(TARGETS ${targets} EXPORT lockstepTargets)
get_property(torch_targets GLOBAL PROPERTY LOCKSTEP_TORCH_TARGETS)
if(torch_targets)
  install(TARGETS ${torch_targets} EXPORT lockstepTorchTargets)
  install(EXPORT lockstepTorchTargets NAMESPACE lockstep::
    DESTINATION ${package_dir})
endif()
install(TARGETS lockstep_tool RUNTIME)
install(DIRECTORY include/lockstep TYPE INCLUDE)
install(FILES tools/lockstep/lockstep.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES tools/lockstep/completion.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME lockstep)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${package_dir})

configure_package_config_file(cmake/lockstepConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lockstepConfigVersion.cmake
  DESTINATION ${package_dir})
