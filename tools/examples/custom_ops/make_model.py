"""Writes a model that calls the ops of example_ops.c (needs the onnx package): python3 make_model.py model.onnx [trace.txt]

    scaled    = Affine(x)                   2 x + 1
    total_out = DecayedSum(total, scaled)   0.5 total + scaled; total:total_out is state
    traced    = Trace(total_out)            a line a run
    y         = Relu(traced)
"""

import sys

from onnx import TensorProto, helper, save


def node(op, inputs, outputs, domain="com.example", **attributes):
    return helper.make_node(op, inputs, outputs, name=f"{op.lower()}_node", domain=domain, **attributes)


def tensor(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])


def main():
    path, trace = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    graph = helper.make_graph(
        [
            node("Affine", ["x"], ["scaled"], scale=2.0, shift=1.0),
            node("DecayedSum", ["total", "scaled"], ["total_out"], decay=0.5),
            node("Trace", ["total_out"], ["traced"], label="total", path=trace),
            node("Relu", ["traced"], ["y"], domain=""),
        ],
        "custom_ops",
        [tensor("x"), tensor("total")],
        [tensor("y"), tensor("total_out")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.example", 1)]
    save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


main()
