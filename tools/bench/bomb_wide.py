"""Models of very many nodes, ports, constants or pieces. For bomb_models.py."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compile_scale import FLOAT, INT64, field, number  # noqa: E402
from onnx_bytes import Graph, model, node, of_chain, tensor, whole  # noqa: E402


def inputs(count, used=True):
    g = Graph()
    for k in range(count):
        g.input(f"i{k}", [1])
    if used:
        g.node("Sum", [f"i{k}" for k in range(count)], ["y"])
    else:
        g.node("Neg", ["i0"], ["y"])
    g.output("y")
    return model(g)


def outputs(count, of_one):
    g = Graph()
    g.input("x", [1])
    if of_one:
        g.node("Neg", ["x"], ["y"])
        for _ in range(count):
            g.output("y")
    else:
        for k in range(count):
            g.node("Neg", ["x"] if k == 0 else [f"y{k - 1}"], [f"y{k}"])
            g.output(f"y{k}")
    return model(g)


def chain(count, ops=("Neg",), dims=(4,)):
    nodes = [node(ops[k % len(ops)], ["x" if k == 0 else f"{k:x}"], [f"{k + 1:x}" if k + 1 < count else "y"])
             for k in range(count)]
    return of_chain(nodes, dims=dims)


def ladder(count):
    g = Graph()
    g.input("a", [4])
    g.input("b", [4])
    before, last = "a", "b"
    for k in range(count):
        before, last = last, g.node(("Add", "Mul", "Max")[k % 3], [before, last], [f"v{k:x}"])
    g.output(last)
    return model(g)


def fan(count, op):
    g = Graph()
    g.input("x", [4])
    ends = [g.node(("Neg", "Exp", "Tanh")[k % 3], ["x"], [f"{k:x}"]) for k in range(count)]
    g.node(op, ends, ["y"], **({"axis": 0} if op == "Concat" else {}))
    g.output("y")
    return model(g)


def of_one_value(op, count):
    g = Graph()
    g.input("x", [4])
    g.node(op, ["x"] * count, ["y"], **({"axis": 0} if op == "Concat" else {}))
    g.output("y")
    return model(g)


def reductions(count):
    """Softmaxes of softmaxes: as many kernels as nodes."""
    return chain(count, ("Softmax",), (4, 8))


def matmuls(count):
    g = Graph()
    g.input("x", [2, 4])
    g.floats("w", [4, 4], [0.1 * k for k in range(16)])
    x = "x"
    for k in range(count):
        x = g.node("MatMul", [x, "w"], [f"{k:x}"])
    g.output(x)
    return model(g)


def distinct_matmuls(count):
    """Matmuls of shapes that are all different: as many kernels as nodes."""
    g = Graph()
    for k in range(count):
        g.input(f"a{k}", [1 + k % 40, 3 + k // 40])
        g.input(f"b{k}", [3 + k // 40, 2])
        g.output(g.node("MatMul", [f"a{k}", f"b{k}"], [f"c{k}"]))
    return model(g)


def recurrent(op, count, steps=16):
    g = Graph()
    g.input("x", [steps, 1, 4])
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    for name in "wr":
        g.floats(name, [1, 4 * gates, 4], [0.01 * k for k in range(16 * gates)])
    g.ints("one", [1])
    x = "x"
    for k in range(count):
        h = g.node(op, [x, "w", "r"], [f"h{k}"], hidden_size=4)
        x = g.node("Squeeze", [h, "one"], [f"{k:x}"])
    g.output(x)
    return model(g)


def each_of(op, count, dims, more=(), weights=(), **attributes):
    """Many nodes of one operator that the importer expands into several nodes."""
    g = Graph()
    g.input("x", list(dims))
    for name, values, shape in weights:
        g.ints(name, values, shape)
    x = "x"
    for k in range(count):
        x = g.node(op, [x, *more], [f"v{k:x}"], **attributes)
    g.output(x)
    return model(g)


def top_k(count):
    g = Graph()
    g.input("x", [2, 512])
    g.ints("k", [512])
    x = "x"
    for k in range(count):
        g.node("TopK", [x, "k"], [f"{k:x}", f"i{k}"])
        x = f"{k:x}"
    g.output(x)
    return model(g)


def identities(count):
    """One value as many outputs with different names."""
    g = Graph()
    g.input("x", [1])
    g.node("Exp", ["x"], ["v"])
    for k in range(count):
        g.output(g.node("Identity", ["v"], [f"{k:x}_"]))
    return model(g)


def ports(count):
    g = Graph()
    for k in range(count):
        g.output(g.node("Exp", [g.input(f"i{k:x}", [2])], [f"o{k:x}"]))
    return model(g)


def long_ports(count, size):
    g = Graph()
    for k in range(count):
        g.output(g.node("Exp", [g.input("i" * size + str(k), [2])], ["o" * size + str(k)], name="n" * size))
    return model(g)


def value_infos(count):
    g = Graph()
    g.input("x", [4])
    g.output(g.node("Neg", ["x"], ["y"]))
    g.more += [field(13, field(1, f"v{k}")) for k in range(count)]
    return model(g)


def metadata(count):
    g = Graph()
    g.input("x", [4])
    g.nodes.append(node("Neg", ["x"], ["y"], metadata=[(f"k{k}", "v") for k in range(count)]))
    g.output("y")
    return model(g, more=b"".join(field(14, field(1, f"k{k}") + field(2, "v")) for k in range(count)))


def tiny_constants(count):
    g = Graph()
    g.input("x", [4])
    x = "x"
    for k in range(count):
        value = tensor([], FLOAT, struct.pack("<f", k))
        g.nodes.append(node("Constant", [], [f"c{k:x}"]) + field(5, field(1, "value") + field(5, value) + number(20, 4)))
        x = g.node(("Add", "Max")[k % 2], [x, f"c{k:x}"], [f"v{k:x}"])
    g.output(x)
    return model(g)


def external(count, dims, location="x.bin"):
    """Weights in a missing file."""
    g = Graph()
    g.input("x", [1])
    x = "x"
    for k in range(count):
        entries = b"".join(field(13, field(1, key) + field(2, value)) for key, value in (("location", location), ("offset", "0")))
        g.initializers.append(b"".join(number(1, d) for d in dims) + number(2, FLOAT) + field(8, f"w{k}") + entries + number(14, 1))
        x = g.node("Add", [x, g.node("ReduceSum", [f"w{k}"], [f"s{k}"], keepdims=0)], [f"v{k}"])
    g.output(x)
    return model(g)


def sparse(dims):
    g = Graph()
    g.input("x", [1])
    values = tensor([1], FLOAT, struct.pack("<f", 1), "w")
    indices = tensor([1], INT64, whole(0))
    g.more.append(field(15, field(1, values) + field(2, indices) + b"".join(number(3, d) for d in dims)))
    g.output(g.node("Add", ["x", "w"], ["y"]))
    return model(g)


def split(pieces):
    g = Graph()
    g.input("x", [pieces])
    g.node("Split", ["x"], [f"p{k:x}" for k in range(pieces)], num_outputs=pieces)
    g.node("Sum", [f"p{k:x}" for k in range(pieces)], ["y"])
    g.output("y")
    return model(g)


def indexed(op, count):
    """Reads or writes at constant indices."""
    g = Graph()
    g.input("x", [512])
    g.ints("i", [(k * 7) % 512 for k in range(512)])
    x = "x"
    for k in range(count):
        x = g.node(op, [x, "i", x] if op == "ScatterElements" else [x, "i"], [f"v{k:x}"], axis=0)
    g.output(x)
    return model(g)


def normalised(count):
    g = Graph()
    g.input("x", [4, 8])
    g.floats("w", [8], [1.0] * 8)
    x = "x"
    for k in range(count):
        x = g.node("LayerNormalization", [x, "w"], [f"v{k:x}"])
    g.output(x)
    return model(g)


def attentions(count):
    g = Graph()
    g.input("x", [1, 2, 4, 8])
    x = "x"
    for k in range(count):
        x = g.node("Attention", [x, x, x], [f"v{k:x}"])
    g.output(x)
    return model(g, opset=23)


def read_again(count):
    """Shapes that each depend on the whole chain of computation before them."""
    g = Graph()
    g.input("x", [4])
    for name, value in (("d", 20000), ("zero", 0), ("one", 1)):
        g.ints(name, [value])
    g.node("CumSum", [g.node("ConstantOfShape", ["d"], ["z"], value=tensor([1], INT64, whole(0))), "zero"], ["v0"])
    x = "x"
    for k in range(count):
        g.node("Add", [f"v{k}", f"v{k}"], [f"v{k + 1}"])
        g.node("Slice", [f"v{k + 1}", "zero", "one"], [f"s{k}"])
        g.node("Concat", [f"s{k}", f"s{k}"], [f"p{k}"], axis=0)
        x = g.node("Pad", [x, f"p{k}"], [f"x{k}"])
    g.output(x)
    return model(g)
