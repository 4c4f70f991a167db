// SPDX-License-Identifier: Apache-2.0
// Every fault of the table, at every moment, on every backend: a test for each
// cell, with names like FaultMatrix.Kill/InCollective/Shm.
//
//   fault_matrix_test --print-page    prints docs/faults.md instead
#include <algorithm>
#include <cstring>
#include <iostream>

#include <gtest/gtest.h>

#include "fault/matrix/director.h"
#include "fault/matrix/table.h"
#include "lockstep/backend/init.h"
#include "support/support.h"

namespace lockstep::faults {
namespace {

class CellTest : public ::testing::Test {
 public:
  CellTest(const Row& row, Moment moment, Medium medium)
      : row_(row), moment_(moment), medium_(medium) {}
  void TestBody() override { expect_cell(row_, moment_, medium_); }

 private:
  const Row& row_;
  const Moment moment_;
  const Medium medium_;
};

bool is_built(Medium medium) {
  const auto names = backend_names();
  return std::find(names.begin(), names.end(), backend_of(medium)) !=
         names.end();
}

void register_cell(const Row& row, Moment moment, Medium medium) {
  const std::string name =
      row.name + "/" + name_of(moment) + "/" + name_of(medium);
#ifndef __clang_analyzer__  // which finds a leak in there
  ::testing::RegisterTest(
      "FaultMatrix", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
      [=, &row]() -> CellTest* { return new CellTest(row, moment, medium); });
#endif
}

void register_cells() {
  for (const Row& row : table()) {
    for (const Moment moment : all_moments()) {
      for (const Medium medium : all_media()) {
        if (!is_built(medium)) continue;
        if (cell_of(row, moment, medium).exists()) {
          register_cell(row, moment, medium);
        }
      }
    }
  }
}

TEST(FaultTable, HasARowForEachFaultInOrder) {
  ASSERT_EQ(table().size(), static_cast<size_t>(Fault::kGarbage) + 1);
  for (size_t i = 0; i < table().size(); ++i) {
    EXPECT_EQ(table()[i].fault, static_cast<Fault>(i)) << table()[i].name;
  }
}

TEST(FaultTable, IsWhatThePageSays) {
  EXPECT_EQ(testing::read_file(LOCKSTEP_FAULTS_PAGE), page())
      << "docs/faults.md is printed from the table; write it anew with\n"
         "  build/bin/fault_matrix_test --print-page > docs/faults.md";
}

}  // namespace
}  // namespace lockstep::faults

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--print-page") == 0) {
    std::cout << lockstep::faults::page();
    return 0;
  }
  ::testing::InitGoogleTest(&argc, argv);
  lockstep::faults::register_cells();
  return RUN_ALL_TESTS();
}
