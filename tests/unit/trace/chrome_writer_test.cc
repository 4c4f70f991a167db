// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/thread.h"
#include "lockstep/trace/trace.h"
#include "support/support.h"

namespace lockstep::trace {
namespace {

using Json = nlohmann::json;

class ChromeWriter : public ::testing::Test {
 protected:
  ChromeWriter() {
    clear();
    start();
  }
  ~ChromeWriter() override {
    stop();
    clear();
  }

  Json written() {
    const std::string path = directory_.file("trace.json");
    write_chrome(path);
    return Json::parse(testing::read_file(path)).at("traceEvents");
  }

  // The first event that has these two fields.
  static Json find(const Json& events, const std::string& phase,
                   const std::string& name) {
    for (const auto& event : events) {
      if (event.at("ph") == phase && event.at("name") == name) return event;
    }
    ADD_FAILURE() << "no event " << phase << " " << name;
    return {};
  }

  testing::TempDir directory_;
};

TEST_F(ChromeWriter, AnEmptyTraceIsValid) { EXPECT_TRUE(written().empty()); }

TEST_F(ChromeWriter, WritesSpansFlowsAndNames) {
  const uint64_t flow = new_flow();
  Thread lane("lane", [&] {
    set_thread_rank(2);
    Span span("all_reduce \"x\"\n", "comm");
    span.arg("bytes", 1 << 20);
    flow_in("launch", flow);
  });
  lane.join();
  flow_out("launch", flow);
  instant("here", "test");

  const Json events = written();
  const Json span = find(events, "X", "all_reduce \"x\"\n");
  EXPECT_EQ(span.at("pid"), 2);
  EXPECT_EQ(span.at("cat"), "comm");
  EXPECT_EQ(span.at("args").at("bytes"), 1 << 20);
  EXPECT_GE(span.at("dur").get<double>(), 0);
  EXPECT_EQ(find(events, "s", "launch").at("id"), flow);
  EXPECT_EQ(find(events, "f", "launch").at("id"), flow);
  EXPECT_EQ(find(events, "f", "launch").at("pid"), 2);
  EXPECT_EQ(find(events, "i", "here").at("pid"), 0);

  bool lane_named = false;
  bool rank_named = false;
  for (const auto& event : events) {
    if (event.at("ph") != "M") continue;
    const auto name = event.at("args").at("name");
    lane_named |= event.at("name") == "thread_name" && name == "lane" &&
                  event.at("tid") == span.at("tid");
    rank_named |= event.at("name") == "process_name" && name == "rank 2" &&
                  event.at("pid") == 2;
  }
  EXPECT_TRUE(lane_named);
  EXPECT_TRUE(rank_named);
}

TEST_F(ChromeWriter, NamesThatAreNoTextStillGiveValidJson) {
  instant(intern("bad \xff\xfe byte"), "test");
  EXPECT_FALSE(written().empty());
}

TEST_F(ChromeWriter, AFailureNamesTheFileAndLeavesNothing) {
  const std::string path = directory_.file("missing/trace.json");
  try {
    write_chrome(path);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
  }
  instant("x", "test");
  EXPECT_THROW(write_chrome("/dev/full/x"), SystemError);
}

}  // namespace
}  // namespace lockstep::trace
