#!/usr/bin/env python3
"""Times models in FP8 beside the same models in f32, f16 and bf16 on a GPU: device time of a graph replay in microseconds.

Takes a folder that fp8_models.py has filled. Every plan is measured once in each of several rounds, and the median of the rounds'
medians is printed. "from ORT" is the root mean square difference, in per mille of the largest output, between an FP8 model's
output and NAME.y.npy, which ONNX Runtime computed from NAME.x.npy, if these files exist.

  tools/bench/fp8_networks.py build/fp8 --rondo build/release/bin/rondo [--before OTHER/rondo]
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import tempfile

import numpy as np

# Column, model, compiler, options.
FORMS = [
    ("f32", "f32", "rondo", []),
    ("f16", "f32", "rondo", ["--precision", "f16"]),
    ("bf16", "f32", "rondo", ["--precision", "bf16"]),
    ("FP8, before", "fp8", "before", []),
    ("FP8, before, bf16", "fp8", "before", ["--precision", "bf16"]),
    ("FP8", "fp8", "rondo", []),
    ("FP8, bf16", "fp8", "rondo", ["--precision", "bf16"]),
    ("FP8 of weights, before, bf16", "fp8_weights", "before", ["--precision", "bf16"]),
    ("FP8 of weights, bf16", "fp8_weights", "rondo", ["--precision", "bf16"]),
]


def compiled(tool, model, plan, options, target):
    subprocess.run([tool, "compile", str(model), "-o", str(plan), "--target", target, "--synthetic-weights", "1"] + options, check=True,
                   capture_output=True, text=True)


def device_us(tool, plan, runs):
    result = subprocess.run([tool, "bench", str(plan), "--runs", str(runs), "--json"], check=True, capture_output=True, text=True)
    return json.loads(result.stdout)["programs"][0]["device_us"]["median"]


def from_ort(tool, plan, given, wanted, folder):
    subprocess.run([tool, "run", str(plan), "--input", f"x={given}", "--output", str(folder)], check=True, capture_output=True)
    got, want = np.load(next(folder.glob("*.npy"))), np.load(wanted)
    return 1000 * float(np.sqrt(np.mean((got - want) ** 2)) / np.abs(want).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rondo", default="build/release/bin/rondo")
    parser.add_argument("--before", help="another build to compare with")
    parser.add_argument("--target", default="cuda:sm_90a")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    tools = {"rondo": arguments.rondo, "before": arguments.before}
    forms = [form for form in FORMS if tools[form[2]]]
    names = sorted(model.name[:-len(".fp8.onnx")] for model in arguments.folder.glob("*.fp8.onnx"))
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        plans = {(name, form[0]): work / f"{name}.{number}.rondo" for name in names for number, form in enumerate(forms)}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            # A network without attention has no fp8_weights model.
            there = [(name, form) for name in names for form in forms if (arguments.folder / f"{name}.{form[1]}.onnx").exists()]
            waiting = [pool.submit(compiled, tools[tool], arguments.folder / f"{name}.{model}.onnx", plans[name, column], options,
                                   arguments.target) for name, (column, model, tool, options) in there]
            for each in waiting:
                each.result()
        print("| model, µs | " + " | ".join(form[0] for form in forms) + " | from ORT, ‰ |")
        print("|---" * (len(forms) + 2) + "|")
        for name in names:
            times = {form[0]: [] for form in forms}
            for _ in range(arguments.rounds):
                for column, _, tool, _ in (form for of, form in there if of == name):
                    times[column].append(device_us(tools[tool], plans[name, column], arguments.runs))
            given, wanted = arguments.folder / f"{name}.x.npy", arguments.folder / f"{name}.y.npy"
            apart = [f"{from_ort(tools[tool], plans[name, column], given, wanted, work / column.replace(' ', '_') / name):.2f}"
                     for column, model, tool, _ in forms if model == "fp8" and wanted.exists()]
            print("| " + " | ".join([name] + [f"{statistics.median(t):.1f}" if t else "" for t in times.values()] + [", ".join(apart)]) + " |", flush=True)


if __name__ == "__main__":
    main()
