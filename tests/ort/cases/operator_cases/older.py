"""Operators in the forms of opsets 6 to 10, for attribute_cases.py: the same in opset 13 gives the expected values."""
import numpy as np

from .case import Draw
from .nodes import Nodes, refused

ARITHMETIC, LOGIC, COMPARISON = ("Add", "Sub", "Mul", "Div", "Pow"), ("And", "Or", "Xor"), ("Equal", "Less", "Greater")


class Both:
    """The same inputs for a node of an old opset and for one of opset 13."""

    def __init__(self, name, opset):
        self.now, self.then = Nodes(name, 13), Nodes(name, opset)
        self.then.case.oracle = self.now.case
        self.draw = Draw(1, 0, name)

    def of(self, array):
        self.now.of(array)
        return self.then.of(array)

    def node(self, inputs, attributes, inputs_now=None, attributes_now=None, op=None, op_now=None, outputs=1):
        self.then.node(*inputs, op=op, outputs=outputs, **attributes)
        self.now.node(*(inputs if inputs_now is None else inputs_now), op=op_now or op, outputs=outputs, **(attributes_now or {}))
        self.then.count = self.now.count = max(self.then.count, self.now.count)

    def case(self):
        names = list(self.then.case.outputs)
        self.now.case.outputs = dict(zip(self.now.case.outputs, [None] * len(names)))
        return self.then.case


def broadcasting(name):
    def make():
        b = Both(name, 6)
        if name in LOGIC:
            x, y = b.draw.random.random((2, 3, 4)) < 0.5, b.draw.random.random(3) < 0.5
        elif name == "Equal":
            x, y = b.draw.whole(0, 2, (2, 3, 4)), b.draw.whole(0, 2, 3)
        else:
            x, y = b.draw.positive(2, 3, 4, low=0.5, high=2), b.draw.positive(3, low=0.5, high=2)
        first, row, shaped, same = b.of(x), b.of(y), b.of(y.reshape(3, 1)), b.of(x[:, :, ::-1].copy())
        b.node([first, row], {"broadcast": 1, "axis": 1}, [first, shaped])
        b.node([first, row], {"broadcast": 1, "axis": -2}, [first, shaped])
        b.node([first, shaped], {"broadcast": 1}, [first, shaped])
        b.node([first, same], {})
        return b.case()
    return make


def attributes_then():
    """Values that were attributes and became inputs."""
    b = Both("Clip", 7)
    x, image = b.of(b.draw.floats(2, 3, 4, scale=3)), b.of(b.draw.floats(1, 2, 3, 4))
    known = b.now.known
    b.node([x], {"min": -1.0, "max": 2.0}, [x, known(-1, np.float32), known(2, np.float32)])
    b.node([x], {"pads": [0, 1, 2, 1, 0, 1], "value": 0.5}, [x, known([0, 1, 2, 1, 0, 1]), known(0.5, np.float32)], op="Pad")
    b.node([x], {"pads": [0, 1, 2, 1, 0, 1], "mode": "reflect"}, [x, known([0, 1, 2, 1, 0, 1])], {"mode": "reflect"}, op="Pad")
    b.node([x], {"axes": [1, -1], "starts": [0, 1], "ends": [2, -1]}, [x, known([0, 1]), known([2, -1]), known([1, -1])], op="Slice")
    b.node([x], {"starts": [1], "ends": [9]}, [x, known([1]), known([9])], op="Slice")
    b.node([x], {"k": 2, "axis": 1}, [x, known([2])], {"axis": 1}, op="TopK", outputs=2)
    scales = known([1, 1, 2, 3], np.float32)
    for mode in ("nearest", "linear"):
        b.node([image], {"scales": [1.0, 1.0, 2.0, 3.0], "mode": mode}, [image, "", scales],
               {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, op="Upsample", op_now="Resize")
    b.node([x], {}, [x], op="Dropout", op_now="Identity")
    statistics = [b.of(b.draw.floats(3)) for _ in range(3)] + [b.of(b.draw.positive(3, low=0.5, high=2))]
    b.node([x, *statistics], {"epsilon": 0.1, "spatial": 1}, op="BatchNormalization", attributes_now={"epsilon": 0.1})
    return b.case()


def slopes():
    b = Both("PRelu", 6)
    x, slope, one, shaped = b.of(b.draw.floats(2, 3, 4)), b.of(np.array([0.1, 0.2, 0.3], np.float32)), b.of(np.array([0.5], np.float32)), None
    shaped = b.now.known([[0.1], [0.2], [0.3]], np.float32)
    b.node([x, slope], {}, [x, shaped])
    b.node([x, one], {})
    return b.case()


def resize_10():
    b = Both("Resize", 10)
    image = b.of(b.draw.floats(1, 2, 3, 4))
    scales = b.now.known([1, 1, 2, 0.75], np.float32)
    b.then.case.constants.extend(b.now.case.constants)
    for mode in ("nearest", "linear"):
        b.node([image, scales], {"mode": mode}, [image, "", scales],
               {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"})
    return b.case()


CASES = {f"{name}_6": broadcasting(name) for name in ARITHMETIC + LOGIC + COMPARISON}
CASES.update({
    "attributes_7": attributes_then, "PRelu_6": slopes, "Resize_10": resize_10,
    "refused_BatchNormalization_7": refused("BatchNormalization", 7, "spatial is 0", [(2, 3, 4), (3,), (3,), (3,), (3,)], spatial=0),
    "refused_Scan_8": refused("Scan", 8, "a direction of opset 8", [None, (1, 3), (1, 4, 3)], outputs=2, directions=[1], num_scan_inputs=1),
})
