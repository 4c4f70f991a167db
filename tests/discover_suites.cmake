# SPDX-License-Identifier: Apache-2.0
# Run after a test program is built (see lockstep_test in CMakeLists.txt): asks
# it for its tests and writes a ctest file with one test per gtest suite, so that
# a suite costs one process. Tests that match OWN_PROCESS get one each; with
# BY_PARAMETER each parameter of a suite does.
#
# PROGRAM, NAME, OUTPUT, RESULTS, PROPERTIES, OWN_PROCESS, BY_PARAMETER come with
# -D.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests
  OUTPUT_VARIABLE listed RESULT_VARIABLE failed TIMEOUT 60)
if(failed)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${failed}\n${listed}")
endif()

set(script "")
# add(TEST FILTER): FILTER as gtest takes it.
function(add test filter)
  string(REGEX REPLACE "[^A-Za-z0-9_.]" "-" file "${test}")
  string(APPEND script
    "add_test([==[${test}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${filter}]==]"
    " [==[--gtest_output=json:${RESULTS}/${file}.json]==])\n"
    "set_tests_properties([==[${test}]==] PROPERTIES ${PROPERTIES})\n")
  set(script "${script}" PARENT_SCOPE)
endfunction()

# A suite's tests follow its name, indented; comments follow a '#'.
string(REGEX REPLACE "#[^\n]*" "" listed "${listed}")
string(REPLACE ";" "\\;" listed "${listed}")
string(REPLACE "\n" ";" lines "${listed}")
set(suite "")
set(alone "")       # tests of the suite that have a process of their own
set(parameters "")  # of the others; "*" for all of them
macro(end_suite)
  set(excluded "")
  if(alone)
    list(JOIN alone ":" excluded)
    set(excluded "-${excluded}")
  endif()
  list(REMOVE_DUPLICATES parameters)
  string(REGEX REPLACE "\\.$" "" title "${NAME}.${suite}")
  foreach(parameter IN LISTS parameters)
    if(parameter STREQUAL "*")
      add("${title}" "${suite}*${excluded}")
    else()
      add("${title}/${parameter}" "${suite}*/${parameter}${excluded}")
    endif()
  endforeach()
  set(alone "")
  set(parameters "")
endmacro()
foreach(line IN LISTS lines)
  string(REGEX REPLACE "[ \t]+$" "" line "${line}")
  if(line MATCHES "^[^ ].*\\.$")
    end_suite()
    set(suite "${line}")
  elseif(line MATCHES "^  ([^ ]+)$")
    set(name "${CMAKE_MATCH_1}")
    set(test "${suite}${name}")
    if(OWN_PROCESS AND test MATCHES "${OWN_PROCESS}")
      list(APPEND alone "${test}")
      add("${NAME}.${test}" "${test}")
    elseif(BY_PARAMETER AND name MATCHES "/([^/]+)$")
      list(APPEND parameters "${CMAKE_MATCH_1}")
    else()
      list(APPEND parameters "*")
    endif()
  endif()
endforeach()
end_suite()
if(script STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE ${OUTPUT} "${script}")
