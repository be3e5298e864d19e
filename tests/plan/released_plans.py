#!/usr/bin/env python3
"""Opens, checks and runs the plans of every release in tests/data/plans/VERSION with the current command.

  released_plans.py RONDO                 tests the plans of all releases
  released_plans.py RONDO --add VERSION   compiles those of the release in preparation, and stores their results

A plan of the same major format loads and gives its former results. One of another major format is refused by a sentence that
names both formats. Plans for CUDA are checked, read, and run on the host driver, as every plan can be.
"""
import argparse
import ast
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
MODELS, INPUTS = DATA / "plans/models", DATA / "plans/inputs"
DECODER = DATA / "open_shapes/builder_decode"
MIXED = str(MODELS / "mixed.onnx")


def mixed(count):
    return [f"x={INPUTS}/x{count}.npy", f"i={INPUTS}/i{count}.npy"]


# {name: (how it is compiled, its runs)}; a run is a program's name, its inputs, and how often. Add new kinds at the end.
CASES = {
    "buckets": ([f"one={MIXED}", f"four={MIXED}", "--shape", "one:batch=1", "--shape", "four:batch=4"],
                [("one", mixed(1), 1), ("four", mixed(4), 1)]),
    "two_devices": ([MIXED, "--shape", "batch=2", "--tp", "2"], [("main", mixed(2), 1)]),
    "weights_of_4_bits": ([MIXED, "--shape", "batch=2", "--quantize-weights", "int4:16"], [("main", mixed(2), 1)]),
    "state": ([str(MODELS / "state.onnx"), "--state", "cache:cache_out"], [("main", [f"x={INPUTS}/row.npy"], 3)]),
    "loop": ([str(MODELS / "loop.onnx"), "--unroll", "0"], [("main", [f"x={INPUTS}/v.npy"], 1)]),
    "decoder": ([str(DECODER / "model.onnx"), "--cache-length", "16", "--shape", "batch_size=1", "--shape",
                 "sequence_length=1"], [("main", [f"input_ids={INPUTS}/token.npy", f"attention_mask={INPUTS}/mask.npy"], 1)]),
    "machine_code": ([MIXED, "--shape", "batch=2", "--target", "cuda:sm_90a"], [("main", mixed(2), 1)]),
    "shared_weights": ([f"a={MIXED}", f"b={MODELS / 'state.onnx'}", "--shape", "batch=2", "--weights-file",
                        "shared_weights.bin", "--state", "cache:cache_out"], [("a", mixed(2), 1), ("b", [f"x={INPUTS}/row.npy"], 2)]),
}


def read_npy(path):
    """Returns type, shape and numbers."""
    data = path.read_bytes()
    assert data[:6] == b"\x93NUMPY", path
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    codes = {"<f4": "f", "<i8": "q", "<i4": "i", "|b1": "?", "|u1": "B", "|i1": "b", "<f2": "e", "<f8": "d"}
    count = math.prod(header["shape"])
    return header["descr"], header["shape"], struct.unpack(f"<{count}{codes[header['descr']]}", data[10 + size:])


def differs(now, then):
    """How two files of numbers differ by more than another CPU's instructions explain; None if they do not."""
    a, b = read_npy(now), read_npy(then)
    if a[:2] != b[:2]:
        return f"{a[:2]}, then {b[:2]}"
    for i, (x, y) in enumerate(zip(a[2], b[2])):
        if x != y and not (isinstance(x, float) and abs(x - y) <= 1e-5 + 1e-4 * abs(y)):
            return f"element {i} is {x}, then {y}"
    return None


def rondo(command, *arguments):
    return subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)


def outputs(command, plan, run, folder):
    program, inputs, repeat = run
    given = [word for text in inputs for word in ("--input", text)]
    return rondo(command, "run", plan, "--driver", "host", "--program", program, "--repeat", repeat, *given, "--output", folder)


def try_plan(command, folder, name, work):
    """The errors of one plan; empty if there are none."""
    plan = folder / f"{name}.rondo"
    major = struct.unpack("<H", plan.read_bytes()[4:6])[0]
    ours = int(re.search(r"plan format (\d+)\.", rondo(command, "--version").stdout).group(1))
    checked = rondo(command, "check", plan)
    if major != ours:
        said = checked.stderr
        right = checked.returncode == 1 and f"{major}." in said and f"{ours}." in said
        return "" if right else f"is of format {major}, and the refusal names not both: {said}"
    if checked.returncode != 0:
        return "check: " + checked.stderr
    shown = rondo(command, "inspect", plan)
    if shown.returncode != 0 or f"made by rondo {folder.name}" not in shown.stdout:
        return f"inspect does not say that it was made by rondo {folder.name}: {shown.stdout[:200]}{shown.stderr}"
    for run in CASES[name][1]:
        now, then = work / run[0], folder / f"{name}.outputs" / run[0]
        ran = outputs(command, plan, run, now)
        if ran.returncode != 0:
            return "run: " + ran.stderr
        names = sorted(path.name for path in then.iterdir())
        if not names or names != sorted(path.name for path in now.iterdir()):
            return f"program {run[0]} has other outputs than {names}"
        for each in names:
            if why := differs(now / each, then / each):
                return f"program {run[0]}, output {each}: {why}"
    return ""


def try_all(command):
    folders = sorted(path.parent for path in (DATA / "plans").glob("*/buckets.rondo"))
    assert folders, "no release has plans"
    failed = 0
    for folder in folders:
        names = sorted(path.stem for path in folder.glob("*.rondo"))
        for name in names:
            with tempfile.TemporaryDirectory() as work:
                if why := try_plan(command, folder, name, pathlib.Path(work)):
                    print(f"FAILED: {folder.name}/{name}.rondo: {why}")
                    failed += 1
        print(f"rondo {folder.name}: {len(names)} plans were tried")
    return 1 if failed else 0


def add(command, version):
    said = rondo(command, "--version").stdout
    if not said.startswith(f"rondo {version}"):
        sys.exit(f"this command is not of release {version}: {said}")
    folder = DATA / "plans" / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, (arguments, runs) in CASES.items():
        plan = folder / f"{name}.rondo"
        made = rondo(command, "compile", *arguments, "-o", plan)
        if made.returncode != 0:
            sys.exit(f"{name}: {made.stderr}")
        for run in runs:
            ran = outputs(command, plan, run, folder / f"{name}.outputs" / run[0])
            if ran.returncode != 0:
                sys.exit(f"{name}: {ran.stderr}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rondo")
    parser.add_argument("--add", metavar="VERSION")
    options = parser.parse_args()
    return add(options.rondo, options.add) if options.add else try_all(options.rondo)


if __name__ == "__main__":
    sys.exit(main())
