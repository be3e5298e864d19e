#!/usr/bin/env python3
"""Times Llama decoding and prefill sharded over the GPUs of one machine: Rondo with each kind of collectives, and PyTorch. The table
also has the cost model's estimates.

  python3 tools/bench/many_gpus.py --rondo RONDO [--gpus 4] [--counts 2,4] [--model NAME]... [--torch] [--out F.json]

The graphs come from llama_graphs.py, without weights; synthetic ones are made on the GPUs. Each is compiled with --tp N for each
count N in bf16, and decode steps also with weights in int4:32 and fp8; and with --pp 2 --tp N/2 for the largest count that is
measured. Rows that need at most half the GPUs are measured side by side, each on its own GPUs, while further plans are compiled.
Times are medians of a run's device time in microseconds. Each is also written to standard error at once. --torch runs
peers/tensor_parallel.py first. "best peer" is the time of PyTorch's faster mode (bf16) over Rondo's fastest time with --tp alone.
Counts above --gpus only get the estimate.
Needs the package onnx; --torch needs torch and NCCL.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from typing import NamedTuple

import numpy as np

import llama_graphs

HERE = pathlib.Path(__file__).resolve().parent
MODELS = [f"llama3-{size}-{work}-bf16" for size in ("70b-8layers", "8b")
          for work in ("decode-b1", "decode-b16", "prefill512-b1", "prefill2048-b1")]
CACHED = 1024  # positions before a decode step's token


class Row(NamedTuple):
    model: str
    weights: str  # bf16, or a value of --quantize-weights
    tp: int
    pp: int

    def gpus(self):
        return self.tp * self.pp

    def name(self):
        return f"{self.model}.{self.weights.replace(':', '-')}.tp{self.tp}.pp{self.pp}"


def rows_of(models, counts, gpus):
    largest = max((count for count in counts if count <= gpus), default=0)
    for model in models:
        for count in counts:
            yield Row(model, "bf16", count, 1)
        if largest >= 4:
            yield Row(model, "bf16", largest // 2, 2)
        for weights in ("int4:32", "fp8") if "decode" in model else ():
            for count in counts:
                yield Row(model, weights, count, 1)


def run(command, seconds, **more):
    """-> (standard output, error sentence or None)"""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds, **more)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(), f"not done after {seconds} s"
    return done.stdout, None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1][:200]


class FreeGpus:
    """Hands out GPUs that nobody else uses."""

    def __init__(self, count):
        self.free, self.changed = list(range(count)), threading.Condition()

    def take(self, count):
        with self.changed:
            self.changed.wait_for(lambda: len(self.free) >= count)
            taken, self.free = self.free[:count], self.free[count:]
            return taken

    def give(self, taken):
        with self.changed:
            self.free = sorted(self.free + taken)
            self.changed.notify_all()


class Measuring:
    def __init__(self, options, folder):
        self.options, self.folder, self.gpus = options, pathlib.Path(folder), FreeGpus(options.gpus)
        for model in options.model:
            shape = llama_graphs.shape_of(model)
            (self.folder / f"{model}.onnx").write_bytes(llama_graphs.llama(shape).SerializeToString())
            first = CACHED if shape.tokens == 1 else 0
            np.save(self.folder / f"{model}.positions.npy", np.arange(first, first + shape.tokens, dtype=np.int64))
            tokens = np.arange(shape.batch * shape.tokens, dtype=np.int64) * 7919 % 128000
            np.save(self.folder / f"{model}.tokens.npy", tokens.reshape(shape.batch, shape.tokens))

    def compile(self, row):
        """-> the estimate of a run in us, or an error"""
        quantised = [] if row.weights == "bf16" else ["--quantize-weights", row.weights]
        said, error = run([self.options.rondo, "compile", self.folder / f"{row.model}.onnx", "--tp", row.tp, "--pp", row.pp, "--target",
                           self.options.target, "--synthetic-weights", 1, "--no-kernel-cache", *quantised, "-o",
                           self.folder / f"{row.name()}.rondo", "--json"], 200)
        return error or json.loads(said)["programs"][0]["run_us"][1]

    def time(self, row, collectives, plan):
        """-> the device time of a run in us, or an error"""
        if isinstance(plan.result(), str):
            return plan.result()
        taken = self.gpus.take(row.gpus())
        try:
            inputs = [word for name in ("positions", "tokens")
                      for word in ("--input", f"{name}={self.folder}/{row.model}.{name}.npy")]
            said, error = run([self.options.rondo, "bench", self.folder / f"{row.name()}.rondo", "--driver", self.options.driver,
                               "--devices", ",".join(str(gpu) for gpu in taken), "--runs", self.options.runs, "--top", 1, "--json",
                               "--collectives", collectives, *inputs], self.options.seconds)
        finally:
            self.gpus.give(taken)
        if error:
            told(f"{row.name()} {collectives}: {error}")
            return error
        program = json.loads(said)["programs"][0]
        median = program.get("device_us", program.get("replay_us", program["wall_us"]))["median"]
        told(f"{row.name()} {collectives}: {median}")
        return median

    def torch(self, models, count):
        """-> {model: {eager, compile: us}}, or an error for each"""
        taken = self.gpus.take(count)
        try:
            said, error = run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}",
                               HERE / "peers/tensor_parallel.py", *models, "--runs", self.options.runs], self.options.torch_seconds,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in taken)})
        finally:
            self.gpus.give(taken)
        found = {line["model"]: line for line in map(json.loads, filter(lambda text: text.startswith("{"), said.splitlines()))}
        for model in models:
            told(f"torch {model} on {count} GPUs: {found.get(model, error)}")
        return {model: found.get(model, error or "it printed nothing") for model in models}


def told(text):
    print(text, file=sys.stderr, flush=True)


def cell(found):
    return f"{found:.0f}" if isinstance(found, float) else str(found or "–")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", required=True, type=pathlib.Path)
    parser.add_argument("--model", action="append", help="only these; any name that llama_graphs.py knows")
    parser.add_argument("--gpus", type=int, default=4, help="GPUs of this machine")
    parser.add_argument("--counts", default="2,4", help="numbers of GPUs that share a model")
    parser.add_argument("--collectives", default="nccl,auto", help="ways to compute collectives, for bf16 with --tp; others: auto")
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 4), help="plans that are compiled at once")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60, help="for one measurement of Rondo")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--torch-seconds", type=int, default=400)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    options.model = options.model or MODELS
    counts = [int(word) for word in options.counts.split(",")]
    ways = options.collectives.split(",")
    rows = list(rows_of(options.model, counts, options.gpus))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as compiling, \
            concurrent.futures.ThreadPoolExecutor(128) as timing:
        measuring = Measuring(options, folder)
        peers = []  # (number of GPUs, what will be {model: times}); they run while plans are compiled
        for count in [count for count in counts if options.torch and count <= options.gpus]:
            beside = options.gpus // count
            peers += [(count, timing.submit(measuring.torch, options.model[first::beside], count)) for first in range(beside)]
        plans = {row: compiling.submit(measuring.compile, row) for row in rows}
        times = {(row, way): timing.submit(measuring.time, row, way, plans[row])
                 for row in sorted(rows, key=Row.gpus) if row.gpus() <= options.gpus
                 for way in (ways if row.weights == "bf16" and row.pp == 1 else ["auto"])}
        estimates = {row: made.result() for row, made in plans.items()}
        times = {key: made.result() for key, made in times.items()}
        torch = {(model, count): found for count, made in peers for model, found in made.result().items()}
    print("| model | weights | tp | pp | estimate | " + " | ".join(ways) + " | PyTorch eager graph | torch.compile | best peer ÷ Rondo |")
    print("|" + "---|" * (8 + len(ways)))
    for row in rows:
        ours = [times.get((row, way)) for way in ways]
        peer = torch.get((row.model, row.tp), {}) if row.pp == 1 else {}
        theirs = [peer] if isinstance(peer, str) else [peer.get(mode) for mode in ("eager", "compile")]
        quick, slow = ([t for t in found if isinstance(t, float)] for found in (ours, theirs))
        ratio = f"{min(slow) / min(quick):.2f}" if quick and slow else "–"
        theirs = (theirs * 2)[:2]
        print("| " + " | ".join([f"`{row.model}`", row.weights, str(row.tp), str(row.pp), cell(estimates[row]), *map(cell, ours),
                                 *map(cell, theirs), ratio]) + " |", flush=True)
    if options.out:
        found = [{**row._asdict(), "estimate": estimates[row], "times": {w: times.get((row, w)) for w in ways},
                  "torch": torch.get((row.model, row.tp)) if row.pp == 1 else None} for row in rows]
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if any(isinstance(t, str) for t in times.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
