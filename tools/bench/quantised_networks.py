#!/usr/bin/env python3
"""Quantised models beside the f32 models that they were made of, on Rondo's host driver, one thread unless told otherwise.

Takes a folder that quantised_models.py has filled. Each quantised model, its f32 model, and both on ONNX Runtime's CPU
provider take turns, run by run. Prints for each the median milliseconds of the processor; the median of the ratios of
neighbouring runs of the quantised plan and the f32 plan; the plan's weights over the model's file; and, in per mille of
the greatest output, how far (root mean square) the outputs are from ONNX Runtime's as the model is written, how far
ONNX Runtime's own are from those when it fuses, and how far those are from f32. With --before, the quantised model as
another build compiles and runs it takes turns with them: the last column is its ratio to f32, and says so if its outputs
are not the same bits.

  tools/setup --venv
  build/venv/bin/python tools/bench/quantised_models.py build/quantised
  build/venv/bin/python tools/bench/quantised_networks.py build/quantised
  build/venv/bin/python tools/bench/quantised_networks.py build/kinds --only 'unet*' --instructions avx2 --before build/before
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
    threads = f"{arguments.threads}:{arguments.instructions}" if arguments.instructions else arguments.threads
    sources = [(f32, arguments.build), (model, arguments.build)] + [(model, build) for build in arguments.before]
    runners, plans = [], []
    for number, (source, build) in enumerate(sources):
        folder = ROOT / "build/bench" / f"{source.stem}{'.before' * (number > 1)}"
        folder.mkdir(parents=True, exist_ok=True)
        plans.append(folder / "plan.rondo")
        compile_plan(build / "bin", source, plans[-1])
        runners.append(Rondo(build / "bin", plans[-1], threads, folder, inputs))
    runners += [OnnxRuntime(source, arguments.threads, inputs, np.empty_like(real)) for source in (f32, model) if arguments.ort]
    times = [[] for _ in runners]
    for number in range(arguments.runs + 2):
        for runner, list_of in zip(runners, times):
            milliseconds = runner.run()[1 if arguments.wall else 0]
            if number >= 2:
                list_of.append(milliseconds)
    results, scale = [runner.result(y.name) for runner in runners[1:len(sources)]], float(np.max(np.abs(real)))
    for runner in runners[:len(sources)]:
        runner.close()
    about = json.loads(subprocess.run([str(arguments.build / "bin/rondo"), "inspect", str(plans[1]), "--json"], check=True,
                                      capture_output=True, text=True).stdout)
    weights = about["requirements"]["devices"][0]["weights"]

    def ratio(quantised):
        return f"{statistics.median(q / f for f, q in zip(times[0], quantised)):.2f}"

    shown = times[:2] + times[len(sources):]
    cells = [model.stem] + [f"{statistics.median(t):.2f}" for t in shown] + [
        ratio(times[1]), f"{weights / model.stat().st_size:.2f}"] + [
            f"{apart(a, b, scale):.1f}" for a, b in ((results[0], written), (fused, written), (written, real))] + [
                ratio(t) + ("" if np.array_equal(results[0], r) else f" ({apart(results[0], r, scale):.1f} ‰ apart)")
                for t, r in zip(times[2:len(sources)], results[1:])]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--before", type=pathlib.Path, nargs=1, default=[], help="another build, such as of an older commit")
    parser.add_argument("--only", nargs="+", default=["*"], help="models whose names are like one of these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--instructions", help="of Rondo: avx512, avx2 or baseline; by default the best there are")
    parser.add_argument("--wall", action="store_true", help="times of the wall")
    parser.add_argument("--no-ort", dest="ort", action="store_false", help="leave out ONNX Runtime's times")
    arguments = parser.parse_args()
    print(describe(arguments.threads) + (f"; {arguments.instructions}" if arguments.instructions else ""))
    columns = ["model", "Rondo f32, ms", "Rondo, ms"] + ["ORT f32, ms", "ORT, ms"] * arguments.ort + [
        "Rondo over its f32", "weights over file", "from ORT, ‰", "ORT from itself, ‰", "ORT from f32, ‰"] + [
            "before"] * len(arguments.before)
    print(f"\n| {' | '.join(columns)} |\n" + "|---" * len(columns) + "|")
    for model in sorted(arguments.folder.glob("*.onnx")):
        if not model.name.endswith(".f32.onnx") and any(model.match(f"{like}.onnx") for like in arguments.only):
            measure(model, arguments)


if __name__ == "__main__":
    main()
