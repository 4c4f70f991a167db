// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

// Where a rank meets the others on the network: an address of this host.
struct GlooDevice {
  std::string address;  // numeric
};

// The device of a network interface such as "eth0": its first IPv4 address, or
// IPv6 where it has no other.
// Errors: UsageError with the interfaces that are there.
GlooDevice gloo_device_of_interface(const std::string& name);

// The device with the address of a host name, or an address as text.
// Errors: UsageError when it is none of this host's.
GlooDevice gloo_device_of_host(const std::string& host);

// This host's own name, if that is an address others may use; else loopback,
// with one warning: ranks of other hosts cannot reach that.
GlooDevice default_gloo_device();

// How a large all_reduce is carried out; docs/gloo.md tells what was measured.
// Gloo's own combine partial results two at a time: half types and averages of
// integers, which that would spoil, always go the direct way.
enum class GlooAlgorithm {
  kRing,    // Gloo's ring
  kBcube,   // Gloo's bcube
  kDirect,  // each rank reduces one slice, in the order of ranks
};

// What the `gloo` backend may be told.
struct GlooOptions {
  // Several are used in turn. Without any: the interfaces in
  // LOCKSTEP_SOCKET_IFNAME, or GLOO_SOCKET_IFNAME, names with commas between;
  // without those the default device.
  std::vector<GlooDevice> devices;
  // Connections, with a thread for each, per device; used in turn.
  int threads = 1;
  // Without it LOCKSTEP_GLOO_ALGORITHM (ring, bcube, direct), else the ring. On
  // all ranks the same.
  std::optional<GlooAlgorithm> algorithm;
  // Messages of a collective that are at most so long go on connections of our
  // own, with less delay; 1 MB at most.
  size_t short_bytes = size_t{512} * 1024;
  // The direct way goes in windows of so many bytes; a multiple of 64.
  size_t window_bytes = size_t{1024} * 1024;
};

// The `gloo` backend: ranks are processes of any hosts that reach each other by
// TCP. The bulk of a collective goes through the Gloo library; short messages,
// and the news of who died, on connections of our own beside it.
//
// The ranks find each other through the store of the group. Before any data
// move all ranks have been found to mean the same. When a rank ends or a
// connection breaks, all others hear so, whether they talk to it or not.
//
// Errors: making a group throws TimeoutError with the ranks that did not come,
//         UsageError when a rank listens where others cannot reach it.
BackendFactory make_gloo_factory(const GlooOptions& options = {});

}  // namespace lockstep
