#!/usr/bin/env python3
"""Rondo and its peers on whole models, on one GPU, in one run: one table.

  python3 tools/bench/peers/peers.py --rondo RONDO [--out DIR] [--jobs 8] [NAME ...]

Models are made from the definitions that workloads.py names, with random weights, exported to ONNX in 16 bits and compiled
(several at once, before anything is timed); then each is timed: Rondo by `rondo bench`, PyTorch by a CUDA graph of its eager
kernels and by torch.compile (mode reduce-overhead; image networks in both layouts, the quicker counts), and ONNX Runtime
where its CUDA provider is installed (`onnxruntime-gpu`). Times are the device's of one run, by events, medians of --runs.
floor: what must be read at 4.67 TB/s or computed at 790 TFLOP/s, whichever takes longer. estimate: what the plan says. Errors
are of the first output, relative in the norm, from the same weights in f32: Rondo's, and PyTorch's in the same 16 bits.

Needs PyTorch, torchvision, timm, transformers, diffusers, onnx and onnxscript. Writes DIR/peers.json and DIR/peers.md, prints
the table last. What DIR has from a run that was cut short is neither prepared nor measured again.
"""
import argparse
import concurrent.futures
import datetime
import gc
import json
import logging
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

from prepare import relative_error
from torch_times import compiled, event_times, graph_of
from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
READ_RATE, OPERATION_RATE = 4.67e6, 790e6  # bytes and operations a microsecond (an H200)


def said(command):
    """What a command prints; RuntimeError with its last words when it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip())[-300:])
    return done.stdout


def prepare(name, options):
    """Makes what a workload needs, in a process of its own; -> why that failed, or nothing."""
    folder = options.models / name
    if (folder / "plan.rondo").exists():
        return ""
    command = [sys.executable, HERE / "prepare.py", name, options.models, "--rondo", options.rondo]
    if options.library_path:
        command += ["--library-path", options.library_path]
    start = time.time()
    try:
        said(command)
    except RuntimeError as failure:
        return str(failure)
    print(f"{name}: prepared in {time.time() - start:.0f} s", flush=True)
    return ""


def rondo_run(folder, options):
    """-> {"gpu": µs, "estimate": µs, "ready": ms, "error": relative}"""
    driver = ["--driver", "cuda"] + (["--library-path", options.library_path] if options.library_path else [])
    for path in (folder / "inputs").iterdir():
        driver += ["--input", f"{path.stem}={path}"]
    bench = json.loads(said([options.rondo, "bench", folder / "plan.rondo", "--json", "--runs", options.runs, *driver]))
    program = bench["programs"][0]
    with tempfile.TemporaryDirectory() as out:
        said([options.rondo, "run", folder / "plan.rondo", "--output", out, *driver])
        got = np.load(pathlib.Path(out) / "output.npy")
    if got.dtype == np.uint16:
        got = (got.astype(np.uint32) << 16).view(np.float32)
    return {"gpu": program["device_us"]["median"], "estimate": program["estimated_us"],
            "error": relative_error(got, np.load(folder / "expected.npy"))}


def torch_time(name, mode, layout, runs):
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = call = None
    try:
        with torch.no_grad(), torch.device("cuda"):
            made = WORKLOADS[name].make()
            inputs = tuple(made.inputs.values())
            if layout is torch.channels_last:
                made.model.to(memory_format=layout)
                inputs = tuple(x.to(memory_format=layout) if x.dim() == 4 else x for x in inputs)
            call = mode(made.model, inputs)
            return event_times(call, runs)
    finally:
        made = call = None
        gc.collect()
        torch.cuda.empty_cache()


def measured(name, options):
    """Each peer's result, or why there is none: one that fails must not hide the others."""
    folder, workload, row = options.models / name, WORKLOADS[name], {}
    row |= json.loads((folder / "facts.json").read_text())
    row["floor"] = max(row["bytes"] / READ_RATE, row["operations"] / OPERATION_RATE)

    def attempt(key, call):
        try:
            row[key] = call()
        except Exception as failure:
            row.setdefault("failed", {})[key] = str(failure)[:300]

    attempt("rondo", lambda: rondo_run(folder, options))
    layouts = [torch.contiguous_format, torch.channels_last] if workload.channels_last else [torch.contiguous_format]
    for key, mode in (("eager", graph_of), ("compile", compiled("reduce-overhead"))):
        if key in options.modes:
            attempt(key, lambda: min(torch_time(name, mode, layout, options.runs) for layout in layouts))
    if options.onnxruntime:
        import onnxruntime_cuda
        attempt("onnxruntime", lambda: onnxruntime_cuda.best_time(folder, options.runs))
    return row


