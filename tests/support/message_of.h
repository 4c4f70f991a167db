// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::testing {

// What an action throws, as text; the test fails when it throws nothing, or
// something else than an ErrorType.
template <class ErrorType, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace lockstep::testing
