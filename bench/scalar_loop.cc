// SPDX-License-Identifier: Apache-2.0
// The plain loop once more, compiled without the compiler's own vectors.
#define plain_loop scalar_loop
#include "plain_loop.cc"
