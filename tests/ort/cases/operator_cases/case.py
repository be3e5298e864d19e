"""Shared by the modules of this folder: builders of models and random numbers."""
import zlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


def has_dot_products():
    """Whether this machine has dot products of four bytes (VNNI, or Arm's)."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return any(name in line.split() for line in lines for name in ("avx512_vnni", "avx_vnni", "asimddp"))
    except OSError:
        return True


class Draw:
    """Random numbers that depend only on a seed, the case's number and the operator."""

    def __init__(self, seed, number, name):
        self.random = np.random.default_rng([seed, number, zlib.crc32(name.encode())])

    def pick(self, *choices):
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability=0.5):
        return bool(self.random.random() < probability)

    def whole(self, low, high, shape=None, dtype=np.int64):
        """A random integer from low to high, inclusive."""
        x = self.random.integers(low, high + 1, shape)
        return int(x) if shape is None else x.astype(dtype)

    def floats(self, *shape, dtype=np.float32, scale=1.0):
        return (self.random.standard_normal(shape) * scale).astype(dtype)

    def positive(self, *shape, low=0.01, high=0.1, dtype=np.float32):
        return self.random.uniform(low, high, shape).astype(dtype)


class Case:
    """A model of a few nodes, its inputs, and how close its outputs must come (rtol, atol)."""

    def __init__(self, opset=21, tolerance=(1e-3, 1e-5)):
        self.opset, self.tolerance = opset, tolerance
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, {}
        self.in_place = {}  # {output: the input in whose memory ONNX Runtime must compute it}
        self.oracle = None  # a Case that ONNX Runtime computes instead if it lacks a form of the operator

    def input(self, name, array):
        """Adds an input of the model; "" for None."""
        if array is None:
            return ""
        self.inputs[name] = array
        return name

    def constant(self, name, array):
        if array is None:
            return ""
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def either(self, draw, name, array):
        """Adds an input or a constant."""
        return self.input(name, array) if draw.chance() else self.constant(name, array)

    def node(self, op, inputs, outputs, domain="", **attributes):
        while inputs and inputs[-1] == "":
            inputs = inputs[:-1]
        attributes = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, name=outputs[0] + "_node",
                                           **attributes))
        return outputs[0]

    def output(self, name, dtype=np.float32):
        self.outputs[name] = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def as_float(self, name, mask=None):
        """Adds an output that is compared as f32, and only where `mask` is 1."""
        last = self.node("Cast", [name], [name + "_f32"], to=TensorProto.FLOAT)
        if mask is not None:
            last = self.node("Mul", [last, self.constant(name + "_counts", mask.astype(np.float32))],
                             [name + "_kept"])
        self.output(last)

    def kind(self):
        """Identifies the case's kind: all but its numbers."""
        return tuple((node.op_type, tuple(bool(i) for i in node.input),
                      tuple((a.name, str(helper.get_attribute_value(a))) for a in node.attribute))
                     for node in self.nodes)

    def model(self):
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                 for name, array in self.inputs.items()]
        made = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in self.outputs.items()]
        graph = helper.make_graph(self.nodes, "case", ports, made, self.constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", self.opset),
                                                                      helper.make_opsetid(MICROSOFT, 1)])


def windowed(case, window, rows, past, along):
    """An equivalent of an operator with state_window for ONNX Runtime's CPU provider: the operator without it, on the beginning of the
    rows for each slot. `past`: the input with the states. `along`: the axis of rows of each other input."""
    node = case.nodes[0]
    plain = Case(case.opset, case.tolerance)
    plain.constants = list(case.constants)
    plain.inputs = {name: array[-1].copy() if name == past else array for name, array in case.inputs.items()}
    options = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name != "state_window"}
    axis = plain.constant("axis", np.zeros(1, np.int64))
    slots = []
    for end in range(rows - window + 1, rows + 1):
        if end <= 0:
            slots.append(None)
            continue
        names = []
        for name in node.input:
            if name in along and end < rows:
                ends = [plain.constant(f"{what}_{name}_{end}", np.array([n], np.int64))
                        for what, n in (("from", 0), ("to", end), ("along", along[name]))]
                name = plain.node("Slice", [name, *ends], [f"{name}_{end}"])
            names.append(name)
        plain.node(node.op_type, names, [node.output[0] if end == rows else f"y_{end}", f"state_{end}"], MICROSOFT, **options)
        slots.append(plain.node("Unsqueeze", [f"state_{end}", axis], [f"slot_{end}"]))
    none = plain.node("Sub", [slots[-1], slots[-1]], ["nothing"])
    plain.node("Concat", [slot or none for slot in slots], [node.output[1]], axis=0)
    plain.outputs = dict(case.outputs)
    return plain
