#!/usr/bin/env python3
"""Writes Llama 3's graphs of any size without weights: read them with --synthetic-weights.

    llama_graphs.py FOLDER NAME...

NAME is llama3-SIZE[-Llayers]-decode-bB-bf16 or llama3-SIZE[-Llayers]-prefillT-b1-bf16, SIZE is 8b or 70b. Decoding reads one
token of each of B texts, prefill T tokens of one text; both write their keys and values into caches of 2,048 positions, which are
inputs (k_cache.i, v_cache.i) and outputs (k_cache.i.out, v_cache.i.out). The logits are those of the last token.
Needs the package onnx.
"""
import pathlib
import re
import sys
import zlib
from typing import NamedTuple

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

WORDS, CACHE, HEAD, ROTARY_BASE, EPSILON = 128256, 2048, 128, 500000.0, 1e-5


class Shape(NamedTuple):
    """One model's sizes, and what one run reads."""
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    batch: int
    tokens: int


SIZES = {"8b": (32, 4096, 32, 8, 14336), "70b": (80, 8192, 64, 8, 28672)}


def shape_of(name):
    found = re.fullmatch(r"llama3-(8b|70b)(?:-(\d+)layers)?-(?:decode|prefill(\d+))-b(\d+)-bf16", name)
    if not found:
        raise ValueError(f"{name} is no name of a Llama graph, as llama3-8b-decode-b16-bf16 is")
    size, layers, tokens, batch = found.groups()
    return Shape(int(layers or SIZES[size][0]), *SIZES[size][1:], int(batch), int(tokens or 1))


class Graph:
    """Collects nodes and initializers. The bytes of weights lie in a missing file."""

    def __init__(self):
        self.nodes, self.tensors, self.names, self.end = [], [], set(), 0

    def weight(self, name, *dims):
        tensor = TensorProto(name=name, data_type=TensorProto.BFLOAT16, dims=dims, raw_data=b"")
        size = 2 * int(numpy.prod(dims))
        onnx.external_data_helper.set_external_data(tensor, "llama.data", self.end, size)
        tensor.ClearField("raw_data")
        self.end += size
        self.tensors.append(tensor)
        return name

    def constant(self, values, dtype=numpy.int64):
        array = numpy.array(values, dtype)
        name = f"{array.dtype}_{'x'.join(str(d) for d in array.shape)}_{zlib.crc32(array.tobytes()):x}"
        if name not in self.names:
            self.names.add(name)
            self.tensors.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op, *inputs, out=None, outputs=1, **attributes):
        names = [out or f"{op.lower()}_{len(self.nodes)}"] + [f"{op.lower()}_{len(self.nodes)}_{i}" for i in range(1, outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"node_{names[0]}", **attributes))
        return names[0] if outputs == 1 else names

    def reshaped(self, x, *dims):
        return self.add("Reshape", x, self.constant(dims))

    def cast(self, x, to):
        return self.add("Cast", x, to=to)

    def linear(self, x, name, columns, rows):
        return self.add("MatMul", x, self.weight(f"{name}.weight", columns, rows))

    def norm(self, x, name, width):
        wide = self.cast(x, TensorProto.FLOAT)
        mean = self.add("ReduceMean", self.add("Mul", wide, wide), self.constant([-1]), keepdims=1)
        scale = self.add("Reciprocal", self.add("Sqrt", self.add("Add", mean, self.constant(EPSILON, numpy.float32))))
        return self.add("Mul", self.cast(self.add("Mul", wide, scale), TensorProto.BFLOAT16), self.weight(f"{name}.weight", width))


def rotated(graph, x, cos, sin):
    first, second = graph.add("Split", x, outputs=2, axis=-1, num_outputs=2)
    turned = graph.add("Concat", graph.add("Neg", second), first, axis=-1)
    return graph.add("Add", graph.add("Mul", x, cos), graph.add("Mul", turned, sin))


