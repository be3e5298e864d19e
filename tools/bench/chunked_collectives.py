#!/usr/bin/env python3
"""Compares whole collectives with collectives cut into chunks of rows, for prefill and encoders sharded over the GPUs of one
machine. The table has the device time of a run, the estimated exposed time, and the measured and estimated ratios of times.

  python3 tools/bench/chunked_collectives.py --rondo RONDO --models DIR [--counts 2] [--chunks 1,2,4,auto] [--torch] [--out F.json]

The models are graphs without weights: the bench models and those of larger_graphs.py (synthetic weights are made on the
GPUs). Plans are compiled here, or taken from --plans DIR (MODEL.tpN.cC.rondo). Every GPU must give the same bits, and each
plan the results of the plan with whole collectives. Times are medians; --torch runs peers/tensor_parallel.py by torchrun for
Llamas.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["llama3-8b-8layers-prefill512-b1-bf16", "llama3-8b-8layers-prefill2048-b1-bf16", "bert-large-b32-s128-f16",
          "vit-l16-b32-f16"]
PEERS = MODELS[:2]


def run(command, seconds):
    """-> (standard output, error sentence or None)"""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", f"not done after {seconds} s"
    return done.stdout, None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1][:300]


def inputs_of(model, folder):
    if "prefill" not in model:
        return []
    tokens = int(model.split("prefill")[1].split("-")[0])
    np.save(folder / "positions.npy", np.arange(tokens, dtype=np.int64))
    np.save(folder / "tokens.npy", (np.arange(tokens, dtype=np.int64) * 37 % 128000)[None])
    return [word for name in ("positions", "tokens") for word in ("--input", f"{name}={folder}/{name}.npy")]


def values_of(path):
    """An output as floats; .npy files hold bf16 as two bytes."""
    values = np.load(path)
    if values.dtype.itemsize == 2 and values.dtype.kind in "uV":
        return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)


class Measuring:
    def __init__(self, options, folder):
        self.options, self.folder, self.first = options, pathlib.Path(folder), {}

    def plan(self, model, count, chunks):
        """-> (plan, error)"""
        if self.options.plans:
            return self.options.plans / f"{model}.tp{count}.c{chunks}.rondo", None
        plan = self.folder / "plan.rondo"
        cut = ["--chunks", 0 if chunks == "auto" else chunks]
        return plan, run([self.options.rondo, "compile", self.options.models / f"{model}.onnx", "--tp", count, "--target",
                          self.options.target, "--synthetic-weights", 1, "-o", plan, *cut], 300)[1]

    def estimate(self, plan):
        said, error = run([self.options.rondo, "inspect", plan, "--json"], 60)
        if error:
            return {}
        program = json.loads(said)["programs"][0]
        mine = [note for note in program["overlaps"] if 0 in note["devices"]]
        return {"collectives": len(mine), "exposed": sum(note["exposed_us"][1] for note in mine),
                "estimate": program["estimated_us"] or 0, "arena": program["arena_bytes"]}

    def on_gpus(self, what, plan, count, collectives, inputs, *more):
        devices = self.options.devices or ",".join(str(d) for d in range(count))
        return run([self.options.rondo, what, plan, "--driver", self.options.driver, "--devices", devices, "--collectives",
                    collectives, *inputs, *more], self.options.seconds)

    def time(self, plan, count, collectives, inputs):
        said, error = self.on_gpus("bench", plan, count, collectives, inputs, "--runs", self.options.runs, "--top", 1, "--json")
        if error:
            return {"failed": error}
        program = json.loads(said)["programs"][0]
        return {"wall": program["wall_us"]["median"],
                "device": program.get("device_us", program.get("replay_us", program["wall_us"]))["median"]}

    def same(self, model, plan, count, inputs):
        """Whether all GPUs give the same bits, and the difference of the results from those with whole collectives."""
        out = self.folder / "out"
        _, error = self.on_gpus("run", plan, count, "auto", inputs, "--output", out)
        if error:
            return error
        name = "logits" if "prefill" in model else "out"
        first = (out / f"{name}.npy").read_bytes()
        if any((out / f"{name}@{rank}.npy").read_bytes() != first for rank in range(1, count)):
            return "ranks differ"
        values = values_of(out / f"{name}.npy")
        whole = self.first.setdefault((model, count), values)
        return f"{np.linalg.norm(values - whole) / np.linalg.norm(whole):.1e}"

    def torch(self, model, count):
        said, error = run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", HERE / "peers/tensor_parallel.py", model, "--runs",
                           min(self.options.runs, 50)], self.options.torch_seconds)
        lines = [line for line in said.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {"failed": error or "it printed nothing"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", required=True, type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, help="folder of the ONNX graphs")
    parser.add_argument("--plans", type=pathlib.Path, help="folder of plans, instead")
    parser.add_argument("--model", action="append", choices=MODELS, help="only these")
    parser.add_argument("--counts", default="2", help="numbers of GPUs")
    parser.add_argument("--chunks", default="1,2,4", help="numbers of chunks, the first of which others are compared with")
    parser.add_argument("--collectives", default="nccl,auto")
    parser.add_argument("--devices", help="the driver's devices for the plan's, instead of 0,1,...")
    parser.add_argument("--driver", default="cuda")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60, help="for one measurement of Rondo")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--torch-seconds", type=int, default=150)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if not options.models and not options.plans:
        parser.error("give --models or --plans")
    rows, ways = [], options.collectives.split(",")
    with tempfile.TemporaryDirectory() as folder:
        measuring = Measuring(options, folder)
        print("| model | GPUs | chunks | collectives | exposed, est. | run, est. | ratio, est. | " +
              " | ".join(f"{way}, device µs | ratio" for way in ways) + " | from whole |")
        print("|" + "---|" * (8 + 2 * len(ways)), flush=True)
        for model in options.model or MODELS:
            inputs = inputs_of(model, measuring.folder)
            for count in [int(word) for word in options.counts.split(",")]:
                whole = None
                for chunks in options.chunks.split(","):
                    plan, error = measuring.plan(model, count, chunks)
                    if options.plans and not plan.exists():
                        continue
                    row = {"model": model, "gpus": count, "chunks": chunks, **({"failed": error} if error else measuring.estimate(plan))}
                    row["times"] = {} if error else {way: measuring.time(plan, count, way, inputs) for way in ways}
                    row["same"] = error or measuring.same(model, plan, count, inputs)
                    whole = whole or row
                    rows.append(row)
                    ratio = lambda now, then: f"{now / then:.3f}" if now and then else "–"
                    measured = " | ".join(
                        f"{row['times'].get(way, {}).get('device', 0):.0f} | "
                        f"{ratio(row['times'].get(way, {}).get('device'), whole['times'].get(way, {}).get('device'))}" for way in ways)
                    print(f"| `{model}` | {count} | {chunks} | {row.get('collectives', 0)} | {row.get('exposed', 0):.0f} | "
                          f"{row.get('estimate', 0):.0f} | {ratio(row.get('estimate'), whole.get('estimate'))} | {measured} | {row['same']} |",
                          flush=True)
                    for way, time in row["times"].items():
                        if "failed" in time:
                            print(f"{way}: {time['failed']}", file=sys.stderr)
                if options.torch and model in PEERS:
                    peer = measuring.torch(model, count)
                    rows.append({"model": model, "gpus": count, "torch": peer})
                    print(f"PyTorch, `{model}`, {count} GPUs: {json.dumps(peer)}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if any("failed" in time for row in rows for time in row.get("times", {}).values()) else 0


if __name__ == "__main__":
    sys.exit(main())
