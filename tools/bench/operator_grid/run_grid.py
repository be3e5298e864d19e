#!/usr/bin/env python3
"""Measures the plans of compile_grid.py on this machine's GPU. Prints each operator's time beside its floor, its estimate and
PyTorch's time, and the error of its numbers against PyTorch's in f32.

Times are medians in microseconds of graph replays, by events: of the plan's program, and of a graph of PyTorch's eager kernels
(for convolutions the faster of with and without cuDNN's search). The error is the largest difference over the largest magnitude.

  python3 tools/bench/operator_grid/run_grid.py build/grid --rondo build/release/bin/rondo --libraries build/release/lib
"""
import argparse
import gc
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "peers")]
import families
from rondo_session import Session
from synthetic import synthetic
from torch_times import event_times, graph_of

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "bool": torch.bool}


def draw(port, generator):
    if port.dtype == "bool":
        seen = torch.rand(port.shape, generator=generator, device="cuda") > 0.2
        if port.fill == "mask":  # every row sees a key
            seen[..., 0] = True
        return seen
    if port.dtype == "i64":
        return torch.randint(0, port.below, port.shape, generator=generator, device="cuda")
    if port.fill == "boxes":
        corner, size = (torch.rand(port.shape[0], 2, generator=generator, device="cuda") * most for most in (150, 80))
        return torch.cat([corner, corner + size], 1).to(TYPES[port.dtype])
    x = torch.randn(port.shape, generator=generator, device="cuda")
    if port.fill == "mask":
        x = torch.where(x > 0.8, torch.full_like(x, -10000.0), x)
    return x.to(TYPES[port.dtype])


def array(tensor):
    tensor = tensor.contiguous().cpu()
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def error_of(case, session, tensors):
    """The error of Rondo's result against PyTorch's in f32 from the same numbers."""
    inputs = {port.name: array(tensors[port.name]) for port in case.inputs}
    got = session.run(case.name, inputs)[case.output.name]
    if case.output.dtype == "bf16":
        got = (got.astype(np.uint32) << 16).view(np.float32)
    wide = {name: t.float() if t.is_floating_point() else t for name, t in tensors.items()}
    expected = case.torch(wide).double().cpu().numpy()
    scale = np.abs(expected).max() or 1
    return float(np.abs(got.astype(np.float64).reshape(expected.shape) - expected).max() / scale)


def torch_time(case, tensors):
    times = []
    for search in (False, True):
        torch.backends.cudnn.benchmark = search
        times.append(event_times(graph_of(lambda: case.torch(tensors), []), 20))
        if not case.weights:
            break
    return min(times)


def bench(rondo, plan, runs, *options):
    """{program: (median of the device time, estimate)} in microseconds."""
    text = subprocess.run([rondo, "bench", plan, "--json", "--runs", str(runs), *options], stdout=subprocess.PIPE,
                          check=True).stdout
    return {p["name"]: (p["device_us"]["median"], p.get("estimated_us", 0)) for p in json.loads(text)["programs"]}


def drawn(case):
    generator = torch.Generator("cuda").manual_seed(1)
    tensors = {port.name: draw(port, generator) for port in case.inputs}
    for port in case.weights:
        tensors[port.name] = synthetic(port, 1).to(TYPES[port.dtype])
    return tensors


def decides(port):
    return port.dtype == "i64" or port.fill == "boxes"


def time_by_indices(case, rondo, plan, runs, folder):
    """Times a case whose integers or boxes decide what is read or written, with the case's own instead of the command's numbers."""
    tensors, options = drawn(case), ["--program", case.name]
    for port in case.inputs:
        if decides(port):
            path = pathlib.Path(folder) / f"{port.name}.npy"
            np.save(path, array(tensors[port.name]))
            options += ["--input", f"{port.name}={path}"]
    return bench(rondo, plan, runs, *options)


def measure(case, session, times):
    tensors = drawn(case)
    row = {"name": case.name, "floor": case.floor(), "rondo": times[case.name][0], "estimate": times[case.name][1]}
    try:
        row["torch"] = torch_time(case, tensors)
    except Exception as failure:  # PyTorch lacks some operators in some types
        row["torch_says"] = str(failure).splitlines()[0]
    try:
        row["error"] = error_of(case, session, tensors)
        row["good"] = row["error"] <= case.tolerance
    except RuntimeError as failure:
        row["good"], row["says"] = False, str(failure)
    return row


def line(row):
    peer, mine = row.get("torch"), row["rondo"]
    ratio = f"{peer / mine:8.2f}" if peer else "       -"
    peer = f"{peer:9.1f}" if peer else "        -"
    error = f"{row['error']:.1e}" if "error" in row else row.get("says", "")
    return (f"{row['name']:58} {row['floor']:7.1f} {row['estimate']:9.1f} {peer} {mine:9.1f} {ratio} {error}"
            f"{'' if row['good'] else '  WRONG'}")


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=pathlib.Path, help="folder of FAMILY.rondo")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--rondo", default="build/release/bin/rondo")
    parser.add_argument("--libraries", type=pathlib.Path, default=pathlib.Path("build/release/lib"),
                        help="folder of librondo.so and librondo_cuda.so")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path, help="all that was measured")
    families.add_options(parser)
    arguments = parser.parse_args()
    rows = []
    for family in arguments.families or [f for f in families.FAMILIES if (arguments.plans / f"{f}.rondo").exists()]:
        plan, start = arguments.plans / f"{family}.rondo", time.time()
        times = bench(arguments.rondo, plan, arguments.runs)
        cases = [case for case in families.cases(family, arguments) if case.name in times]
        with tempfile.TemporaryDirectory() as folder:
            for case in cases:
                if any(map(decides, case.inputs)):
                    times |= time_by_indices(case, arguments.rondo, plan, arguments.runs, folder)
        session = Session(arguments.libraries, plan, driver="cuda")
        print(f"{family:58} {'floor':>7} {'estimate':>9} {'PyTorch':>9} {'Rondo':>9} {'ratio':>8} error", flush=True)
        for case in cases:
            with torch.no_grad():
                rows.append(measure(case, session, times))
            print(line(rows[-1]), flush=True)
            gc.collect()
            torch.cuda.empty_cache()
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1))
        print(f"{family}: {time.time() - start:.0f} s\n", flush=True)
    ratios = sorted(row["torch"] / row["rondo"] for row in rows if "torch" in row)
    print(f"within 1.3 times PyTorch's time {sum(r >= 1 / 1.3 for r in ratios)}, ahead {sum(r >= 1 for r in ratios)}, above 3 times "
          f"{sum(r < 1 / 3 for r in ratios)} of {len(ratios)}")
    print(f"{len(rows)} operators, {sum(not row['good'] for row in rows)} wrong; PyTorch's time over Rondo's: least "
          f"{ratios[0]:.2f}, 5 % below {ratios[len(ratios) // 20]:.2f}, median {statistics.median(ratios):.2f}")
    sys.exit(any(not row["good"] for row in rows))


main()
