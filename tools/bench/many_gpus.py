#!/usr/bin/env python3
"""Llama decode steps shared out over the GPUs of one machine: Rondo through NCCL alone, Rondo with small collectives as
kernels, and PyTorch, in one table beside what the compiler's cost model said.

  python3 tools/bench/many_gpus.py --rondo RONDO --models DIR [--counts 2,4,8] [--runs 300] [--torch] [--out F.json]

The models are graphs without weights (synthetic ones are made on the GPUs); plans are compiled here, or taken from
--plans DIR (MODEL.tpN.rondo). --by pp cuts models into stages instead. --devices 0,0,... puts several ranks on one GPU (NCCL 2.30 and up). Times are medians of
the wall time and of the device time of a run; ratios are what counts. --torch runs peers/tensor_parallel.py by torchrun.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["llama3-70b-8layers-decode-b1-bf16", "llama3-8b-decode-b1-bf16"]
CACHED = 1024  # positions

# Medians of the device time measured on H200s on 2026-11-20, microseconds: eager kernels in a graph, torch.compile.
PEERS = {
    ("llama3-70b-8layers-decode-b1-bf16", 2): (2977, 2581),
    ("llama3-70b-8layers-decode-b1-bf16", 8): (1672, 1456),
    ("llama3-8b-decode-b1-bf16", 8): (4789, 3344),
}


def run(command, seconds):
    """-> (standard output, error sentence or None)"""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", f"not done after {seconds} s"
    return done.stdout, None if done.returncode == 0 else done.stderr.strip().splitlines()[-1][:200]


class Measuring:
    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        np.save(self.folder / "positions.npy", np.array([CACHED], dtype=np.int64))
        said, _ = run([options.rondo, "bench", "--help"], 30)
        self.choices = ["nccl", "auto"] if "--collectives" in said else [None]

    def plan(self, model, count):
        """-> (plan, estimate in us or None, error)"""
        if self.options.plans:
            return self.options.plans / f"{model}.{self.options.by}{count}.rondo", None, None
        plan = self.folder / "plan.rondo"
        said, error = run([self.options.rondo, "compile", self.options.models / f"{model}.onnx", f"--{self.options.by}", count, "--target",
                           self.options.target, "--synthetic-weights", 1, "-o", plan, "--json"], 120)
        return plan, None if error else json.loads(said)["programs"][0]["run_us"][1], error

    def rondo(self, plan, count, collectives):
        devices = self.options.devices or ",".join(str(d) for d in range(count))
        command = [self.options.rondo, "bench", plan, "--driver", self.options.driver, "--devices", devices, "--runs",
                   self.options.runs, "--top", 1, "--json", "--input", f"positions={self.folder}/positions.npy"]
        said, error = run(command + (["--collectives", collectives] if collectives else []), self.options.seconds)
        if error:
            return {"failed": error}
        program = json.loads(said)["programs"][0]
        return {"wall": program["wall_us"]["median"],
                "device": program.get("device_us", program.get("replay_us"))["median"]}

    def torch(self, model, count):
        said, error = run(["torchrun", f"--nproc-per-node={count}", HERE / "peers/tensor_parallel.py", model,
                           "--runs", self.options.runs], self.options.torch_seconds)
        lines = [line for line in said.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {"failed": error or "it printed nothing"}


def cell(found, key):
    if not found:
        return "–"
    return f"{found[key]:.0f}" if key in found else found.get("failed", "–")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", required=True, type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, help="folder of the ONNX graphs")
    parser.add_argument("--plans", type=pathlib.Path, help="folder of plans, instead")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these")
    parser.add_argument("--by", choices=["tp", "pp"], default="tp", help="how models are shared out")
    parser.add_argument("--counts", default="2,4,8", help="numbers of GPUs")
    parser.add_argument("--devices", help="the driver's devices for the plan's, instead of 0,1,...")
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=60, help="for one measurement of Rondo")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--torch-seconds", type=int, default=200)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if not options.models and not options.plans:
        parser.error("give --models or --plans")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        measuring = Measuring(options, folder)
        print(f"| model, --{options.by} | GPUs | estimate | " + " | ".join(f"{c or 'rondo'} device, wall" for c in measuring.choices)
              + " | eager graph | compile | measured before: eager, compile |")
        print("|" + "---|" * (6 + len(measuring.choices)), flush=True)
        for model in options.model or MODELS:
            for count in [int(word) for word in options.counts.split(",")]:
                plan, estimate, error = measuring.plan(model, count)
                times = {str(c): {"failed": error} if error else measuring.rondo(plan, count, c)
                         for c in measuring.choices}
                torch = measuring.torch(model, count) if options.torch else {}
                rows.append({"model": model, "gpus": count, "estimate": estimate, "rondo": times, "torch": torch})
                ours = " | ".join(f"{cell(t, 'device')}, {cell(t, 'wall')}" for t in times.values())
                known = PEERS.get((model, count), ("–",)) if options.by == "tp" else ("–",)
                before = ", ".join(str(us) for us in known)
                print(f"| `{model}` | {count} | {estimate or 0:.0f} | {ours} | {cell(torch, 'eager')} | "
                      f"{cell(torch, 'compile')} | {before} |", flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any("failed" in t for row in rows for t in row["rondo"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