def attention(graph, x, name, shape, cos, sin, mask):
    sizes = [HEAD * shape.heads, HEAD * shape.kv_heads, HEAD * shape.kv_heads]
    parts = graph.add("Split", graph.linear(x, f"{name}.qkv", shape.width, sum(sizes)), graph.constant(sizes), outputs=3, axis=2)
    q, k, v = (graph.add("Transpose", graph.reshaped(part, shape.batch, shape.tokens, size // HEAD, HEAD), perm=[0, 2, 1, 3])
               for part, size in zip(parts, sizes))
    layer = name.rsplit(".", 1)[1]
    group = shape.heads // shape.kv_heads
    both = []
    for cache, new in (("k", rotated(graph, k, cos, sin)), ("v", v)):
        by_position = graph.add("Transpose", f"{cache}_cache.{layer}", perm=[2, 0, 1, 3])
        places = graph.add("Unsqueeze", "positions", graph.constant([-1]))
        written = graph.add("ScatterND", by_position, places, graph.add("Transpose", new, perm=[2, 0, 1, 3]))
        kept = graph.add("Transpose", written, perm=[1, 2, 0, 3], out=f"{cache}_cache.{layer}.out")
        repeated = graph.add("Expand", graph.add("Unsqueeze", kept, graph.constant([2])), graph.constant([1, 1, group, 1, 1]))
        both.append(graph.reshaped(repeated, shape.batch, shape.heads, CACHE, HEAD))
    scores = graph.add("MatMul", rotated(graph, q, cos, sin), graph.add("Transpose", both[0], perm=[0, 1, 3, 2]))
    scaled = graph.add("Mul", scores, graph.cast(graph.constant(HEAD ** -0.5, numpy.float32), TensorProto.BFLOAT16))
    weights = graph.add("Softmax", graph.add("Add", scaled, mask), axis=-1)
    joined = graph.add("Transpose", graph.add("MatMul", weights, both[1]), perm=[0, 2, 1, 3])
    return graph.linear(graph.reshaped(joined, shape.batch, shape.tokens, shape.width), f"{name}.out", shape.width, shape.width)


def feed_forward(graph, x, name, shape):
    up = graph.linear(x, f"{name}.gate_up", shape.width, 2 * shape.hidden)
    gate, up = graph.add("Split", up, outputs=2, axis=-1, num_outputs=2)
    gated = graph.add("Mul", graph.add("Mul", gate, graph.add("Sigmoid", gate)), up)
    return graph.linear(gated, f"{name}.down", shape.hidden, shape.width)


def llama(shape):
    graph = Graph()
    x = graph.add("Gather", graph.weight("words", WORDS, shape.width), "tokens")
    places = graph.add("Unsqueeze", "positions", graph.constant([1]))
    frequencies = ROTARY_BASE ** (-numpy.arange(0, HEAD, 2) / HEAD)
    angles = graph.add("Mul", graph.cast(places, TensorProto.FLOAT), graph.constant(frequencies[None], numpy.float32))
    angles = graph.add("Concat", angles, angles, axis=-1)
    cos, sin = (graph.cast(graph.add(op, angles), TensorProto.BFLOAT16) for op in ("Cos", "Sin"))
    seen = graph.add("LessOrEqual", graph.constant(numpy.arange(CACHE)[None]), places)
    mask = graph.cast(graph.add("Where", seen, graph.constant(0, numpy.float32), graph.constant(-1e30, numpy.float32)),
                      TensorProto.BFLOAT16)
    for layer in range(shape.layers):
        name = f"layers.{layer}"
        x = graph.add("Add", x, attention(graph, graph.norm(x, f"{name}.norm_attention", shape.width), name, shape, cos, sin, mask))
        x = graph.add("Add", x, feed_forward(graph, graph.norm(x, f"{name}.norm_hidden", shape.width), name, shape))
    last = graph.add("Gather", graph.norm(x, "norm", shape.width), graph.constant(-1), axis=1)
    graph.add("MatMul", last, graph.weight("predict.weight", shape.width, WORDS), out="logits")
    cache = [shape.batch, shape.kv_heads, CACHE, HEAD]
    caches = [f"{kind}_cache.{layer}" for layer in range(shape.layers) for kind in "kv"]
    info = helper.make_tensor_value_info
    inputs = [info("tokens", TensorProto.INT64, [shape.batch, shape.tokens]), info("positions", TensorProto.INT64, [shape.tokens])]
    inputs += [info(name, TensorProto.BFLOAT16, cache) for name in caches]
    outputs = [info("logits", TensorProto.BFLOAT16, [shape.batch, WORDS])]
    outputs += [info(f"{name}.out", TensorProto.BFLOAT16, cache) for name in caches]
    made = helper.make_graph(graph.nodes, "llama", inputs, outputs, graph.tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        (folder / f"{name}.onnx").write_bytes(llama(shape_of(name)).SerializeToString())


if __name__ == "__main__":
    main()