def table(rows):
    head = ["model", "Rondo µs", "eager graph", "compile", "ONNX Runtime", "best peer ÷ Rondo", "floor", "estimate",
            "error", "PyTorch's error"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, row in rows.items():
        rondo = row.get("rondo", {})
        peers = [row[key] for key in ("eager", "compile", "onnxruntime") if key in row]
        cells = [f"{row[key]:.0f}" if key in row else "–" for key in ("eager", "compile", "onnxruntime")]
        ratio = f"{min(peers) / rondo['gpu']:.2f}" if peers and rondo else "–"
        mine = [f"{rondo['estimate']:.0f}", f"{rondo['error']:.1e}"] if rondo else ["–", "–"]
        lines.append(f"| `{name}` | {rondo['gpu'] if rondo else 0:.0f} | " + " | ".join(cells) +
                     f" | {ratio} | {row.get('floor', 0):.0f} | {' | '.join(mine)} | {row.get('torch_error', 0):.1e} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all by default")
    parser.add_argument("--rondo", type=lambda path: pathlib.Path(path).resolve(), required=True, help="the rondo binary")
    parser.add_argument("--library-path", help="folders of NVRTC and cuBLASLt, as of rondo's option")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/peers"))
    parser.add_argument("--jobs", type=int, default=8, help="workloads prepared at once")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--modes", default="eager,compile", help="PyTorch's: eager, compile")
    parser.add_argument("--prepare-only", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in WORKLOADS]
    if unknown:
        parser.error(f"there is no workload {unknown[0]!r}; there are: {', '.join(WORKLOADS)}")
    logging.disable(logging.WARNING)
    torch.backends.cudnn.benchmark = True
    torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = False
    options.models = options.out / "models"
    options.models.mkdir(parents=True, exist_ok=True)
    try:
        import onnxruntime
        options.onnxruntime = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    except ImportError:
        options.onnxruntime = False

    names, results = options.names or list(WORKLOADS), options.out / "peers.json"
    rows = json.loads(results.read_text())["rows"] if results.exists() else {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        reasons = dict(zip(names, pool.map(lambda name: prepare(name, options), names)))
    for name in names:
        if reasons[name]:
            print(f"{name}: {reasons[name]}", flush=True)
        elif name not in rows and not options.prepare_only:
            rows[name] = measured(name, options)
            print(name, json.dumps(rows[name]), flush=True)
        # After each model: a run that is cut short leaves what it measured.
        machine = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}"
        results.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
        (options.out / "peers.md").write_text(f"{datetime.date.today()}, {machine}\n\n{table(rows)}\n")
    ratios = [min(r[k] for k in ("eager", "compile", "onnxruntime") if k in r) / r["rondo"]["gpu"]
              for r in rows.values() if "rondo" in r and ("eager" in r or "compile" in r)]
    print(table(rows))
    if ratios:
        print(f"{len(ratios)} models: best peer's time over Rondo's at least {min(ratios):.2f}, median "
              f"{statistics.median(ratios):.2f}; {sum(ratio < 1.2 for ratio in ratios)} below 1.2")
    failed = any(reasons.values()) or any("rondo" not in row for row in rows.values())
    os._exit(1 if failed else 0)  # what graphs hold is not taken apart


if __name__ == "__main__":
    main()
