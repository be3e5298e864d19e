"""Damages models of one operator at random. Each must compile (and, with --run, run), or be refused with one sentence.

The models come from cases/operator_cases/. It changes attributes to any numbers and types, shapes and types of inputs and weights, and removes or swaps inputs.
`rondo compile` must refuse each with one sentence that names the node, or write a plan. A crash, a hang or several lines are errors of Rondo. With --run,
plans also run (`rondo bench`, all integers 0), and must end or be refused with one sentence. The sanitizers' build finds most: --binaries build/asan/bin.

  build/venv/bin/python tests/ort/run malformed GroupQueryAttention --draws 400 --seed 7
"""
import subprocess
import sys

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

import operator_cases
from peer import folder_for, named, slug

HEADS = ("refused", "compiled", "neither")
INTEGERS = [0, 1, -1, 2, 3, 7, 8, 16, 31, 255, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 32, (1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -1.0, 1e-30, 1e30, float("inf"), float("-inf"), float("nan")]
TYPES = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64,
         TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL, TensorProto.STRING, TensorProto.INT4]
SECONDS = 60


def spoil_attribute(draw, node):
    if not node.attribute:
        return
    attribute = node.attribute[draw.whole(0, len(node.attribute) - 1)]
    if attribute.type == AttributeProto.INT:
        attribute.i = draw.pick(*INTEGERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = draw.pick(*FLOATS)
    elif attribute.type == AttributeProto.INTS:
        changed = [draw.pick(*INTEGERS) if draw.chance(0.4) else i for i in attribute.ints]
        del attribute.ints[:]
        attribute.ints.extend(changed[:draw.whole(0, len(changed))] if draw.chance(0.4) else changed)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = draw.pick(b"", b"none", b"\xff\xfe", b"x" * 300)
    if draw.chance(0.15):
        node.attribute.remove(attribute)


def spoil_inputs(draw, node):
    at = draw.whole(0, len(node.input) - 1)
    what = draw.pick("out", "exchange", "last", "more")
    if what == "out":
        node.input[at] = ""
    elif what == "exchange":
        node.input[at] = node.input[draw.whole(0, len(node.input) - 1)]
    elif what == "last":
        del node.input[at:]
    else:
        node.input.extend(["", node.input[at]])


def spoil_shape(draw, shape):
    shape = list(shape)
    what = draw.pick("dim", "drop", "add", "scalar", "zero")
    if what == "scalar" or (what in ("dim", "drop", "zero") and not shape):
        return []
    if what == "add":
        shape.insert(draw.whole(0, len(shape)), draw.pick(1, 2, 3))
    elif what == "drop":
        del shape[draw.whole(0, len(shape) - 1)]
    else:
        shape[draw.whole(0, len(shape) - 1)] = 0 if what == "zero" else draw.whole(1, 40)
    return shape


def spoil_port(draw, model):
    if not model.graph.input:
        return
    port = model.graph.input[draw.whole(0, len(model.graph.input) - 1)].type.tensor_type
    if draw.chance(0.2):
        port.elem_type = draw.pick(*TYPES)
    else:
        shape = spoil_shape(draw, [d.dim_value for d in port.shape.dim])
        del port.shape.dim[:]
        for extent in shape:
            port.shape.dim.add().dim_value = extent


def spoil_weight(draw, model):
    if not model.graph.initializer:
        return
    weight = model.graph.initializer[draw.whole(0, len(model.graph.initializer) - 1)]
    array = numpy_helper.to_array(weight)
    if array.dtype.kind not in "fiub":
        weight.dims.append(2)  # more elements than bytes
        return
    if draw.chance(0.3):
        kind = draw.pick(np.float32, np.float16, np.int32, np.int64, np.uint8, np.int8, np.bool_)
        with np.errstate(invalid="ignore"):
            array = np.nan_to_num(array.astype(np.float64)).astype(kind)
    elif draw.chance(0.3) and array.dtype.kind in "iu" and array.size:
        array = array.copy()
        array.reshape(-1)[draw.whole(0, array.size - 1)] = draw.pick(np.iinfo(array.dtype).max, np.iinfo(array.dtype).min)
    else:
        array = np.resize(array, spoil_shape(draw, array.shape))
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))


def spoilt(draw, model):
    for _ in range(draw.whole(1, 3)):
        node = model.graph.node[draw.whole(0, len(model.graph.node) - 1) if draw.chance(0.2) else 0]
        draw.pick(lambda: spoil_attribute(draw, node), lambda: spoil_attribute(draw, node),
                  lambda: spoil_inputs(draw, node) if node.input else None, lambda: spoil_port(draw, model),
                  lambda: spoil_weight(draw, model))()
    return model


def wrong_with(command):
    """Runs rondo. Returns its misbehaviour, if any, and whether it succeeds."""
    try:
        said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=SECONDS,
                              errors="replace")
    except subprocess.TimeoutExpired:
        return f"{command[1]} takes more than {SECONDS} s", False
    if said.returncode == 0 and "runtime error" not in said.stderr:
        return None, True
    if said.returncode != 1:
        return f"{command[1]}: exit status {said.returncode}: {said.stderr[-300:]}", False
    if len(said.stderr.strip().splitlines()) != 1:
        return f"{command[1]} says {len(said.stderr.strip().splitlines())} lines: {said.stderr[:300]}", False
    return None, False


def declare(parser):
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--run", action="store_true", help="run the plans as well")


def cases(arguments):
    return named(arguments, operator_cases.ALL)


def compare(arguments, name):
    folder, counts, wrongs = folder_for("malformed", ""), {"refused": 0, "compiled": 0, "neither": 0}, []
    for number in range(arguments.draws):
        draw, path = operator_cases.Draw(arguments.seed, number, name), folder / "model.onnx"
        try:
            onnx.save(spoilt(draw, operator_cases.ALL[name](draw).model()), path)
        except (ValueError, TypeError) as error:  # the onnx package cannot write this model
            print(f"{name} {number}: {error}", file=sys.stderr)
            continue
        plan = path.with_suffix(".rondo")
        wrong, compiled = wrong_with([arguments.binaries / "rondo", "compile", path, "-o", plan])
        if compiled and arguments.run:
            wrong, _ = wrong_with([arguments.binaries / "rondo", "bench", plan, "--runs", 1, "--threads", 1])
        counts["neither" if wrong else "compiled" if compiled else "refused"] += 1
        if wrong:
            kept = folder / f"{slug(name)}_{number}.onnx"
            path.rename(kept)
            wrongs.append(f"{kept}: {wrong}")
    return [str(count) for count in counts.values()], "\n".join(wrongs) or None
