#!/usr/bin/env python3
"""Times Llama decode steps and prefills in PyTorch, sharded over GPUs with one process each. Heads, hidden columns and logits are
split; each layer has two all-reduces through NCCL. Prints one JSON object a model: medians in microseconds of a run's device time,
for the eager kernels in one graph and for torch.compile. All layers share one compiled function, and are recorded as one graph.

  torchrun --nproc-per-node=N tools/bench/peers/tensor_parallel.py MODEL... [--runs 300]

MODEL is a name that llama_graphs.py knows.
"""
import argparse
import gc
import json
import logging
import os
import pathlib
import statistics
import sys

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.distributed import _functional_collectives as collectives

import models
from torch_times import graph_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import llama_graphs

CACHED = 1024  # positions before a decode step's token


class SharedLayer(models.DecoderLayer):
    """One device's heads and columns of a layer."""

    def __init__(self, devices, shape):
        own, hidden = shape.width // devices, shape.hidden // devices
        super().__init__(own, shape.heads // devices, max(1, shape.kv_heads // devices), hidden, llama_graphs.CACHE, shape.batch)
        self.norm_attention = models.RootMeanSquareNorm(shape.width)
        self.norm_hidden = models.RootMeanSquareNorm(shape.width)
        self.qkv = torch.nn.Linear(shape.width, sum(self.sizes), bias=False)
        self.out = Summed(own, shape.width)
        self.gate_up = torch.nn.Linear(shape.width, 2 * hidden, bias=False)
        self.down = Summed(hidden, shape.width)

    def forward(self, x, sent, positions, cos, sin, mask):
        """Adds what the previous layer sent, and computes up to what this layer sends. Returns (stream, sent)."""
        x = x + sent
        parts = self.qkv(self.norm_attention(x)).split(self.sizes, dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.head)).transpose(1, 2) for part in parts)
        keys, values = self.written(models.rotated(k, cos, sin), v, positions)
        attended = F.scaled_dot_product_attention(models.rotated(q, cos, sin), keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.norm_hidden(x)).chunk(2, dim=-1)
        return x, self.down(F.silu(gate) * up)


class Summed(torch.nn.Linear):
    def __init__(self, columns, rows):
        super().__init__(columns, rows, bias=False)

    def forward(self, x):
        return collectives.all_reduce(super().forward(x), "sum", dist.group.WORLD)


class SharedDecoder(models.Decoder):
    def __init__(self, devices, shape):
        super().__init__(0, shape.batch, shape.width, shape.heads, shape.kv_heads, shape.hidden, llama_graphs.WORDS, llama_graphs.CACHE)
        self.layers = torch.nn.ModuleList(SharedLayer(devices, shape) for _ in range(shape.layers))
        self.predict = torch.nn.Linear(shape.width, llama_graphs.WORDS // devices, bias=False)

    def forward(self, tokens, positions):
        x = self.words(tokens)
        angles = positions[:, None].float() * self.frequencies.float()
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        mask = (self.places <= positions[:, None])[None, None]
        sent = torch.zeros_like(x)
        for layer in self.layers:
            x, sent = layer(x, sent, positions, cos, sin, mask)
        return self.predict(self.norm((x + sent)[:, -1]))


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


def measured(name, devices, runs):
    shape = llama_graphs.shape_of(name)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = SharedDecoder(devices, shape).eval()
        torch.set_default_dtype(torch.float32)
        first = 0 if shape.tokens > 1 else CACHED
        torch.manual_seed(0)
        inputs = (torch.randint(0, 128000, (shape.batch, shape.tokens)), torch.arange(first, first + shape.tokens))
    found = {"model": name, "eager": median(graph_of(model, inputs), runs)}
    for layer in model.layers:
        layer.compile(fullgraph=True, dynamic=False)
    found["compile"] = median(graph_of(model, inputs), runs)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--runs", type=int, default=300)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    torch._dynamo.config.recompile_limit = 256
    rank, devices = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    for name in options.model:
        with torch.no_grad():
            found = measured(name, devices, options.runs)
        if rank == 0:
            print(json.dumps(found), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch._dynamo.reset()
    dist.barrier()
    os._exit(0)  # skip teardown: the graphs still hold NCCL's objects


if __name__ == "__main__":
    main()
