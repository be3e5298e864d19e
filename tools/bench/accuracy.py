#!/usr/bin/env python3
"""Compares Rondo's results on the bench models with those of ONNX Runtime's CPU provider in f32, in two halves.

Both run the same ONNX file with the same synthetic weights (`rondo compile --synthetic-weights SEED`, written out
with --write-synthetic). Models with many layers are first cut down to their first ones (--layers). ONNX Runtime's CPU
provider lacks kernels for bf16 and for much of f16, so it gets a copy of the model converted to f32. Its weights and
inputs are the same numbers, because every f16 and bf16 is an f32. So Rondo in 16 bits is compared with exact results.
The error is |got - expected| / |expected| in the Euclidean norm, over each output that is not a state.

  build/venv/bin/python tools/bench/accuracy.py expect --models DIR --rondo BIN --out DIR [--target cuda:sm_90a]
  python3 tools/bench/accuracy.py compare --rondo BIN --expected DIR --driver cuda

`expect` (any machine; `tools/setup --venv` first) writes a plan and the expected outputs of each model to --out. They are
small enough to carry to a machine with a GPU. `compare` only needs numpy and the rondo binary. Both make the inputs
from the same random numbers. Exit status 1 if an error is 2e-2 or more.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

SEED = 1
LIMIT = 2e-2
# Number of layers to keep; None: all.
MODELS = {
    "minilm-l6-b1-s128-f16": None,
    "bert-base-b1-s128-f16": None,
    "bert-base-b8-s128-f16": None,
    "resnet50-b1-f16": None,
    "vit-b16-b1-f16": None,
    "llama3-8b-8layers-decode-b1-bf16": 2,
    "llama3-8b-8layers-decode-b16-bf16": 2,
    "llama3-8b-8layers-prefill512-b1-bf16": 2,
}
F32, F16, BF16, I64 = 1, 10, 16, 7  # onnx.TensorProto


# ------------------------------------------------------------------------------------------ inputs and outputs

def input_values(name, shape, dtype):
    """An input as f32 or i64. Tokens are random; positions follow 1024 cached ones, or begin at 0 for a whole prompt. All other
    inputs are multiples of 1/64 in [-2, 2), which f16 and bf16 hold exactly."""
    random = np.random.Generator(np.random.PCG64(sum(name.encode()) + 7919 * len(shape)))
    if dtype == I64:
        if "position" in name:
            return np.arange(shape[0], dtype=np.int64) + (1024 if shape[0] == 1 else 0)
        return random.integers(0, 30000, shape, dtype=np.int64)
    return (random.integers(-128, 128, shape).astype(np.float32)) / np.float32(64)


def narrowed(values, dtype):
    """The array as `rondo run` takes it: bf16 as its bits in u16."""
    if dtype == BF16:
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.float16) if dtype == F16 else values


def widened(array, dtype):
    if dtype == BF16 and array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


# ------------------------------------------------------------------------------------------------------ models

def producers(graph):
    return {output: node for node in graph.node for output in node.output}


def norm_input(graph, weight):
    """The input of the RMS norm that has this weight: x in Cast(Cast(x) * r) * weight."""
    made_by = producers(graph)
    scale = next(node for node in graph.node if node.op_type == "Mul" and weight in node.input)
    value = next(i for i in scale.input if i != weight)
    for op in ("Cast", "Mul", "Cast"):
        node = made_by[value]
        if node.op_type != op:
            sys.exit(f"the norm of {weight} is not built as expected: {node.op_type} instead of {op}")
        value = node.input[0]
    return value


def cut(model, layers):
    """Keeps the first `layers` decoder layers: the final norm reads what layer number `layers` would have read."""
    graph = model.graph
    last, kept = norm_input(graph, "m.n.w"), norm_input(graph, f"m.layers.{layers}.n1.w")
    for node in graph.node:
        for i, name in enumerate(node.input):
            # The final norm alone reads the last sum.
            if name == last:
                node.input[i] = kept
    outputs = [o for o in graph.output if "." not in o.name or int(o.name.split(".")[1]) < layers]
    needed, nodes = {o.name for o in outputs}, []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    keep = {
        "node": list(reversed(nodes)),
        "output": outputs,
        "input": [i for i in graph.input if i.name in needed],
        "initializer": [i for i in graph.initializer if i.name in needed],
        "value_info": [],
    }
    for field, values in keep.items():
        values = [type(v).FromString(v.SerializeToString()) for v in values]
        graph.ClearField(field)
        getattr(graph, field).extend(values)


def external(tensor):
    return {entry.key: entry.value for entry in tensor.external_data}


def place(tensor, location, offset, length):
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)


def pack(model, location):
    """Writes the external weights one after another into one file, in the model's order."""
    at = 0
    for tensor in model.graph.initializer:
        if tensor.external_data:
            length = int(external(tensor)["length"])
            place(tensor, location, at, length)
            at += (length + 63) // 64 * 64


