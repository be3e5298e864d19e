#!/usr/bin/env python3
"""Compares recurrent layers as loops and unrolled: compile times by number of steps, and run times in pairs.

  build/venv/bin/python tools/bench/recurrent.py build/release/bin/rondo            # both tables, target host
  build/venv/bin/python tools/bench/recurrent.py build/release/bin/rondo --compile --target cuda:sm_90a

Compile times are user CPU seconds. Runs are those of `rondo bench` on the two plans in turn; the table has the median over the turns
of the median run. Needs numpy and onnx (tools/setup --venv; pip install onnx).
"""
import argparse
import os
import re
import resource
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def save_model(path, op, steps, batch, hidden, direction="forward", inputs=None):
    """A model of one layer with random weights and all of the layer's outputs."""
    random = np.random.default_rng(0)
    inputs = inputs or hidden
    both = 2 if direction == "bidirectional" else 1
    gates = GATES[op] * hidden

    def weight(name, *shape):
        scale = 0.5 / np.sqrt(hidden)
        return numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32), name)

    weights = [weight("w", both, gates, inputs), weight("r", both, gates, hidden), weight("b", both, 2 * gates)]
    names = ["y", "y_h", "y_c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, ["x", "w", "r", "b"], names, op.lower(), hidden_size=hidden, direction=direction)
    shapes = {"y": [steps, both, batch, hidden]}
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes.get(n, [both, batch, hidden])) for n in names]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, inputs])
    graph = helper.make_graph([node], op.lower(), [x], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)


def compile_plan(rondo, model, plan, extra):
    """User CPU seconds, peak MiB and output of one compilation."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([rondo, "compile", model, "-o", plan, "--no-kernel-cache", *extra],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, done.stdout


def compile_table(rondo, target, most_unrolled, folder):
    print(f"| {target}: layer | steps | loop, s | steps of its plan | written out, s | steps of its plan |")
    print("|---|---|---|---|---|---|")
    for op, direction in (("LSTM", "forward"), ("GRU", "bidirectional")):
        for steps in (50, 200, 800, 4096, 65536):
            model, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.rondo")
            save_model(model, op, steps, 1, 128, direction)
            cells = []
            for unroll in ("0", "65536"):
                if unroll != "0" and steps > most_unrolled:
                    cells += ["", ""]
                    continue
                seconds, text = compile_plan(rondo, model, plan, ["--target", target, "--unroll", unroll])
                count = re.search(r"(\d+) steps", text)
                cells += [text if seconds is None else f"{seconds:.2f}", count.group(1) if count else ""]
            print(f"| {op} {direction} 128 | {steps} | " + " | ".join(cells) + " |", flush=True)


def run_once(rondo, plan, runs):
    text = subprocess.run([rondo, "bench", plan, "--runs", str(runs), "--top", "1"], capture_output=True, text=True,
                          check=True).stdout
    for line in text.splitlines():
        found = re.search(r"(?:median|p50)\D*([\d.]+)", line)
        if found:
            return float(found.group(1))
    raise SystemExit("no median in:\n" + text)


def run_table(rondo, cases, turns, runs, folder):
    print("| layer | batch | hidden | steps | loop, µs | written out, µs | ratio |")
    print("|---|---|---|---|---|---|---|")
    for op, direction, batch, hidden, steps in cases:
        model = os.path.join(folder, "m.onnx")
        plans = [os.path.join(folder, name) for name in ("loop.rondo", "straight.rondo")]
        save_model(model, op, steps, batch, hidden, direction)
        for plan, unroll in zip(plans, ("0", "65536")):
            seconds, text = compile_plan(rondo, model, plan, ["--unroll", unroll])
            if seconds is None:
                raise SystemExit(text)
        times = [[], []]
        for turn in range(turns):
            for which in (0, 1) if turn % 2 == 0 else (1, 0):
                times[which].append(run_once(rondo, plans[which], runs))
        loop, straight = (statistics.median(t) for t in times)
        ratio = statistics.median(a / b for a, b in zip(*times))
        print(f"| {op} {direction} | {batch} | {hidden} | {steps} | {loop:.0f} | {straight:.0f} | {ratio:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rondo")
    parser.add_argument("--target", default="host")
    parser.add_argument("--compile", action="store_true", help="only compile times")
    parser.add_argument("--run", action="store_true", help="only times of runs")
    parser.add_argument("--most-unrolled", type=int, default=800, help="steps up to which plans are written out")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--runs", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not given.run:
            compile_table(given.rondo, given.target, given.most_unrolled, folder)
        if not given.compile:
            cases = [("LSTM", "forward", batch, hidden, steps) for batch, hidden, steps in
                     ((1, 64, 50), (1, 128, 200), (1, 256, 200), (1, 512, 200), (1, 128, 800), (8, 64, 200),
                      (8, 256, 200), (8, 512, 50))]
            cases += [("LSTM", "bidirectional", 1, 128, 50), ("GRU", "forward", 1, 128, 200),
                      ("GRU", "bidirectional", 8, 128, 50), ("RNN", "forward", 1, 256, 200)]
            run_table(given.rondo, cases, given.turns, given.runs, folder)


if __name__ == "__main__":
    main()
