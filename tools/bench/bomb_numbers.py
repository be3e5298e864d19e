"""Models whose constants, shapes and sequences are large once they are worked out. For bomb_models.py."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compile_scale import FLOAT, INT64, number  # noqa: E402
from onnx_bytes import Graph, model, node, tensor  # noqa: E402


def constant_of_shape(dims, times, then):
    """Large constants of one repeated number; each is used."""
    g = Graph()
    g.input("x", [4])
    total = "x"
    for k in range(times):
        g.ints(f"d{k}", [d + (k if i == 0 else 0) for i, d in enumerate(dims)])
        g.node("ConstantOfShape", [f"d{k}"], [f"c{k}"])
        total = then(g, f"c{k}", total, k)
    g.node("Identity", [total], ["y"])
    g.output("y")
    return model(g)


def summed(g, big, total, k):
    return g.node("Add", [total, g.node("ReduceSum", [g.node("Exp", [big], [f"e{k}"])], [f"s{k}"], keepdims=0)], [f"t{k}"])


def as_shape(g, big, total, k):
    """Makes the importer read the constant as a list of integers."""
    g.node("Cast", [big], [f"i{k}"], to=INT64)
    return g.node("Reshape", [total, g.node("Tile", [f"i{k}", g.ints(f"r{k}", [1])], [f"j{k}"])], [f"t{k}"])


def doubled(op, times, size=1):
    """A constant that is doubled again and again, then summed."""
    g = Graph()
    g.input("x", [1])
    x = g.floats("c", [size], [1.5] * size)
    for k in range(times):
        if op == "Concat":
            x = g.node("Concat", [x, x], [f"c{k}"], axis=0)
        elif op == "Tile":
            x = g.node("Tile", [x, "two"], [f"c{k}"])
        else:
            x = g.node("Pad", [x, g.ints(f"p{k}", [1 << k, 0])], [f"c{k}"])
        x = g.node("Neg", [x], [f"n{k}"])
    g.ints("two", [2])
    g.node("Add", ["x", g.node("ReduceSum", [x], ["s"])], ["y"])
    g.output("y")
    return model(g)


def folded(times, dims, op="Add"):
    """Many constants of the largest size that is folded, each computed from the one before."""
    g = Graph()
    g.input("x", [1])
    g.ints("d", dims)
    x = g.node("ConstantOfShape", ["d"], ["k"], value=tensor([1], FLOAT, struct.pack("<f", 0.25)))
    g.floats("one", [], [1.0])
    x = g.node("Add", [g.node("Expand", ["one", "d"], ["e"]), g.node("Cumulative" if 0 else "CumSum", [x, g.ints("a", [0], [])], ["u"])], ["v"])
    for k in range(times):
        x = g.node(op, [x, x], [f"c{k}"])
    g.node("Add", ["x", g.node("ReduceSum", [x], ["s"])], ["y"])
    g.output("y")
    return model(g)


def single(op, inputs, ints=(), dims=(4,), kind=FLOAT, **attributes):
    """One operator whose constants make its result huge."""
    g = Graph()
    g.input("x", list(dims), kind)
    for name, values, shape in ints:
        g.ints(name, values, shape)
    g.node(op, inputs, ["y"], **attributes)
    g.output("y")
    return model(g)


def one_hots(times):
    g = Graph()
    g.input("x", [1])
    g.ints("depth", [1 << 26], [])
    g.floats("values", [2], [0, 1])
    total = "x"
    for k in range(times):
        g.ints(f"i{k}", [k])
        h = g.node("OneHot", [f"i{k}", "depth", "values"], [f"h{k}"])
        total = g.node("Add", [total, g.node("ReduceSum", [h], [f"s{k}"], keepdims=0)], [f"t{k}"])
    g.node("Identity", [total], ["y"])
    g.output("y")
    return model(g)


def ranges(count, times):
    g = Graph()
    g.input("x", [1])
    for name, v in (("zero", 0), ("one", 1)):
        g.ints(name, [v], [])
    total = "x"
    for k in range(times):
        g.ints(f"n{k}", [count + k], [])
        r = g.node("Cast", [g.node("Range", ["zero", f"n{k}", "one"], [f"r{k}"])], [f"f{k}"], to=FLOAT)
        total = g.node("Add", [total, g.node("ReduceSum", [r], [f"s{k}"], keepdims=0)], [f"t{k}"])
    g.node("Identity", [total], ["y"])
    g.output("y")
    return model(g)


def matmuls_folded(times, n):
    g = Graph()
    g.input("x", [1])
    g.ints("d", [n, n])
    x = g.node("ConstantOfShape", ["d"], ["k"], value=tensor([1], FLOAT, struct.pack("<f", 0.01)))
    x = g.node("CumSum", [x, g.ints("a", [0], [])], ["u"])
    for k in range(times):
        x = g.node("MatMul", [x, "u"], [f"c{k}"])
    g.node("Add", ["x", g.node("ReduceSum", [x], ["s"])], ["y"])
    g.output("y")
    return model(g)


def convolutions_folded(times):
    g = Graph()
    g.input("x", [1])
    g.ints("d", [1, 4, 64, 64])
    g.ints("w", [4, 4, 64, 64])
    a = g.node("CumSum", [g.node("ConstantOfShape", ["d"], ["k"]), g.ints("ax", [2], [])], ["u"])
    w = g.node("CumSum", [g.node("ConstantOfShape", ["w"], ["l"]), "ax"], ["v"])
    total = "x"
    for k in range(times):
        c = g.node("Conv", [a, w], [f"c{k}"], pads=[32, 32, 31, 31])
        a = c
    g.node("Add", [total, g.node("ReduceSum", [a], ["s"], keepdims=0)], ["y"])
    g.output("y")
    return model(g)


def sequence_of_inserts(count):
    g = Graph()
    g.input("x", [4])
    s = g.node("SequenceEmpty", [], ["s"])
    for k in range(count):
        s = g.node("SequenceInsert", [s, "x"], [f"s{k}"])
    g.node("ConcatFromSequence", [s], ["y"], axis=0)
    g.output("y")
    return model(g)


def many_splits(times, pieces):
    g = Graph()
    g.input("x", [pieces])
    total = "x"
    for k in range(times):
        g.node("SplitToSequence", [total], [f"s{k}"], axis=0)
        total = g.node("ConcatFromSequence", [f"s{k}"], [f"t{k}"], axis=0)
    g.node("Neg", [total], ["y"])
    g.output("y")
    return model(g)
