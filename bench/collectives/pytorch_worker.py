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

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
import pytorch_group  # noqa: E402


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
    rank, size = pytorch_group.join()
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
