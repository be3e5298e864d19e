#!/usr/bin/env python3
"""Quantised models beside the f32 models that they were made of, on Rondo's host driver, one thread.

Takes a folder that quantised_models.py has filled. Each quantised model, its f32 model, and both on ONNX Runtime's CPU
provider take turns, run by run. Prints for each the median milliseconds of the processor; the median of the ratios of
neighbouring runs of the quantised plan and the f32 plan; the plan's weights over the model's file; and, in per mille of
the greatest output, how far (root mean square) the outputs are from ONNX Runtime's as the model is written, how far
ONNX Runtime's own are from those when it fuses, and how far those are from f32.

  tools/setup --venv
  build/venv/bin/python tools/bench/quantised_models.py build/quantised
  build/venv/bin/python tools/bench/quantised_networks.py build/quantised
"""
import argparse
import json
import pathlib
import statistics
import subprocess

import numpy as np
import onnxruntime as ort

from ort_networks import OnnxRuntime, Rondo
from ort_peer import ROOT, compile_plan, describe


def outputs_of(model, inputs, level):
    options = ort.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 3
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


def apart(a, b, scale):
    return 1000 * float(np.sqrt(np.mean((a - b) ** 2))) / scale


def measure(model, arguments):
    f32 = model.parent / (model.name.split(".")[0] + ".f32.onnx")
    session = ort.InferenceSession(str(f32), providers=["CPUExecutionProvider"])
    x, y = session.get_inputs()[0], session.get_outputs()[0]
    inputs = {x.name: np.random.default_rng(7).standard_normal(x.shape).astype(np.float32)}
    levels = ort.GraphOptimizationLevel
    real, written, fused = (outputs_of(m, inputs, level) for m, level in (
        (f32, levels.ORT_DISABLE_ALL), (model, levels.ORT_DISABLE_ALL), (model, levels.ORT_ENABLE_ALL)))
    runners, plans = [], []
    for source in (f32, model):
        folder = ROOT / "build/bench" / source.stem
        folder.mkdir(parents=True, exist_ok=True)
        plans.append(folder / "plan.rondo")
        compile_plan(arguments.build / "bin", source, plans[-1])
        runners.append(Rondo(arguments.build / "bin", plans[-1], 1, folder, inputs))
    runners += [OnnxRuntime(source, 1, inputs, np.empty_like(real)) for source in (f32, model)]
    times = [[] for _ in runners]
    for number in range(arguments.runs + 2):
        for runner, list_of in zip(runners, times):
            milliseconds = runner.run()[0]
            if number >= 2:
                list_of.append(milliseconds)
    result, scale = runners[1].result(y.name), float(np.max(np.abs(real)))
    for runner in runners[:2]:
        runner.close()
    about = json.loads(subprocess.run([str(arguments.build / "bin/rondo"), "inspect", str(plans[1]), "--json"], check=True,
                                      capture_output=True, text=True).stdout)
    weights = about["requirements"]["devices"][0]["weights"]
    ratio = statistics.median(q / f for f, q in zip(times[0], times[1]))
    cells = [model.stem] + [f"{statistics.median(t):.2f}" for t in times] + [
        f"{ratio:.2f}", f"{weights / model.stat().st_size:.2f}"] + [
            f"{apart(a, b, scale):.1f}" for a, b in ((result, written), (fused, written), (written, real))]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    arguments = parser.parse_args()
    print(describe(1))
    print("\n| model | Rondo f32, ms | Rondo, ms | ORT f32, ms | ORT, ms | Rondo over its f32 | weights over file |"
          " from ORT, ‰ | ORT from itself, ‰ | ORT from f32, ‰ |\n" + "|---" * 10 + "|")
    for model in sorted(arguments.folder.glob("*.onnx")):
        if not model.name.endswith(".f32.onnx"):
            measure(model, arguments)


if __name__ == "__main__":
    main()
