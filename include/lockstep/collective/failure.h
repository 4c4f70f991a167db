// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

// Why a group failed, in the form in which one rank tells the others.
struct Failure {
  ErrorKind kind = ErrorKind::kAborted;
  int by = -1;    // the rank that noticed
  int peer = -1;  // the rank it is about, if it is about one
  std::string text;
};

// The failure that rank `by` tells the others when `error` ended its work.
Failure failure_of(const std::exception_ptr& error, int by);

// What rank `rank` throws when it learns of `failure` from another. A late or
// lost peer and a mismatch are the same news for everybody, so the type stays;
// the rank that the news is about, and everybody else, get AbortedError.
std::exception_ptr error_of(const Failure& failure, int rank);

}  // namespace lockstep
