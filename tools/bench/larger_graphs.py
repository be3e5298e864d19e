#!/usr/bin/env python3
"""Writes graphs that are not among the bench models, without weights: read them with --synthetic-weights.

    larger_graphs.py MODELS FOLDER

Of the bench models in MODELS, FOLDER gets:
bert-large-bB-s128-f16.onnx, B 1 and 32: 24 post-norm encoder layers, width 1024, 16 heads, 128 tokens (336 M weights).
vit-l16-b32-f16.onnx: 24 pre-norm encoder layers of the same size over 196 patches and a class.
resnet50-b32-f16.onnx: the bench model at batch 32. llama3-8b-8layers-prefill2048-b1-bf16.onnx: that of llama_graphs.py.
Needs the package onnx.
"""
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import llama_graphs

LAYERS, WIDTH, HEADS, HIDDEN, WORDS, PATCHES = 24, 1024, 16, 4096, 30522, 196


class Graph:
    """Collects nodes and initializers. The bytes of weights lie in a missing file."""

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
    tensor.raw_data = b""  # set_external_data requires it
    return tensor


def attention(graph, x, name, batch, tokens):
    heads = []
    shape = graph.constant("heads", [batch, tokens, HEADS, WIDTH // HEADS])
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        split = graph.add("Reshape", [graph.linear(x, f"{name}.{part}", WIDTH, WIDTH), shape])
        heads.append(graph.add("Transpose", [split], perm=order))
    scale = graph.constant("scale", (WIDTH // HEADS) ** -0.5, numpy.float16)
    scores = graph.add("Mul", [graph.add("MatMul", heads[:2]), scale])
    attended = graph.add("MatMul", [graph.add("Softmax", [scores], axis=-1), heads[2]])
    joined = graph.add("Transpose", [attended], perm=[0, 2, 1, 3])
    return graph.linear(graph.add("Reshape", [joined, graph.constant("width", [batch, tokens, WIDTH])]),
                        f"{name}.out", WIDTH, WIDTH)


def hidden(graph, x, name):
    up = graph.add("Gelu", [graph.linear(x, f"{name}.up", WIDTH, HIDDEN)])
    return graph.linear(up, f"{name}.down", HIDDEN, WIDTH)


def model(graph, name, into, out):
    graph.nodes[-1].output[0] = "out"
    made = helper.make_graph(graph.nodes, name, [into], [helper.make_tensor_value_info("out", TensorProto.FLOAT16, out)],
                             graph.tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def bert_large(batch, tokens=128):
    graph = Graph()
    words = graph.add("Gather", [graph.weight("words", WORDS, WIDTH), "ids"])
    x = graph.norm(graph.add("Add", [words, graph.weight("places", 1, tokens, WIDTH)]), "norm")
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        x = graph.norm(graph.add("Add", [x, attention(graph, x, name, batch, tokens)]), f"{name}.norm_attention")
        x = graph.norm(graph.add("Add", [x, hidden(graph, x, name)]), f"{name}.norm_hidden")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [batch, tokens])
    return model(graph, "bert_large", ids, [batch, tokens, WIDTH])


def vit_large(batch):
    graph = Graph()
    patches = graph.add("Conv", ["x", graph.weight("patch.weight", WIDTH, 3, 16, 16), graph.weight("patch.bias", WIDTH)],
                        strides=[16, 16])
    patches = graph.add("Reshape", [patches, graph.constant("patches", [batch, WIDTH, PATCHES])])
    classes = graph.add("Expand", [graph.weight("class", 1, 1, WIDTH), graph.constant("classes", [batch, 1, WIDTH])])
    x = graph.add("Concat", [classes, graph.add("Transpose", [patches], perm=[0, 2, 1])], axis=1)
    x = graph.add("Add", [x, graph.weight("places", 1, PATCHES + 1, WIDTH)])
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        attended = attention(graph, graph.norm(x, f"{name}.norm_attention"), name, batch, PATCHES + 1)
        x = graph.add("Add", [x, attended])
        x = graph.add("Add", [x, hidden(graph, graph.norm(x, f"{name}.norm_hidden"), name)])
    first = graph.add("Gather", [graph.norm(x, "norm"), graph.constant("first", 0)], axis=1)
    graph.linear(first, "head", WIDTH, 1000)
    pixels = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [batch, 3, 224, 224])
    return model(graph, "vit_large", pixels, [batch, 1000])


def batched(model, batch):
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    model.graph.ClearField("value_info")
    for tensor in model.graph.initializer:  # shapes for Reshape that contain the batch
        if tensor.data_type == TensorProto.INT64 and list(numpy_helper.to_array(tensor)) == [1, 2048]:
            tensor.CopyFrom(numpy_helper.from_array(numpy.array([batch, 2048], numpy.int64), tensor.name))
    return model


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    models, folder = sys.argv[1:]
    for batch in (1, 32):
        onnx.save(bert_large(batch), f"{folder}/bert-large-b{batch}-s128-f16.onnx")
    onnx.save(vit_large(32), f"{folder}/vit-l16-b32-f16.onnx")
    bench = lambda name: onnx.load(f"{models}/{name}.onnx", load_external_data=False)
    onnx.save(batched(bench("resnet50-b1-f16"), 32), f"{folder}/resnet50-b32-f16.onnx")
    prompt = "llama3-8b-8layers-prefill2048-b1-bf16"
    onnx.save(llama_graphs.llama(llama_graphs.shape_of(prompt)), f"{folder}/{prompt}.onnx")


if __name__ == "__main__":
    main()
