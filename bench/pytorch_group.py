# SPDX-License-Identifier: Apache-2.0
"""How a rank of PyTorch's joins its group, for collectives/ and ddp/.

Arguments: RANK SIZE ADDRESS SPARE_CPU PORT
"""
import os
import sys

import torch
import torch.distributed as dist


def threads():
    return {int(name) for name in os.listdir("/proc/self/task")}


def join():
    """Joins, says on which port if it is rank 0, and returns rank and size.

    Threads are bound as gloo_runner.cc does. The group first makes a device,
    whose thread comes first and goes to the spare core; then threads that carry
    out operations while the rank's own waits. On any core, or all on one, small
    ones take up to ten times longer.
    """
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    address, spare_cpu, port = sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    torch.set_num_threads(1)
    store = dist.TCPStore(address, port, size, rank == 0, wait_for_workers=False)
    if rank == 0:
        print(store.port, flush=True)
    own = os.sched_getaffinity(0)
    before = threads()
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    device, *others = sorted(threads() - before)
    os.sched_setaffinity(device, {spare_cpu})
    for thread in others:
        os.sched_setaffinity(thread, own)
    return rank, size
