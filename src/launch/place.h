// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace lockstep::detail {

// Which launcher's variables were found.
enum class Starter { kNobody, kLockstep, kTorchrun, kOpenMpi, kMpich, kSlurm };

const char* to_text(Starter starter);

// What the environment says about this process: only the variables, nothing
// is opened.
struct Place {
  Starter starter = Starter::kNobody;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;  // 0: not told
  int node_rank = 0;
  int restart_count = 0;
  std::string job_id;       // unique among the jobs of this host, or empty
  std::string master_host;  // where rank 0 can serve a store, if told
  int master_port = 0;

  // All ranks are on this host.
  bool is_one_host() const { return local_size == size; }
};

// Errors: UsageError as find_world says.
Place read_place();

// "node[03-05,9],gpu1" -> "node03".
std::string first_host(const std::string& slurm_node_list);

}  // namespace lockstep::detail
