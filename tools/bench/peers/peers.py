#!/usr/bin/env python3
"""Times Rondo and its peers on whole models on one GPU, and prints one table.

  python3 tools/bench/peers/peers.py --rondo RONDO [--out DIR] [--jobs 8] [NAME ...]

Models are made from the definitions that workloads.py names, with random weights, exported to ONNX in 16 bits and compiled. Up to
--jobs get ready at once; then one at a time is timed: Rondo by `rondo bench`; PyTorch by a CUDA graph of its eager kernels and by
torch.compile (mode reduce-overhead; for image networks the faster of both layouts); and ONNX Runtime if its CUDA provider is
installed (`onnxruntime-gpu`). Times are device times of one run by events, medians of --runs. floor: the bytes that must be read at
4.67 TB/s or the operations at 790 TFLOP/s, whichever takes longer. estimate: the plan's own. Errors are those of the first output,
relative in the norm, against the same weights in f32: Rondo's, and PyTorch's in the same 16 bits.

Needs PyTorch, torchvision, timm, transformers, diffusers, onnx and onnxscript. Writes DIR/peers.json and DIR/peers.md, and prints
the table at the end. Models that DIR already has, from a run that was interrupted, are not measured again.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

import torch

from workloads import WORKLOADS

HERE = pathlib.Path(__file__).resolve().parent
READ_RATE, OPERATION_RATE = 4.67e6, 790e6  # bytes and operations a microsecond (an H200)
PEERS = ("eager", "compile", "onnxruntime")


def started(name, options):
    command = [sys.executable, HERE / "worker.py", name, options.out / "models", "--rondo", options.rondo, "--modes",
               options.modes, "--runs", options.runs]
    if options.library_path:
        command += ["--library-path", options.library_path]
    log = (options.out / f"{name}.log").open("w")
    return subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                            text=True)


def measured(names, options):
    """Returns {name: row}. Workers get ready side by side and measure in turn."""
    workers = {name: started(name, options) for name in names}
    ready = {name: worker.stdout.readline() == "ready\n" for name, worker in workers.items()}
    for name, worker in workers.items():
        said = worker.communicate("go\n" if ready[name] else None)[0]
        if worker.returncode == 0:
            row = json.loads(said.splitlines()[-1])
            row["floor"] = max(row["bytes"] / READ_RATE, row["operations"] / OPERATION_RATE)
        else:
            row = {"failed": {"worker": (options.out / f"{name}.log").read_text().strip()[-300:]}}
        yield name, row


def ratio(row):
    """The best peer's time over Rondo's, if there are both."""
    times = [row[key] for key in PEERS if row.get(key)]
    return min(times) / row["rondo"]["gpu"] if times and row.get("rondo") else None


def table(rows):
    head = ["model", "Rondo µs", "eager graph", "compile", "ONNX Runtime", "best peer ÷ Rondo", "floor", "estimate",
            "error", "PyTorch's error"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, row in rows.items():
        rondo, best = row.get("rondo") or {}, ratio(row)
        cells = [f"`{name}`", *(f"{x:.0f}" if x else "–" for x in (rondo.get("gpu"), *(row.get(key) for key in PEERS))),
                 f"{best:.2f}" if best else "–",
                 *(f"{x:.0f}" if x else "–" for x in (row.get("floor"), rondo.get("estimate"))),
                 *(f"{x:.1e}" if x else "–" for x in (rondo.get("error"), row.get("torch_error")))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all by default")
    parser.add_argument("--rondo", type=lambda path: pathlib.Path(path).resolve(), required=True, help="the rondo binary")
    parser.add_argument("--library-path", help="folders of NVRTC and cuBLASLt, as of rondo's option")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/peers"))
    parser.add_argument("--jobs", type=int, default=8, help="workloads that get ready at once")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--modes", default="eager,compile", help="PyTorch's: eager, compile")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in WORKLOADS]
    if unknown:
        parser.error(f"there is no workload {unknown[0]!r}; there are: {', '.join(WORKLOADS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    machine = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}"
    results = options.out / "peers.json"
    rows = json.loads(results.read_text())["rows"] if results.exists() else {}

    names = [name for name in options.names or WORKLOADS if name not in rows]
    for first in range(0, len(names), options.jobs):
        for name, row in measured(names[first:first + options.jobs], options):
            rows[name] = row
            print(name, json.dumps(row), flush=True)
            # Written after each model, so that an interrupted run keeps its measurements.
            results.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
            (options.out / "peers.md").write_text(f"{datetime.date.today()}, {machine}\n\n{table(rows)}\n")
    print(table(rows))
    ratios = [r for r in map(ratio, rows.values()) if r]
    if ratios:
        print(f"{len(ratios)} models: best peer's time over Rondo's at least {min(ratios):.2f}, median "
              f"{statistics.median(ratios):.2f}; {sum(r < 1.2 for r in ratios)} below 1.2")
    sys.exit(any(not row.get("rondo") for row in rows.values()))


if __name__ == "__main__":
    main()
