#!/usr/bin/env python3
"""Operators of u64 on both sides of 2^63, by a driver: one model, and what Python's integers say of each output.

  build/venv/bin/python tests/scalar/unsigned.py build/release/bin/rondo --driver host     # exit status 77 without Python's onnx
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper
except ModuleNotFoundError as error:
    print(f"skipped: Python's {error.name} is not here (tools/setup --venv)")
    sys.exit(77)

HALF, MOST = 1 << 63, (1 << 64) - 1
NUMBERS = [1, 2, 3, 7, (1 << 53) + 1, HALF - 1, HALF, HALF + 1, MOST // 3, HALF + (1 << 39) + 1, MOST - 7, MOST - 1, MOST]
PAIRS = [(a, b) for a in NUMBERS for b in NUMBERS]
U64 = np.uint64

# The operator, its result of two numbers, and the result's type.
OF_PAIRS = [
    ("Add", lambda a, b: a + b, U64), ("Sub", lambda a, b: a - b, U64), ("Mul", lambda a, b: a * b, U64),
    ("Div", lambda a, b: a // b, U64), ("Mod", lambda a, b: a % b, U64), ("Pow", lambda a, b: pow(a, b, 1 << 64), U64),
    ("Max", max, U64), ("Min", min, U64), ("BitwiseAnd", lambda a, b: a & b, U64), ("BitwiseOr", lambda a, b: a | b, U64),
    ("BitwiseXor", lambda a, b: a ^ b, U64), ("Less", lambda a, b: a < b, bool), ("Greater", lambda a, b: a > b, bool),
    ("LessOrEqual", lambda a, b: a <= b, bool), ("GreaterOrEqual", lambda a, b: a >= b, bool), ("Equal", lambda a, b: a == b, bool),
]
# The same of one number, with attributes.
OF_ONE = [
    ("Abs", {}, lambda a: a, U64), ("Sign", {}, lambda a: 1, U64), ("BitwiseNot", {}, lambda a: MOST - a, U64),
    *(("Cast", {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))}, of, to) for to, of in (
        (np.float32, lambda a: U64(a).astype(np.float32)), (np.float64, float), (np.int64, lambda a: a - (a >> 63 << 64)),
        (np.uint32, lambda a: a & 0xffffffff), (bool, lambda a: True))),
]


class Table:
    """A model, and the outputs that it must have."""

    def __init__(self):
        self.nodes, self.inputs, self.outputs = [], {}, {}

    def add(self, op, inputs, expected, outputs=1, **attributes):
        """A node whose last output must be `expected`."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_{i}" for i in range(outputs - 1)] + [name], name=name, **attributes))
        self.outputs[name] = expected

    def write(self, folder):
        def ports(arrays):
            return [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                    for name, array in arrays.items()]
        graph = helper.make_graph(self.nodes, "unsigned", ports(self.inputs), ports(self.outputs))
        data = folder / "unsigned" / "test_data_set_0"
        data.mkdir(parents=True)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), data.parent / "model.onnx")
        for kind, arrays in (("input", self.inputs), ("output", self.outputs)):
            for i, (name, array) in enumerate(arrays.items()):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def wrapped(values, dtype):
    return np.array([value & MOST if dtype is U64 else value for value in values], dtype)


def table():
    t = Table()
    rows = [[HALF - 1, 3, MOST - 1, HALF, 5], [MOST, 0, HALF + 1, 1, HALF]]
    t.inputs = {"a": wrapped([a for a, _ in PAIRS], U64), "b": wrapped([b for _, b in PAIRS], U64), "rows": np.array(rows, U64),
                "axis": np.array([1], np.int64), "two": np.array([2], np.int64), "start": np.full((2, 5), HALF, U64),
                "places": np.array([[0, 0, 1, 1, 1], [4, 4, 4, 3, 3]], np.int64), "floats": np.array([0, 1.5, 2.0**63, 2.0**64 - 2**40], np.float32),
                "shift": wrapped([b % 64 for _, b in PAIRS], U64), "low": np.array(7, U64), "high": np.array(HALF + 1, U64)}
    for op, of, dtype in OF_PAIRS:
        t.add(op, ["a", "b"], wrapped([of(a, b) for a, b in PAIRS], dtype))
    for op, attributes, of, dtype in OF_ONE:
        t.add(op, ["a"], wrapped([of(a) for a, _ in PAIRS], dtype), **attributes)
    t.add("Cast", ["floats"], np.array([0, 1, HALF, (1 << 64) - (1 << 40)], U64), to=onnx.TensorProto.UINT64)
    t.add("BitShift", ["a", "shift"], wrapped([a << b % 64 for a, b in PAIRS], U64), direction="LEFT")
    t.add("BitShift", ["a", "shift"], wrapped([a >> b % 64 for a, b in PAIRS], U64), direction="RIGHT")
    t.add("Clip", ["a", "low", "high"], wrapped([min(max(a, 7), HALF + 1) for a, _ in PAIRS], U64))
    t.add("ReduceMax", ["rows", "axis"], np.array([[max(row)] for row in rows], U64))
    t.add("ReduceMin", ["rows", "axis"], np.array([[min(row)] for row in rows], U64))
    t.add("ReduceSum", ["rows", "axis"], np.array([[sum(row) & MOST] for row in rows], U64))
    t.add("ArgMax", ["rows"], np.array([[row.index(max(row))] for row in rows], np.int64), axis=1)
    t.add("ArgMin", ["rows"], np.array([[row.index(min(row))] for row in rows], np.int64), axis=1)
    t.add("TopK", ["rows", "two"], np.array([[2, 3], [0, 2]], np.int64), outputs=2, axis=1)
    for reduction, of in (("max", max), ("min", min), ("add", lambda x, y: (x + y) & MOST)):
        expected = [[HALF] * 5 for _ in rows]
        for row, update in ((row, i) for row in range(2) for i in range(5)):
            place = int(t.inputs["places"][row, update])
            expected[row][place] = of(expected[row][place], rows[row][update])
        t.add("ScatterElements", ["start", "places", "rows"], np.array(expected, U64), axis=1, reduction=reduction)
    return t


def main(rondo, *words):
    with tempfile.TemporaryDirectory() as folder:
        table().write(pathlib.Path(folder))
        return subprocess.run([rondo, "test", folder, "--rtol", "0", "--atol", "0", *words], check=False).returncode


sys.exit(main(*sys.argv[1:]))
