#!/usr/bin/env python3
"""Operators of com.microsoft (and what goes with them) on Rondo's host or CUDA driver against ONNX Runtime's CPU provider.

Each operator has a function in operator_cases/ that draws a model of it: shapes, options and numbers, from a seed.
ONNX Runtime says what the outputs are; `rondo test` compiles the model, runs it and compares. Prints a row for each
operator: cases that agree, those that do not (with the reason of the first), those that ONNX Runtime refuses, and
how many different sets of attributes and inputs were met. On processors of x86 without VNNI, ONNX Runtime's integer products
of u8 by i8 saturate within pairs, and differ from exact sums (MatMulInteger, QGemm, ...).

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_operators.py                       # all, 48 cases each
  build/venv/bin/python tools/bench/ort_operators.py GroupQueryAttention --cases 200 --seed 7
  build/venv/bin/python tools/bench/ort_operators.py --driver cuda         # with a GPU
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import onnx
import onnxruntime as ort
from onnx import numpy_helper

import operator_cases
from ort_peer import ROOT


def session_of(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # As the operator is written: nothing else may take its place.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(case):
    """ONNX Runtime's outputs, in the order of the model's."""
    session = session_of(case.model())
    if not case.in_place:
        return session.run(None, case.inputs)
    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in case.inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in case.outputs:
        if name in case.in_place:
            binding.bind_ortvalue_output(name, values[case.in_place[name]])
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    return [value.numpy() for value in binding.get_outputs()]


def write_case(folder, case):
    """Model and data set; the outputs are ONNX Runtime's. The reason, if it refuses."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(case.model(), folder / "model.onnx")
    oracle = case.oracle or case
    try:
        outputs = run(oracle)
    except Exception as error:  # pylint: disable=broad-except
        shutil.rmtree(folder)
        return str(error).split("\n", maxsplit=1)[0]
    for kind, arrays in (("input", case.inputs), ("output", dict(zip(case.outputs, outputs)))):
        for i, (name, array) in enumerate(arrays.items()):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    return None


def compare(name, arguments):
    make = operator_cases.ALL[name]
    root = ROOT / "build/operators" / name
    shutil.rmtree(root, ignore_errors=True)
    refused, kinds, tolerances = [], set(), {}
    for number in range(arguments.cases):
        case = make(operator_cases.Draw(arguments.seed, number, name))
        folder = root / f"{case.tolerance[0]:g}_{case.tolerance[1]:g}" / f"{number:03}"
        reason = write_case(folder, case)
        if reason is None:
            kinds.add(case.kind())
            tolerances[folder.parent] = case.tolerance
        else:
            refused.append(reason)
    passed, failures = 0, []
    for folder, (rtol, atol) in tolerances.items():
        command = [arguments.binaries / "rondo", "test", folder, "--json", "--rtol", rtol, "--atol", atol, "--driver", arguments.driver]
        said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False).stdout
        report = json.loads(said)
        passed += report["passed"]
        failures += [case for case in report["cases"] if case["verdict"] != "PASS"]
    return passed, failures, refused, kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="all, if none is named")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--driver", default="host", help="of Rondo: host, or cuda on a machine with a GPU")
    parser.add_argument("--cases", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reasons", action="store_true", help="print why ONNX Runtime refuses what it refuses")
    arguments = parser.parse_args()

    print(f"ONNX Runtime {ort.__version__}, seed {arguments.seed}\n")
    print("| operator | agree | differ | refused by ORT | kinds |")
    print("|---|---|---|---|---|")
    bad = []
    for name in arguments.operators or operator_cases.ALL:
        passed, failures, refused, kinds = compare(name, arguments)
        print(f"| {name} | {passed} | {len(failures)} | {len(refused)} | {len(kinds)} |", flush=True)
        bad += [f"{case['case']}: {case['detail']}" for case in failures[:3]]
        if passed == 0:
            bad.append(f"{name}: nothing was compared")
        if arguments.reasons:
            bad += [f"{name}: ONNX Runtime: {reason}" for reason in sorted(set(refused))]
    if bad:
        sys.exit("\n".join(bad))


if __name__ == "__main__":
    main()
