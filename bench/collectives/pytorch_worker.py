# SPDX-License-Identifier: Apache-2.0
"""One rank of PyTorch's ProcessGroupGloo, for pytorch_workshop.cc.

Usage: pytorch_worker.py RANK SIZE ADDRESS SPARE_CPU PORT

Reads orders (see order.h) and answers them with the mean seconds of an
all_reduce, the way workshop.cc does it.
"""
import os
import sys
import time

import torch
import torch.distributed as dist


def threads():
    return {int(name) for name in os.listdir("/proc/self/task")}


def join(store, rank, size, spare_cpu):
    """Joins the group, and binds its threads as gloo_runner.cc does.

    The group first makes a device, whose thread comes first and goes to the
    spare core; then threads that carry out operations while the rank's own
    waits. On any core, or all on one, small ones take up to ten times longer.
    """
    own = os.sched_getaffinity(0)
    before = threads()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    device, *others = sorted(threads() - before)
    os.sched_setaffinity(device, {spare_cpu})
    for thread in others:
        os.sched_setaffinity(thread, own)


def verify(data, rank, size):
    """One all_reduce on numbers whose sums float32 has exactly."""
    position = torch.arange(data.numel()) % 1021
    data.copy_(position + rank + 1)
    dist.all_reduce(data)
    expected = position * size + size * (size + 1) // 2
    if not torch.equal(data, expected.float()):
        raise RuntimeError(f"wrong sums of {data.numel()} numbers")
    data.zero_()


def main():
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    address, spare_cpu, port = sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    torch.set_num_threads(1)
    store = dist.TCPStore(address, port, size, rank == 0, wait_for_workers=False)
    if rank == 0:
        print(store.port, flush=True)
    join(store, rank, size, spare_cpu)
    print(f"PyTorch {torch.__version__}, ProcessGroupGloo from Python on "
          f"{os.environ['GLOO_SOCKET_IFNAME']}, 1 thread of torch's, its "
          "device's thread bound to another core than the rank", flush=True)

    data = torch.empty(0)
    for line in sys.stdin:
        _, _, byte_count, times, _ = map(int, line.split())
        if data.numel() != byte_count // 4:
            data = torch.zeros(byte_count // 4)
            verify(data, rank, size)
        for _ in range(max(1, times // 10)):
            dist.all_reduce(data)
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(data)
        print((time.perf_counter() - begin) / times, 0, 0, flush=True)


if __name__ == "__main__":
    main()