def contents(model):
    """Identifies the bytes of the external weights: synthetic weights depend only on names, types and shapes."""
    return [(t.name, t.data_type, list(t.dims)) for t in model.graph.initializer if t.external_data]


def to_f32(model, source, target):
    """Converts every f16 and bf16 of the model to f32. External weights are read from the file `source` and written,
    converted, to `target`; if `source` is None, `target` already exists."""
    import onnx.numpy_helper
    halves = (F16, BF16)
    read = None if source is None else np.memmap(source, dtype=np.uint8, mode="r")
    out = None if source is None else open(target, "wb")
    at = 0
    for tensor in model.graph.initializer:
        widen = tensor.data_type in halves
        if tensor.external_data:
            first, length = (int(external(tensor)[key]) for key in ("offset", "length"))
            if out is not None:
                values = read[first:first + length]
                if widen:
                    values = widened(values.view(np.float16 if tensor.data_type == F16 else np.uint16), tensor.data_type)
                values.tofile(out)
            length *= 2 if widen else 1
            place(tensor, target.name, at, length)
            at += length
        elif widen:
            values = np.asarray(onnx.numpy_helper.to_array(tensor)).astype(np.float32)
            for field in ("int32_data", "raw_data"):
                tensor.ClearField(field)
            tensor.raw_data = values.tobytes()
        if widen:
            tensor.data_type = F32
    if out is not None:
        out.close()
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type in halves:
            value.type.tensor_type.elem_type = F32
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in halves:
                attribute.i = F32
            if attribute.HasField("t") and attribute.t.data_type in halves:
                sys.exit(f"{node.name} holds a 16-bit constant, which is not converted")


def shape_of(value):
    return [d.dim_value for d in value.type.tensor_type.shape.dim]


# -------------------------------------------------------------------------------------------------- the halves

def expect_one(name, layers, arguments, folder):
    """`folder` keeps the last model's weights for reuse: the Llamas share them."""
    import onnx
    import onnxruntime
    out = arguments.out
    started = time.time()
    model = onnx.load(str(arguments.models / f"{name}.onnx"), load_external_data=False)
    if layers is not None:
        cut(model, layers)
    pack(model, "weights")
    path, weights = folder / "model.onnx", folder / "weights"
    onnx.save(model, str(path))
    rondo = [str(arguments.rondo), "compile", str(path), "--synthetic-weights", str(SEED)]
    subprocess.run([*rondo, "--target", arguments.target, "--library-path", arguments.library_path, "-o",
                    str(out / f"{name}.rondo")], check=True, stdout=subprocess.DEVNULL)
    if arguments.plans_only:
        return
    inputs = [(i.name, shape_of(i), i.type.tensor_type.elem_type) for i in model.graph.input]
    results = {o.name: o.type.tensor_type.elem_type for o in model.graph.output if "cache" not in o.name}

    # Written after compiling: without these files the compiler makes the weights itself, and the plan stays small.
    now = json.dumps(contents(model))
    kept = folder / "contents.json"
    if kept.exists() and kept.read_text() == now:
        to_f32(model, None, folder / "weights.f32")
    else:
        subprocess.run([*rondo, "--write-synthetic", str(weights)], check=True, stdout=subprocess.DEVNULL)
        to_f32(model, weights, folder / "weights.f32")
        weights.unlink()
        kept.write_text(now)
    onnx.save(model, str(folder / "f32.onnx"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / "f32.onnx"), options, providers=["CPUExecutionProvider"])
    values = session.run(list(results), {n: input_values(n, s, t) for n, s, t in inputs})
    for output, value in zip(results, values):
        np.save(out / f"{name}.{output}.npy", value.astype(np.float32))
    description = {"layers": layers, "inputs": inputs, "outputs": results, "onnxruntime": onnxruntime.__version__}
    (out / f"{name}.json").write_text(json.dumps(description))
    norms = ", ".join(f"{o} {v.shape} of norm {np.linalg.norm(v.ravel().astype(np.float64)):.4g}"
                      for o, v in zip(results, values))
    print(f"{name}: {norms} ({time.time() - started:.0f} s)", flush=True)


