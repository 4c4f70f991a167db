// SPDX-License-Identifier: Apache-2.0
// What the thread sanitizer gets wrong, for every test.

// The counter inside std::exception_ptr is atomic, but it is counted in
// libstdc++, which the sanitizer cannot see: an error that one thread reads
// and another destroys, later, looks like a race. So do things that Gloo's
// threads hand to each other by atomics of its own.
// NOLINTBEGIN(bugprone-reserved-identifier): the name is the sanitizer's
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n"
         "race:gloo::transport::\n";
}
// NOLINTEND(bugprone-reserved-identifier)
