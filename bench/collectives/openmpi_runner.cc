// SPDX-License-Identifier: Apache-2.0
// Open MPI, through the blocking calls of MPI.
#include <mpi.h>

#include <vector>

#include <fmt/format.h>

#include "collectives/runner.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

void check(int code) {
  LOCKSTEP_CHECK(code == MPI_SUCCESS, InternalError, "MPI error {}", code);
}

class OpenMpiRunner : public Runner {
 public:
  explicit OpenMpiRunner(const Place& place) : size_(place.size) {
    check(::MPI_Init(nullptr, nullptr));
    int rank = 0;
    int size = 0;
    check(::MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    check(::MPI_Comm_size(MPI_COMM_WORLD, &size));
    LOCKSTEP_CHECK(rank == place.rank && size == place.size, InternalError,
                   "MPI has us as rank {} of {}, not {} of {}", rank, size,
                   place.rank, place.size);
  }
  ~OpenMpiRunner() override { ::MPI_Finalize(); }

  std::string settings() const override {
    int major = 0;
    int minor = 0;
    int release = 0;
#ifdef OMPI_MAJOR_VERSION
    major = OMPI_MAJOR_VERSION;
    minor = OMPI_MINOR_VERSION;
    release = OMPI_RELEASE_VERSION;
#endif
    return fmt::format("Open MPI {}.{}.{}, blocking calls, in place", major,
                       minor, release);
  }

  void barrier() override { check(::MPI_Barrier(MPI_COMM_WORLD)); }
  void all_reduce(float* data, size_t count) override {
    check(::MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count),
                          MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  }
  void broadcast(float* data, size_t count) override {
    check(::MPI_Bcast(data, static_cast<int>(count), MPI_FLOAT, 0,
                      MPI_COMM_WORLD));
  }
  void all_gather(float* data, size_t count) override {
    check(::MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, part(count),
                          MPI_FLOAT, MPI_COMM_WORLD));
  }
  void reduce_scatter(float* in, float* out, size_t count) override {
    // Quicker than MPI_Reduce_scatter_block.
    const std::vector<int> parts(static_cast<size_t>(size_), part(count));
    check(::MPI_Reduce_scatter(in, out, parts.data(), MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD));
  }

 private:
  int part(size_t count) const { return static_cast<int>(count) / size_; }

  const int size_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(const Place& place) {
  return std::make_unique<OpenMpiRunner>(place);
}

}  // namespace lockstep::bench
