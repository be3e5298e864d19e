"""Nodes: cases of several nodes of one operator; and makers of common ones."""
import numpy as np
from onnx import helper

from .case import Case, Draw


class Nodes:
    """A Case whose nodes read shared inputs and have one or more outputs each."""

    def __init__(self, name, opset=21):
        self.case, self.draw = Case(opset), Draw(1, 0, name)
        self.name, self.count = name, 0

    def floats(self, *shape, scale=1.0):
        return self.of(self.draw.floats(*shape, scale=scale))

    def positive(self, *shape):
        return self.of(self.draw.positive(*shape, low=0.2, high=2))

    def whole(self, low, high, shape, dtype=np.int64):
        return self.of(self.draw.whole(low, high, shape, dtype))

    def of(self, array):
        self.count += 1
        return self.case.input(f"x{self.count}", np.asarray(array))

    def known(self, array, dtype=None):
        self.count += 1
        return self.case.constant(f"c{self.count}", np.asarray(array, dtype))

    def node(self, *inputs, outputs=1, op=None, show=True, **attributes):
        self.count += 1
        names = [f"y{self.count}_{i}" for i in range(outputs)]
        self.case.nodes.append(helper.make_node(op or self.name, list(inputs), names, name=names[0] + "_node",
                                                **{k: v for k, v in attributes.items() if v is not None}))
        if show:
            for name in names:
                self.case.outputs[name] = None
        return names if outputs > 1 else names[0]


def simple(name, opset, shape, *attributes, positive=False):
    def make():
        n = Nodes(name, opset)
        x = n.positive(*shape) if positive else n.floats(*shape)
        for each in attributes:
            n.node(x, **each)
        return n.case
    return make


def binary(name, opset, arrays, *attributes):
    def make():
        n = Nodes(name, opset)
        inputs = [n.of(array(n.draw)) for array in arrays]
        for each in attributes:
            n.node(*inputs, **each)
        return n.case
    return make


def refused(name, opset, because, shapes, domain="", **attributes):
    """Models that Rondo refuses, with a part of the error."""
    def make():
        n = Nodes(name, opset)
        n.case.refused = because
        n.node(*(n.positive(*shape) if shape is not None else "" for shape in shapes), domain=domain, **attributes)
        return n.case
    return make


def graph(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", [helper.make_tensor_value_info(*i) for i in inputs],
                             [helper.make_tensor_value_info(*o) for o in outputs])
