// SPDX-License-Identifier: Apache-2.0
#include "fault/matrix/surroundings.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "support/support.h"

namespace lockstep::faults {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;
constexpr const char* kSecret = "known to the ranks of the matrix";

// The numbers of the sockets a process has open.
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> inodes;
  std::error_code gone;
  const std::filesystem::directory_iterator files(
      fmt::format("/proc/{}/fd", process), gone);
  for (const auto& file : files) {
    const std::string target = std::filesystem::read_symlink(file, gone);
    if (target.rfind("socket:[", 0) == 0) {
      inodes.insert(target.substr(8, target.size() - 9));
    }
  }
  return inodes;
}

// Where a process listens, as /proc/PID/net/tcp has it: the local address is
// the second word, in hexadecimal, the state the fourth, the number of the
// socket the tenth.
std::vector<SocketAddress> doors_of(pid_t process) {
  const auto own = sockets_of(process);
  std::vector<SocketAddress> doors;
  std::istringstream table(
      testing::read_file(fmt::format("/proc/{}/net/tcp", process)));
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::vector<std::string> word(10);
    for (auto& one : word) words >> one;
    constexpr const char* kListening = "0A";
    if (word[3] != kListening || own.count(word[9]) == 0) continue;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = static_cast<in_addr_t>(
        std::strtoul(word[1].substr(0, 8).c_str(), nullptr, 16));
    address.sin_port = htons(static_cast<uint16_t>(
        std::strtoul(word[1].substr(9).c_str(), nullptr, 16)));
    doors.emplace_back(reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address));
  }
  return doors;
}

}  // namespace

bool Surroundings::is_visited(Fault fault) {
  return fault == Fault::kPortStolen || fault == Fault::kGarbage;
}

bool Surroundings::needs_lab(Fault fault) {
  return fault == Fault::kLinkCut || fault == Fault::kLinkSlowed;
}

Surroundings::Surroundings(Fault fault, int ranks) : fault_(fault) {
  const bool needs_store =
      fault == Fault::kStoreKilled || fault == Fault::kStoreUnreachable;
  if (!needs_store && !needs_lab(fault)) return;
  std::string host = "127.0.0.1";
  std::vector<std::string> command = {LOCKSTEP_STORE_WORKER, "serve", ""};
  if (needs_lab(fault)) {
    lab_ =
        std::make_unique<testing::NetLab>(ranks + 1);  // and one for the store
    host = lab_->address(ranks);
    command = {LOCKSTEP_STORE_WORKER, "serve", kSecret, host};
    command = lab_->on(ranks, command);
  }
  store_ = std::make_unique<testing::Child>(command);
  const auto port = store_->read_line(Deadline::in(kPatience));
  store_address_ = host + ":" + port.value_or("0");
}

void Surroundings::enter_into(testing::RankJobPlan& plan) const {
  plan.store = store_address_;
  if (!lab_) return;
  plan.place = [this](int rank, std::vector<std::string> command) {
    command.insert(command.begin(),
                   {"/usr/bin/env", std::string("LOCKSTEP_SECRET=") + kSecret,
                    "LOCKSTEP_SOCKET_IFNAME=" + lab_->interface(rank)});
    return lab_->on(rank, command);
  };
}

void Surroundings::strike(int rank, const std::vector<pid_t>& processes) {
  switch (fault_) {
    case Fault::kStoreKilled:
      store_->signal(SIGKILL);
      store_->wait();
      break;
    case Fault::kStoreUnreachable:
      store_->stop();
      break;
    case Fault::kLinkCut:
      lab_->cut(rank);
      break;
    case Fault::kLinkSlowed:
      lab_->limit(rank, 100);
      break;
    case Fault::kPortStolen:
    case Fault::kGarbage:
      sender_ = Thread("strangers", [this, processes] {
        while (!done_) {
          for (const pid_t process : processes) visit(process);
          std::this_thread::sleep_for(1ms);
        }
      });
      break;
    default:
      break;
  }
}

void Surroundings::mend(int rank) {
  if (fault_ == Fault::kLinkCut) lab_->mend(rank);
  done_ = true;
  sender_.join();
  LOCKSTEP_CHECK(!is_visited(fault_) || !strangers_.empty(), UsageError,
                 "no rank was seen to listen on any port");
}

Surroundings::~Surroundings() { done_ = true; }

void Surroundings::visit(pid_t process) {
  static const std::string garbage(1000, '\xee');
  for (const SocketAddress& door : doors_of(process)) {
    if (strangers_.count(to_text(door)) != 0) continue;
    try {
      Socket socket = Socket::connect({door}, Deadline::in(kPatience));
      if (fault_ == Fault::kGarbage)
        socket.send_all(garbage, Deadline::in(kPatience));
      strangers_.emplace(to_text(door), std::move(socket));
    } catch (const Error&) {
      // The door was closed meanwhile.
    }
  }
}

}  // namespace lockstep::faults
