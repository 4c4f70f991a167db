// SPDX-License-Identifier: Apache-2.0
#include "support/net_lab.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "lockstep/base/env.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kCommandTime = 20s;  // for what takes milliseconds
constexpr const char* kSwitch = "switch";
constexpr const char* kInterface = "eth0";

std::string port_of(int host) { return "port" + std::to_string(host); }

std::string line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::vector<std::string> in_namespace_of(const Child& holder) {
  return {"/usr/bin/env", "nsenter", "--target", std::to_string(holder.pid()),
          "--net",        "--"};
}

// Runs a command of `ip` or `tc` in the holder's namespace.
void tell(const Child& holder, const std::vector<std::string>& command) {
  auto arguments = in_namespace_of(holder);
  arguments.insert(arguments.end(), command.begin(), command.end());
  Child child(arguments, /*with_errors=*/true);
  const auto said = child.read_all(Deadline::in(kCommandTime));
  if (child.wait() != 0) {
    throw std::runtime_error(line_of(command) + ": " + line_of(said));
  }
}

std::unique_ptr<Child> make_namespace() {
  auto holder = std::make_unique<Child>(std::vector<std::string>{
      LOCKSTEP_NET_LAB_HOLDER, std::to_string(::getpid())});
  const auto line = holder->read_line(Deadline::in(kCommandTime));
  if (line != "ready") {
    throw std::runtime_error("no network namespace: " +
                             line.value_or("nothing is said about why"));
  }
  tell(*holder, {"ip", "link", "set", "lo", "up"});
  return holder;
}

// A bucket of tokens: what is sent at once after a pause, and what waits. Both
// hold some packets of 64 KB, which is what the kernel hands over.
std::vector<std::string> bucket(int megabits) {
  constexpr int kPacket = 64 << 10;
  const int bytes_per_ms = megabits * 125;
  return {"tbf",
          "rate",
          std::to_string(megabits) + "mbit",
          "burst",
          std::to_string(std::max(kPacket, bytes_per_ms)),
          "limit",
          std::to_string(std::max(4 * kPacket, 100 * bytes_per_ms))};
}

std::string find_reason() {
  try {
    NetLab(1).limit(0, 1000);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void enter(const Fd& network) {
  if (!network || ::setns(network.get(), CLONE_NEWNET) != 0) {
    throw std::runtime_error(std::string("cannot change the network: ") +
                             std::strerror(errno));
  }
}

}  // namespace

NetLab::NetLab(int hosts) : switch_(make_namespace()) {
  tell(*switch_, {"ip", "link", "add", kSwitch, "type", "bridge"});
  tell(*switch_, {"ip", "link", "set", kSwitch, "up"});
  for (int host = 0; host < hosts; ++host) {
    hosts_.push_back({make_namespace()});
    plug_in(host);
  }
}

NetLab::~NetLab() {
  // All at once, since each looks through all processes.
  for (const auto& host : hosts_) host.holder->signal(SIGTERM);
  switch_->signal(SIGTERM);
  for (const auto& host : hosts_) host.holder->wait();
  switch_->wait();
}

void NetLab::plug_in(int host) {
  const Child& holder = *hosts_.at(static_cast<size_t>(host)).holder;
  tell(*switch_, {"ip", "link", "add", port_of(host), "type", "veth", "peer",
                  "name", kInterface, "netns", std::to_string(holder.pid())});
  tell(*switch_, {"ip", "link", "set", port_of(host), "master", kSwitch, "up"});
  tell(holder,
       {"ip", "address", "add", address(host) + "/16", "dev", kInterface});
  tell(holder, {"ip", "link", "set", kInterface, "up"});
}

std::string NetLab::why_not() {
  static const std::string reason = find_reason();
  return reason;
}

std::string NetLab::complaint() {
  const std::string reason = why_not();
  if (reason.empty()) return "";
  return "NETWORK NAMESPACES ARE NOT ALLOWED HERE, so this was not tested: " +
         reason;
}

bool NetLab::may_be_missing() {
  return env::boolean("LOCKSTEP_NO_NAMESPACES").value_or(false);
}

std::string NetLab::address(int host) const {
  const int number = host + 1;
  return "10.87." + std::to_string(number / 256) + "." +
         std::to_string(number % 256);
}

std::string NetLab::interface(int /*host*/) const { return kInterface; }

std::vector<std::string> NetLab::on(int host,
                                    const std::vector<std::string>& command,
                                    Pids pids) const {
  auto words = in_namespace_of(*hosts_.at(static_cast<size_t>(host)).holder);
  if (pids == Pids::kOwn) {
    words.insert(words.end(), {"unshare", "--pid", "--fork", "--kill-child",
                               "--mount-proc", "--"});
  }
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

NetLab::Visit::Visit(const NetLab& lab, int host)
    : home_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  const auto holder = lab.hosts_.at(static_cast<size_t>(host)).holder->pid();
  const std::string there = "/proc/" + std::to_string(holder) + "/ns/net";
  enter(Fd(::open(there.c_str(), O_RDONLY | O_CLOEXEC)));
}

NetLab::Visit::~Visit() { ::setns(home_.get(), CLONE_NEWNET); }

void NetLab::cut(int host) {
  tell(*switch_, {"ip", "link", "set", port_of(host), "down"});
}

void NetLab::mend(int host) {
  tell(*switch_, {"ip", "link", "set", port_of(host), "up"});
}

void NetLab::limit(int host, int megabits) {
  Host& limited = hosts_.at(static_cast<size_t>(host));
  if (megabits == 0 && !limited.limited) return;
  // A queue limits what is sent: from here by the host, to here by the switch.
  const auto queue = [&](const Child& holder, const std::string& interface) {
    std::vector<std::string> command = {
        "tc",  "qdisc",   megabits == 0 ? "delete" : "replace",
        "dev", interface, "root"};
    if (megabits > 0) {
      const auto more = bucket(megabits);
      command.insert(command.end(), more.begin(), more.end());
    }
    tell(holder, command);
  };
  queue(*limited.holder, kInterface);
  queue(*switch_, port_of(host));
  limited.limited = megabits > 0;
}

}  // namespace lockstep::testing
