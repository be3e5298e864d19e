"""Writes ONNX messages as bytes without any package: nodes, tensors, graphs, functions, models. For bomb_models.py."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compile_scale import FLOAT, INT64, field, number, value_info, varint  # noqa: E402

BOOL, STRING = 9, 8


def attribute(name, value):
    if isinstance(value, Graph):
        return field(5, field(1, name) + field(6, value.bytes()) + number(20, 5))
    if isinstance(value, list):
        return field(5, field(1, name) + b"".join(number(8, v) for v in value) + number(20, 7))
    if isinstance(value, float):
        return field(5, field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + number(20, 1))
    if isinstance(value, str):
        return field(5, field(1, name) + field(4, value) + number(20, 3))
    if isinstance(value, bytes):
        return field(5, field(1, name) + field(5, value) + number(20, 4))
    return field(5, field(1, name) + number(3, value) + number(20, 2))


def node(op, inputs, outputs, name="", domain="", metadata=(), **attributes):
    text = b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs)
    text += (field(3, name) if name else b"") + field(4, op)
    text += b"".join(attribute(k, v) for k, v in attributes.items()) + (field(7, domain) if domain else b"")
    return text + b"".join(field(9, field(1, k) + field(2, v)) for k, v in metadata)


def tensor(dims, kind, raw, name=""):
    return b"".join(number(1, d) for d in dims) + number(2, kind) + (field(8, name) if name else b"") + field(9, raw)


def whole(*values):
    return struct.pack(f"<{len(values)}q", *values)


class Graph:
    """Builds a graph or a function's body."""

    def __init__(self):
        self.nodes, self.initializers, self.inputs, self.outputs, self.more = [], [], [], [], []

    def node(self, op, inputs, outputs, **more):
        self.nodes.append(node(op, inputs, outputs, **more))
        return outputs[0] if outputs else ""

    def ints(self, name, values, dims=None):
        self.initializers.append(tensor([len(values)] if dims is None else dims, INT64, whole(*values), name))
        return name

    def floats(self, name, dims, values):
        self.initializers.append(tensor(dims, FLOAT, struct.pack(f"<{len(values)}f", *values), name))
        return name

    def bool(self, name, value=1):
        self.initializers.append(tensor([], BOOL, bytes([value]), name))
        return name

    def input(self, name, dims=None, kind=FLOAT):
        self.inputs.append(field(1, name) if dims is None else value_info(name, dims, kind))
        return name

    def output(self, name):
        self.outputs.append(field(1, name))

    def bytes(self):
        return (b"".join(field(1, n) for n in self.nodes) + field(2, "g") +
                b"".join(field(5, i) for i in self.initializers) + b"".join(field(11, i) for i in self.inputs) +
                b"".join(field(12, o) for o in self.outputs) + b"".join(self.more))


def model(graph, functions=(), more=b"", opset=20):
    opsets = b"".join(field(8, field(1, d) + number(2, v)) for d, v in (("", opset), ("f", 1), ("com.microsoft", 1)))
    return number(1, 10) + opsets + field(7, graph.bytes()) + b"".join(field(25, f) for f in functions) + more


def function(name, inputs, outputs, nodes):
    return (field(1, name) + b"".join(field(4, i) for i in inputs) + b"".join(field(5, o) for o in outputs) +
            b"".join(field(7, n) for n in nodes) + field(9, field(1, "") + number(2, 20)) +
            field(9, field(1, "f") + number(2, 1)) + field(10, "f"))


def of_chain(nodes, functions=(), dims=(4,), **more):
    """A model with input x, the nodes, and output y."""
    g = Graph()
    g.input("x", list(dims))
    g.nodes += nodes
    g.output("y")
    return model(g, functions, **more)
