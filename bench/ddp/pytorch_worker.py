# SPDX-License-Identifier: Apache-2.0
"""One rank of PyTorch's DistributedDataParallel, for pytorch_workshop.cc.

Usage: pytorch_worker.py RANK SIZE ADDRESS SPARE_CPU PORT

Reads orders and answers with the times of a step (see step_order.h).
"""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

sys.path.append(os.path.join(os.path.dirname(__file__), ".."))
import pytorch_group  # noqa: E402

WARM_UP_STEPS = 4  # the second one rebuilds the buckets
MIB = 1 << 20
ONE_BUCKET_BYTES = 1 << 30


def mlp(layers, width, bias):
    parts = []
    for i in range(layers):
        if i > 0:
            parts.append(nn.ReLU())
        parts.append(nn.Linear(width, width, bias=bias))
    return nn.Sequential(*parts)


def conv():
    parts = []
    channels = [3, 32, 64, 64]
    for i in range(3):
        parts += [nn.Conv2d(channels[i], channels[i + 1], 3, padding=1),
                  nn.ReLU(), nn.MaxPool2d(2)]
    parts += [nn.Flatten(), nn.Linear(64 * 4 * 4, 256), nn.ReLU(),
              nn.Linear(256, 10)]
    return nn.Sequential(*parts)


def transformer():
    return nn.Sequential(*[
        nn.TransformerEncoderLayer(256, 4, dim_feedforward=1024, dropout=0.0)
        for _ in range(2)])


def make_model(name, batch):
    """The net and the shape of its input, as in models.cc."""
    if name == "mlp25":
        return mlp(6, 1024, True), (batch, 1024)
    if name == "conv":
        return conv(), (batch, 3, 32, 32)
    if name == "transformer":
        return transformer(), (64, batch, 256)
    if name == "layers24":
        return mlp(24, 512, False), (batch, 512)
    raise ValueError(f"there is no model '{name}'")


def bucket_options(bucket_bytes, hook):
    if hook.startswith("power_sgd"):
        # It launches collectives when others are done, so with several buckets
        # their order differs from rank to rank, and Gloo aborts.
        dist._DEFAULT_FIRST_BUCKET_BYTES = ONE_BUCKET_BYTES
        bucket_bytes = ONE_BUCKET_BYTES
    return {"bucket_cap_mb": bucket_bytes / MIB} if bucket_bytes > 0 else {}


def register_hook(net, text):
    """A hook of PyTorch's by our name for it, as in hooks::make()."""
    name, _, rest = text.partition(":")
    options = dict(word.split("=") for word in rest.split(",") if word)
    if name == "fp16_compress":
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif name == "power_sgd":
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=int(options["rank"]),
            start_powerSGD_iter=int(options["start_iter"]))
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name != "all_reduce":
        raise ValueError(f"there is no hook '{text}'")


class Trainer:
    def __init__(self, name, batch, mode, bucket_bytes, hook, drop, rank):
        torch.manual_seed(0)
        net, shape = make_model(name, batch)
        torch.manual_seed(rank + 1)
        self.input = torch.randn(shape)
        with torch.no_grad():
            self.target = torch.randn_like(net(self.input))
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        self.drop = drop
        if mode == "local":
            self.net = net
        else:
            self.net = DistributedDataParallel(
                net, gradient_as_bucket_view=True,
                **bucket_options(bucket_bytes, hook))
            register_hook(self.net, hook)
        self.run(WARM_UP_STEPS)

    def run(self, steps):
        loss_of = nn.functional.mse_loss
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=self.drop)
            loss_of(self.net(self.input), self.target).backward()
            self.optimizer.step()


def carry_out(line, trainers, rank):
    """Seconds of a step, and of processor time in it."""
    name, batch, mode, bucket_bytes, hook, gradients, steps, _ = line.split()
    kind = (name, int(batch), mode, int(bucket_bytes), hook,
            gradients == "drop")
    if kind not in trainers:
        trainers[kind] = Trainer(*kind, rank)
    trainer = trainers[kind]
    trainer.run(1)
    dist.barrier()
    processor, begin = time.process_time(), time.perf_counter()
    trainer.run(int(steps))
    seconds = time.perf_counter() - begin
    processor = time.process_time() - processor
    return seconds / int(steps), processor / int(steps)


def main():
    rank, _ = pytorch_group.join()
    print(f"PyTorch {torch.__version__} from Python, DistributedDataParallel "
          f"over Gloo on {os.environ['GLOO_SOCKET_IFNAME']}, "
          "gradient_as_bucket_view, 1 thread of torch's, its device's thread "
          "bound to another core than the rank", flush=True)

    trainers = {}
    for line in sys.stdin:
        try:
            step, processor = carry_out(line, trainers, rank)
        except Exception as error:  # the driver's to judge
            words = " ".join(str(error).split())
            print(f"error: rank {rank}: {type(error).__name__}: {words}",
                  flush=True)
        else:
            # StepTimes; the rest is not known.
            print(step, *[0] * 8, processor, 0, flush=True)


if __name__ == "__main__":
    main()
