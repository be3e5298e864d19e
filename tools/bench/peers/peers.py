#!/usr/bin/env python3
"""Rondo and PyTorch on the same models, one after the other in one run on one GPU.

  python3 tools/bench/peers/peers.py --rondo RONDO --plans DIR [--out DIR] [--accuracy F.json] [--autotune]

Each model's GPU time of one run: Rondo's by `rondo bench` (events around its graphs), PyTorch's by events around one
replay of a CUDA graph of its eager kernels, and of torch.compile (mode reduce-overhead; --autotune: max-autotune, too).
Medians of --runs runs after warming up. --accuracy takes what `accuracy.py compare --json` wrote: how far Rondo's
results are from exact ones with the same weights. Writes peers.json and a markdown table to --out, prints the table last.
"""
import argparse
import datetime
import gc
import json
import logging
import pathlib
import re
import subprocess
import tempfile
import time

import numpy as np
import torch

import models
from torch_times import event_times, graph_of

# What memory or arithmetic allows, and what Rondo is to reach: microseconds on an H200.
FLOORS_AND_TARGETS = {
    "minilm-l6-b1-s128-f16": (5, 100),
    "bert-base-b1-s128-f16": (36, 260),
    "bert-base-b8-s128-f16": (221, 480),
    "resnet50-b1-f16": (11, 300),
    "vit-b16-b1-f16": (43, 340),
    "llama3-8b-8layers-decode-b1-bf16": (979, 1100),
    "llama3-8b-8layers-decode-b16-bf16": (1087, 1260),
    "llama3-8b-8layers-prefill512-b1-bf16": (2943, 3400),
}


def rondo_time(rondo, plan, runs):
    """-> {"gpu": µs, "wall": µs, "ready": s}"""
    with tempfile.TemporaryDirectory() as folder:
        command = [rondo, "bench", plan, "--driver", "cuda", "--runs", str(runs), "--top", "1"]
        positions = {"decode": np.array([1024]), "prefill512": np.arange(512)}
        for word, values in positions.items():
            if f"-{word}-" in plan.name:
                np.save(f"{folder}/positions.npy", values.astype(np.int64))
                command += ["--input", f"positions={folder}/positions.npy"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        return {"failed": done.stderr.strip()[-300:]}
    found = {
        "gpu": re.search(r"by events: median ([\d.]+) µs", done.stdout),
        "wall": re.search(r"wall time of a run: median ([\d.]+) µs", done.stdout),
        "ready": re.search(r"ready in ([\d.]+) ms", done.stdout),
    }
    times = {key: float(match[1]) for key, match in found.items() if match}
    times["ready"] = times["ready"] / 1e3
    return times


def compiled(mode):
    def make(model, inputs):
        fast = torch.compile(model, mode=mode, fullgraph=True)
        for _ in range(4):
            fast(*inputs)
        return lambda: fast(*inputs)
    return make


def peer_time(name, make, runs):
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            model, inputs = models.MODELS[name]()
            start = time.time()
            call = make(model, inputs)
            torch.cuda.synchronize()
            return {"ready": time.time() - start, "gpu": event_times(call, runs)}
    except Exception as error:  # one peer that fails must not hide the others
        return {"failed": repr(error)[:300]}
    finally:
        model = inputs = call = None
        gc.collect()
        torch.cuda.empty_cache()


def table(results, peers, accuracy):
    head = ["model", "rondo µs", *[f"{peer} µs" for peer in peers], "best peer / rondo", "floor", "target", "error"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, result in results.items():
        def cell(of):
            return f"{result[of]['gpu']:.0f}" if "gpu" in result.get(of, {}) else "–"
        measured = [result[peer]["gpu"] for peer in peers if "gpu" in result[peer]]
        ours = result["rondo"].get("gpu")
        ratio = f"{min(measured) / ours:.2f}" if measured and ours else "–"
        floor, target = FLOORS_AND_TARGETS[name]
        of = accuracy.get(name, {})
        error = f"{of['error']:.1e}" + (f" ({of['layers']} layers)" if of.get("layers") else "") if "error" in of else "–"
        met = "" if ours is None else " met" if ours <= target else " missed"
        lines.append(f"| `{name}` | {cell('rondo')} | " + " | ".join(cell(peer) for peer in peers) +
                     f" | {ratio} | {floor} | ≤ {target}{met} | {error} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rondo", type=lambda path: pathlib.Path(path).resolve(), required=True, help="the rondo binary")
    parser.add_argument("--plans", type=pathlib.Path, required=True, help="folder of NAME.rondo, compiled for this GPU")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--accuracy", type=pathlib.Path, help="JSON of accuracy.py compare")
    parser.add_argument("--model", action="append", help="only this one (may be given several times)")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--autotune", nargs="*", metavar="MODEL",
                        help="also torch.compile with max-autotune (minutes a model): these models, or all")
    arguments = parser.parse_args()

    logging.disable(logging.WARNING)
    torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = False
    peers = {"eager graph": graph_of, "compile": compiled("reduce-overhead")}
    if arguments.autotune is not None:
        peers["autotune"] = compiled("max-autotune")
    accuracy = json.loads(arguments.accuracy.read_text()) if arguments.accuracy else {}
    arguments.out.mkdir(parents=True, exist_ok=True)

    results = {}
    machine = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}"
    for name in arguments.model or models.MODELS:
        plan = arguments.plans / f"{name}.rondo"
        result = {"rondo": rondo_time(arguments.rondo, plan, arguments.runs) if plan.exists() else
                  {"failed": f"there is no {plan}"}}
        for peer, make in peers.items():
            if peer == "autotune" and arguments.autotune and name not in arguments.autotune:
                result[peer] = {"failed": "not asked for"}
                continue
            result[peer] = peer_time(name, make, arguments.runs)
        results[name] = result
        print(name, json.dumps(result), flush=True)
        # After each model: a run that is cut short leaves what it measured.
        (arguments.out / "peers.json").write_text(
            json.dumps({"machine": machine, "runs": arguments.runs, "results": results}, indent=1) + "\n")
        rows = table(results, peers, accuracy)
        today = datetime.date.today().isoformat()
        (arguments.out / f"{today}-peers.md").write_text(
            f"# Rondo and PyTorch, {today}\n\n{machine}. GPU time of one run by events, median of {arguments.runs} runs; "
            "all of a row measured in one run on one machine. Error: relative, in the norm, against ONNX Runtime in f32 "
            f"with the same weights.\n\n    python3 tools/bench/peers/peers.py ...\n\n{rows}\n")
    print(rows)


if __name__ == "__main__":
    main()
