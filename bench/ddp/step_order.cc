// SPDX-License-Identifier: Apache-2.0
#include "ddp/step_order.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

constexpr double StepTimes::*kParts[] = {
    &StepTimes::step,         &StepTimes::zero,      &StepTimes::forward,
    &StepTimes::backward,     &StepTimes::update,    &StepTimes::wait,
    &StepTimes::longest_wait, &StepTimes::lane,      &StepTimes::local_steps,
    &StepTimes::processor,    &StepTimes::wire_bytes};

}  // namespace

std::string to_text(const StepOrder& order) {
  return fmt::format("{} {} {} {} {} {} {} {:d}", order.model, order.batch,
                     order.mode, order.bucket_bytes, order.hook,
                     order.gradients, order.steps, order.traced);
}

StepOrder parse_step_order(const std::string& text) {
  StepOrder order;
  std::istringstream words(text);
  words >> order.model >> order.batch >> order.mode >> order.bucket_bytes >>
      order.hook >> order.gradients >> order.steps >> order.traced;
  LOCKSTEP_CHECK(!words.fail(), PeerError, "'{}' is no order", text);
  return order;
}

std::string to_text(const StepTimes& times) {
  std::string text;
  for (const auto part : kParts) text += fmt::format("{} ", times.*part);
  return text;
}

StepTimes parse_step_times(const std::string& text) {
  StepTimes times;
  std::istringstream words(text);
  for (const auto part : kParts) words >> times.*part;
  LOCKSTEP_CHECK(!words.fail(), PeerError, "'{}' is no answer", text);
  return times;
}

StepTimes operator+(StepTimes a, const StepTimes& b) {
  for (const auto part : kParts) a.*part += b.*part;
  return a;
}

StepTimes operator/(StepTimes times, double divisor) {
  for (const auto part : kParts) times.*part /= divisor;
  return times;
}

StepTimes slowest(const std::vector<std::string>& answers) {
  StepTimes all;
  double least_wait = std::numeric_limits<double>::infinity();
  for (const std::string& text : answers) {
    const StepTimes one = parse_step_times(text);
    for (const auto part : kParts) all.*part = std::max(all.*part, one.*part);
    least_wait = std::min(least_wait, one.wait);
  }
  all.wait = least_wait;
  return all;
}

}  // namespace lockstep::bench
