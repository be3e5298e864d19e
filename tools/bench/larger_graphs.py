#!/usr/bin/env python3
"""Two graphs for session_scaling that are not among the bench models, without weights: read them with --synthetic-weights.

    larger_graphs.py RESNET50.onnx FOLDER

FOLDER/bert-large-b1-s128-f16.onnx: 24 post-norm encoder layers, width 1024, 16 heads, 128 tokens (336 M weights).
FOLDER/resnet50-b32-f16.onnx: the bench model RESNET50.onnx at batch 32. Needs the package onnx.
"""
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, HIDDEN, TOKENS, WORDS = 24, 1024, 16, 4096, 128, 30522


class Graph:
    """Nodes and initializers; a weight's bytes lie in a file that is not there."""

    def __init__(self):
        self.nodes, self.tensors, self.end = [], [], 0

    def weight(self, name, *dims):
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT16, dims=dims)
        size = 2 * int(numpy.prod(dims))
        onnx.external_data_helper.set_external_data(tensor_for(tensor), "bert-large.data", self.end, size)
        tensor.ClearField("raw_data")
        self.end += (size + 63) // 64 * 64
        self.tensors.append(tensor)
        return name

    def constant(self, name, values, dtype=numpy.int64):
        if all(tensor.name != name for tensor in self.tensors):
            self.tensors.append(numpy_helper.from_array(numpy.array(values, dtype), name))
        return name

    def add(self, op, inputs, **attributes):
        out = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"node_{out}", **attributes))
        return out

    def linear(self, x, name, inner, outer):
        product = self.add("MatMul", [x, self.weight(f"{name}.weight", inner, outer)])
        return self.add("Add", [product, self.weight(f"{name}.bias", outer)])

    def norm(self, x, name):
        scale, bias = self.weight(f"{name}.weight", WIDTH), self.weight(f"{name}.bias", WIDTH)
        return self.add("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-5)


def tensor_for(tensor):
    tensor.raw_data = b""  # set_external_data asks for it
    return tensor


def attention(graph, x, name):
    heads = []
    shape = graph.constant("heads", [1, TOKENS, HEADS, WIDTH // HEADS])
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        split = graph.add("Reshape", [graph.linear(x, f"{name}.{part}", WIDTH, WIDTH), shape])
        heads.append(graph.add("Transpose", [split], perm=order))
    scale = graph.constant("scale", (WIDTH // HEADS) ** -0.5, numpy.float16)
    scores = graph.add("Mul", [graph.add("MatMul", heads[:2]), scale])
    attended = graph.add("MatMul", [graph.add("Softmax", [scores], axis=-1), heads[2]])
    joined = graph.add("Transpose", [attended], perm=[0, 2, 1, 3])
    return graph.add("Reshape", [joined, graph.constant("width", [1, TOKENS, WIDTH])])


def bert_large():
    graph = Graph()
    words = graph.add("Gather", [graph.weight("words", WORDS, WIDTH), "ids"])
    x = graph.norm(graph.add("Add", [words, graph.weight("places", 1, TOKENS, WIDTH)]), "norm")
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        out = graph.linear(attention(graph, x, name), f"{name}.out", WIDTH, WIDTH)
        x = graph.norm(graph.add("Add", [x, out]), f"{name}.norm_attention")
        up = graph.add("Gelu", [graph.linear(x, f"{name}.up", WIDTH, HIDDEN)])
        x = graph.norm(graph.add("Add", [x, graph.linear(up, f"{name}.down", HIDDEN, WIDTH)]), f"{name}.norm_hidden")
    graph.nodes[-1].output[0] = "out"
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, TOKENS])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT16, [1, TOKENS, WIDTH])
    made = helper.make_graph(graph.nodes, "bert_large", [ids], [out], graph.tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def batched(model, batch):
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    model.graph.ClearField("value_info")
    for tensor in model.graph.initializer:  # what a Reshape makes of the first dimension
        if tensor.data_type == TensorProto.INT64 and list(numpy_helper.to_array(tensor)) == [1, 2048]:
            tensor.CopyFrom(numpy_helper.from_array(numpy.array([batch, 2048], numpy.int64), tensor.name))
    return model


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    resnet, folder = sys.argv[1:]
    onnx.save(bert_large(), f"{folder}/bert-large-b1-s128-f16.onnx")
    onnx.save(batched(onnx.load(resnet, load_external_data=False), 32), f"{folder}/resnet50-b32-f16.onnx")


if __name__ == "__main__":
    main()
