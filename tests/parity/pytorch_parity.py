#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains two models with PyTorch's DDP and with ours, from the same weights on
the same data, and compares every gradient of every step and the weights at the
end, bit by bit.

    pytorch_parity.py LOCKSTEP PYTORCH_WORKER
"""
import os
import struct
import subprocess
import sys
import tempfile

RANKS, STEPS, BATCH = 2, 20, 8
PATIENCE = 150  # seconds


def models():
    import torch

    class Mlp(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(20, 64)
            self.second = torch.nn.Linear(64, 64)
            self.third = torch.nn.Linear(64, 10)

        def forward(self, x):
            return self.third(torch.relu(self.second(torch.relu(self.first(x)))))

    class Conv(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 6, 3)
            self.out = torch.nn.Linear(6 * 6 * 6, 10)

        def forward(self, x):
            hidden = torch.relu(self.conv(x.view(-1, 1, 8, 8)))
            return self.out(hidden.flatten(1))

    return {'mlp': (Mlp, 20), 'conv': (Conv, 64)}


def to_bytes(tensor):
    values = tensor.detach().contiguous().flatten().tolist()
    return struct.pack(f'{len(values)}f', *values)


def write_problem(directory):
    import torch
    torch.manual_seed(5)
    for name, (make, inputs) in models().items():
        with open(f'{directory}/{name}.start', 'wb') as file:
            for one in make().parameters():
                file.write(to_bytes(one))
        for rank in range(RANKS):
            with open(f'{directory}/{name}.data.{rank}', 'wb') as file:
                for _ in range(STEPS):
                    file.write(to_bytes(torch.randn(BATCH, inputs)))
                    file.write(to_bytes(torch.randn(BATCH, 10)))


def read(file, sizes):
    import torch
    count = 1
    for size in sizes:
        count *= size
    values = struct.unpack(f'{count}f', file.read(4 * count))
    return torch.tensor(values).view(sizes)


def train_theirs(directory, rank):
    import torch
    import torch.distributed
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        'gloo', init_method=f'file://{directory}/meeting', rank=rank,
        world_size=RANKS)
    for name, (make, inputs) in models().items():
        for optimizer_name in ('sgd', 'adam'):
            net = make()
            with open(f'{directory}/{name}.start', 'rb') as file, \
                    torch.no_grad():
                for one in net.parameters():
                    one.copy_(read(file, one.shape))
            ddp = torch.nn.parallel.DistributedDataParallel(
                net, bucket_cap_mb=2048 / 2**20, gradient_as_bucket_view=True)
            if optimizer_name == 'sgd':
                optimizer = torch.optim.SGD(net.parameters(), 0.05,
                                            momentum=0.9)
            else:
                optimizer = torch.optim.Adam(net.parameters(), 0.01)
            with open(f'{directory}/{name}.data.{rank}', 'rb') as data, \
                    open(f'{directory}/{name}.{optimizer_name}.theirs.{rank}',
                         'wb') as result:
                for _ in range(STEPS):
                    x = read(data, (BATCH, inputs))
                    y = read(data, (BATCH, 10))
                    optimizer.zero_grad()
                    (ddp(x) - y).pow(2).mean().backward()
                    for one in net.parameters():
                        result.write(to_bytes(one.grad))
                    optimizer.step()
                for one in net.parameters():
                    result.write(to_bytes(one))
    torch.distributed.destroy_process_group()


def run_all(commands):
    """Starts all, and waits for them; none outlives this."""
    children = [subprocess.Popen(command) for command in commands]
    try:
        for child in children:
            if child.wait(PATIENCE) != 0:
                sys.exit(f'{child.args} ended with {child.returncode}')
    finally:
        for child in children:
            child.kill()
            child.wait()


def compare(directory):
    """Says how many numbers differ, for each model and optimizer."""
    bad = 0
    for name in models():
        for optimizer in ('sgd', 'adam'):
            for rank in range(RANKS):
                base = f'{directory}/{name}.{optimizer}'
                with open(f'{base}.ours.{rank}', 'rb') as file:
                    ours = file.read()
                with open(f'{base}.theirs.{rank}', 'rb') as file:
                    theirs = file.read()
                if len(ours) != len(theirs) or not ours:
                    sys.exit(f'{base}: {len(ours)} and {len(theirs)} bytes')
                count = len(ours) // 4
                a = struct.unpack(f'{count}I', ours)
                b = struct.unpack(f'{count}I', theirs)
                differing = sum(x != y for x, y in zip(a, b))
                bad += differing
                print(f'{name}, {optimizer}, rank {rank}: {differing} of '
                      f'{count} gradients and weights differ')
    return bad


def main():
    if sys.argv[1] == '--rank':
        return train_theirs(sys.argv[2], int(sys.argv[3]))
    tool, worker = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        write_problem(directory)
        run_all([[sys.executable, __file__, '--rank', directory, str(rank)]
                 for rank in range(RANKS)])
        for backend in ('shm', 'gloo'):
            run_all([[tool, 'run', '-n', str(RANKS), '--backend', backend,
                      '--', worker, directory, str(STEPS), str(BATCH)]])
            print(f'on {backend}:')
            if compare(directory):
                sys.exit('not the same bits')


if __name__ == '__main__':
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit('python3-torch is missing; ./dev setup installs it')
    sys.exit(main())