def compare_one(name, arguments):
    description = json.loads((arguments.expected / f"{name}.json").read_text())
    errors = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        command = [str(arguments.rondo), "run", str(arguments.expected / f"{name}.rondo"), "--driver", arguments.driver,
                   "--output", str(folder / "out")]
        for number, (tensor, shape, dtype) in enumerate(description["inputs"]):
            file = folder / f"{number}.npy"
            np.save(file, narrowed(input_values(tensor, shape, dtype), dtype))
            command += ["--input", f"{tensor}={file}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return {"failed": done.stderr.strip()[-500:]}
        for output, dtype in description["outputs"].items():
            want = np.load(arguments.expected / f"{name}.{output}.npy").astype(np.float64).ravel()
            got = widened(np.load(folder / "out" / f"{output}.npy"), dtype).astype(np.float64).ravel()
            if got.size != want.size:
                return {"failed": f"output {output} has {got.size} elements instead of {want.size}"}
            errors[output] = float(np.linalg.norm(got - want) / np.linalg.norm(want))
    worst = max(errors.values())
    return {"error": worst if worst == worst else float("inf"), "layers": description["layers"]}


def compare(arguments):
    results = {}
    for name in arguments.model or MODELS:
        if not (arguments.expected / f"{name}.json").exists():
            continue
        results[name] = result = compare_one(name, arguments)
        depth = "all layers" if result.get("layers") is None else f"{result['layers']} layers"
        verdict = "FAILED: " + result["failed"] if "failed" in result else (
            f"relative error {result['error']:.2e} ({depth}) {'ok' if result['error'] < LIMIT else 'TOO LARGE'}")
        print(f"{name:40s} {verdict}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    good = sum(r.get("error", LIMIT) < LIMIT for r in results.values())
    print(f"{good} of {len(results)} models agree with ONNX Runtime in f32 (limit {LIMIT:g})")
    sys.exit(0 if results and good == len(results) else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    halves = parser.add_subparsers(dest="half", required=True)
    for half in ("expect", "compare"):
        of = halves.add_parser(half)
        of.add_argument("--rondo", type=lambda path: pathlib.Path(path).resolve(), required=True)
        of.add_argument("--model", action="append", help="only this one (may be given several times)")
        if half == "expect":
            of.add_argument("--models", type=pathlib.Path, required=True, help="folder of the bench models")
            of.add_argument("--out", type=pathlib.Path, required=True)
            of.add_argument("--target", default="cuda:sm_90a")
            of.add_argument("--library-path", default="", help="where libnvrtc is")
            of.add_argument("--scratch", help="folder for some gigabytes of weights")
            of.add_argument("--plans-only", action="store_true", help="compile again; the expected outputs stay")
        else:
            of.add_argument("--expected", type=pathlib.Path, required=True)
            of.add_argument("--driver", default="cuda")
            of.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.half == "compare":
        compare(arguments)
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        for name in arguments.model or MODELS:
            expect_one(name, MODELS[name], arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
