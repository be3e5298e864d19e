#!/usr/bin/env python3
"""Measures the bytes that one run of a model takes from the arena of ONNX Runtime's CPU provider.

    build/venv/bin/python tools/bench/ort_arena.py MODEL.onnx [--weights FOLDER]

The arena grows exactly by the requested bytes (kSameAsRequested) and is shrunk after every run, so that ONNX Runtime's own log shows
the bytes of a run. The first run allocates piece by piece. From the second run on, all allocations that fit a pattern are one block with
planned offsets; the third run's bytes are printed. They include outputs, but not inputs and weights. Missing external data is replaced
by a sparse file of zeros in --weights. The CPU provider has few kernels for 16-bit floats: ONNX Runtime puts casts to f32 around f16
nodes, and has none for bf16.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXTENDED = re.compile(r"Extended allocation by (\d+) bytes")
TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int64)": "int64", "tensor(bool)": "bool"}


def with_weights(model, folder):
    """A copy of `model` in `folder`, beside sparse files of zeros in place of the external data."""
    import onnx
    loaded = onnx.load(str(model), load_external_data=False)
    ends = {}
    for tensor in loaded.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {e.key: e.value for e in tensor.external_data}
        end = int(entries.get("offset", 0)) + int(entries["length"])
        ends[entries["location"]] = max(end, ends.get(entries["location"], 0))
    if not ends or all((model.parent / name).exists() for name in ends):
        return model
    for name, size in ends.items():
        with open(folder / name, "wb") as file:
            file.truncate(size)
    onnx.save(loaded, str(folder / model.name))
    return folder / model.name


def run_thrice(model):
    """Runs the model. The log goes to standard error, with a line before each run."""
    import numpy
    import onnxruntime as ort
    ort.set_default_logger_severity(0)
    arena = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    same_as_requested = 1
    ort.create_and_register_allocator(arena, ort.OrtArenaCfg(0, same_as_requested, -1, -1))
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.use_env_allocators", "1")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    inputs = {i.name: numpy.ones(i.shape, TYPES[i.type]) for i in session.get_inputs()}
    run = ort.RunOptions()
    run.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    for number in range(3):
        print(f"run {number}", file=sys.stderr, flush=True)
        session.run(None, inputs, run)
    print(json.dumps({"inputs": sum(i.nbytes for i in inputs.values())}))


def arena_of(model, weights=None, seconds=600):
    """{"run": bytes of the third run, "first": bytes of the first, "inputs": bytes}, or {"failed": the reason}."""
    with tempfile.TemporaryDirectory(dir=weights) as folder:
        copy = with_weights(pathlib.Path(model), pathlib.Path(folder))
        try:
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--run", str(copy)], capture_output=True,
                                  text=True, errors="replace", timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return {"failed": f"over {seconds} s"}
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "Error" in line or "NOT_IMPLEMENTED" in line]
        return {"failed": lines[-1][-300:] if lines else f"exit status {done.returncode}"}
    runs = re.split(r"^run \d$", done.stderr, flags=re.MULTILINE)
    first, last = (sum(int(b) for b in EXTENDED.findall(runs[number])) for number in (1, 3))
    return {"run": last, "first": first, **json.loads(done.stdout.splitlines()[-1])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL.onnx")
    parser.add_argument("--weights", help="folder for sparse files as large as the weights (default: a temporary one)")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run_thrice(arguments.models[0])
        return
    for model in arguments.models:
        print(model, json.dumps(arena_of(model, arguments.weights)))


if __name__ == "__main__":
    main()
