"""Operators of com.microsoft, and those of ai.onnx that go with them, each in models drawn at random: what agrees.

Each has a function in cases/operator_cases/ that draws a model of it: shapes, options and numbers, from a seed. ONNX Runtime says what the outputs are;
`rondo test` compiles the model, runs it and compares. "kinds": how many different sets of attributes and inputs were met. On processors of x86 without VNNI,
ONNX Runtime's integer products of u8 by i8 saturate within pairs, and differ from exact sums (MatMulInteger, QGemm, ...).

  build/venv/bin/python tests/ort/run operators GroupQueryAttention --draws 200 --seed 7
  build/venv/bin/python tests/ort/run operators --driver cuda         # with a GPU
"""
import json
import shutil
import subprocess

import onnx
import onnxruntime as ort
from onnx import numpy_helper

import operator_cases
from peer import ROOT, cpu_session, named

HEADS = ("agree", "differ", "refused by ORT", "kinds")


def declare(parser):
    parser.add_argument("--driver", default="host", help="of Rondo: host, or cuda on a machine with a GPU")
    parser.add_argument("--draws", type=int, default=48)
    parser.add_argument("--reasons", action="store_true", help="print why ONNX Runtime refuses what it refuses")


def cases(arguments):
    return named(arguments, operator_cases.ALL)


def run(case):
    """ONNX Runtime's outputs in the model's order, without optimisations that would replace the operator."""
    session = cpu_session(case.model().SerializeToString(), optimised=False)
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
    """Writes a model and a data set with ONNX Runtime's outputs. Returns the reason if it refuses the model."""
    try:
        outputs = run(case.oracle or case)
    except Exception as error:  # pylint: disable=broad-except
        return str(error).split("\n", maxsplit=1)[0]
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(case.model(), folder / "model.onnx")
    for kind, arrays in (("input", case.inputs), ("output", dict(zip(case.outputs, outputs)))):
        for i, (name, array) in enumerate(arrays.items()):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())
    return None


def compare(arguments, name):
    root = ROOT / "build/operators" / name
    shutil.rmtree(root, ignore_errors=True)
    refused, kinds, tolerances = [], set(), {}
    for number in range(arguments.draws):
        case = operator_cases.ALL[name](operator_cases.Draw(arguments.seed, number, name))
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
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if not done.stdout:
            raise RuntimeError(f"rondo test {folder} ended with {done.returncode}; one of its cases alone shows which: {done.stderr[-200:]}")
        report = json.loads(done.stdout)
        passed += report["passed"]
        failures += [case for case in report["cases"] if case["verdict"] != "PASS"]
    wrong = [f"{case['case']}: {case['detail']}" for case in failures[:3]] + ["nothing was compared"] * (passed == 0)
    wrong += [f"ONNX Runtime: {reason}" for reason in sorted(set(refused))] if arguments.reasons else []
    return [str(len(one)) if hasattr(one, "__len__") else str(one) for one in (passed, failures, refused, kinds)], "\n".join(wrong) or None
