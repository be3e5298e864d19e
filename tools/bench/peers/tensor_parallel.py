#!/usr/bin/env python3
"""A Llama's decode step, or prefill, shared out over GPUs in PyTorch, a process each: heads, hidden columns and logits are dealt out, two
all-reduces a layer through NCCL. Prints one JSON object: medians in microseconds of the device time of a run.

  torchrun --nproc-per-node=N tools/bench/peers/tensor_parallel.py MODEL [--runs 300]
"""
import argparse
import json
import logging
import os
import statistics

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

import models
from torch_times import graph_of

# Layers, width, heads, heads of keys and values, hidden columns.
SHAPES = {
    "llama3-70b-8layers-decode-b1-bf16": (8, 8192, 64, 8, 28672),
    "llama3-8b-decode-b1-bf16": (32, 4096, 32, 8, 14336),
    "llama3-8b-8layers-prefill512-b1-bf16": (8, 4096, 32, 8, 14336),
    "llama3-8b-8layers-prefill2048-b1-bf16": (8, 4096, 32, 8, 14336),
}
TOKENS = {"llama3-8b-8layers-prefill512-b1-bf16": 512, "llama3-8b-8layers-prefill2048-b1-bf16": 2048}  # others: one, behind others
CACHED, CACHE, WORDS = 1024, 2048, 128256


class SharedLayer(models.DecoderLayer):
    """One device's heads and columns of a layer."""

    def __init__(self, devices, width, heads, kv_heads, hidden):
        own = width // devices
        super().__init__(own, heads // devices, max(1, kv_heads // devices), hidden // devices, CACHE, 1)
        self.norm_attention = models.RootMeanSquareNorm(width)
        self.norm_hidden = models.RootMeanSquareNorm(width)
        self.qkv = torch.nn.Linear(width, sum(self.sizes), bias=False)
        self.out = Summed(own, width)
        self.gate_up = torch.nn.Linear(width, 2 * (hidden // devices), bias=False)
        self.down = Summed(hidden // devices, width)


class Summed(torch.nn.Linear):
    def __init__(self, columns, rows):
        super().__init__(columns, rows, bias=False)

    def forward(self, x):
        return collectives.all_reduce(super().forward(x), "sum", dist.group.WORLD)


class SharedDecoder(models.Decoder):
    def __init__(self, devices, layers, width, heads, kv_heads, hidden):
        super().__init__(0, 1, width, heads, kv_heads, hidden, WORDS, CACHE)
        self.layers = torch.nn.ModuleList(
            SharedLayer(devices, width, heads, kv_heads, hidden) for _ in range(layers))
        self.predict = torch.nn.Linear(width, WORDS // devices, bias=False)


def median(call, runs):
    for _ in range(8):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    times = []
    for _ in range(runs):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        call()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) * 1e3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rank, devices = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    found = {}
    with torch.no_grad():
        with torch.device("cuda"):
            torch.set_default_dtype(torch.bfloat16)
            model = SharedDecoder(devices, *SHAPES[options.model]).eval()
            torch.set_default_dtype(torch.float32)
            tokens = TOKENS.get(options.model, 1)
            first = 0 if tokens > 1 else CACHED
            inputs = (torch.randint(0, 128000, (1, tokens)), torch.arange(first, first + tokens))
        found["eager"] = median(graph_of(model, inputs), options.runs)
        if rank == 0:
            print(json.dumps(found), flush=True)
        fast = torch.compile(model, mode="reduce-overhead", fullgraph=True)
        for _ in range(4):
            fast(*inputs)
        found["compile"] = median(lambda: fast(*inputs), options.runs)
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    os._exit(0)  # what the graphs hold of NCCL is not taken apart


if __name__ == "__main__":
    main()
