"""Models of long names and texts, and of much that nothing needs. For bomb_models.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compile_scale import FLOAT, INT64, field, number  # noqa: E402
from onnx_bytes import Graph, function, model, node, of_chain  # noqa: E402
from bomb_wide import each_of  # noqa: E402


def long_names(count, size):
    """Nodes with the same long name, of an operator that expands into several nodes."""
    return each_of("Gelu", count, [4], name="n" * size)


def one_name(count):
    nodes = [node("Neg", ["x" if k == 0 else f"{k:x}"], [f"{k + 1:x}" if k + 1 < count else "y"], name="n",
                  metadata=[("after", "n")] if k == 7 else []) for k in range(count)]
    return of_chain(nodes)


def needs(count):
    nodes = [node("Neg", ["x"], [f"v{k}"], name=f"n{k}", metadata=[("needs", f"n{k - 1}")] if k else []) for k in range(count)]
    nodes.append(node("Neg", [f"v{count - 1}"], ["y"]))
    return of_chain(nodes)


def after(count):
    nodes = [node("Neg", ["x" if k == 0 else f"v{k - 1}"], [f"v{k}"], name=f"n{k}",
                  metadata=[("after", f"n{k - 1}")] if k else []) for k in range(count)]
    nodes.append(node("Neg", [f"v{count - 1}"], ["y"]))
    return of_chain(nodes)


def dim_text(text):
    g = Graph()
    shape = field(1, field(2, text))
    g.inputs.append(field(1, "x") + field(2, field(1, number(1, FLOAT) + field(2, shape))))
    g.node("Neg", ["x"], ["y"])
    g.output("y")
    return model(g)


def equation(operands, text):
    g = Graph()
    for k in range(operands):
        g.input(f"i{k}", [2])
    g.node("Einsum", [f"i{k}" for k in range(operands)], ["y"], equation=text)
    g.output("y")
    return model(g)


def weights_unused(count):
    g = Graph()
    g.input("x", [4])
    for k in range(count):
        g.floats(f"w{k}", [1], [k])
    g.node("Neg", ["x"], ["y"])
    g.output("y")
    return model(g)


def constants(count):
    g = Graph()
    g.input("x", [4])
    x = "x"
    for k in range(count):
        g.floats(f"w{k}", [], [k + 0.5])
        x = g.node(("Add", "Mul")[k % 2], [x, f"w{k}"], [f"{k:x}"])
    g.output(x)
    return model(g)


def backward(count):
    """Nodes in reverse topological order."""
    nodes = [node("Neg", ["x" if k == 0 else f"{k:x}"], [f"{k + 1:x}" if k + 1 < count else "y"])
             for k in range(count)]
    return of_chain(nodes[::-1])


def states(count):
    g = Graph()
    g.input("x", [1, 2])
    g.input("at", [1, 1], INT64)
    for k in range(count):
        g.input(f"past_{k}", [4, 2])
        g.output(g.node("ScatterND", [f"past_{k}", "at", "x"], [f"present_{k}"]))
    return model(g)


def views(count):
    g = Graph()
    g.input("x", [2, 3, 4])
    g.ints("flat", [24])
    g.ints("deep", [4, 3, 2])
    x = "x"
    for k in range(count):
        x = g.node("Transpose", [x], [f"t{k}"], perm=[2, 0, 1] if k % 2 else [1, 0, 2])
        x = g.node("Reshape", [x, "flat"], [f"f{k}"])
        x = g.node("Reshape", [x, "deep"], [f"d{k}"])
    g.node("Neg", [x], ["y"])
    g.output("y")
    return model(g)


def slices(count):
    g = Graph()
    g.input("x", [count + 8])
    g.ints("axis", [0])
    total = None
    for k in range(count):
        g.ints(f"b{k}", [k])
        g.ints(f"e{k}", [k + 8])
        y = g.node("Tanh", [g.node("Slice", ["x", f"b{k}", f"e{k}", "axis"], [f"s{k}"])], [f"t{k}"])
        total = y if total is None else g.node("Add", [total, y], [f"a{k}"])
    g.node("Neg", [total], ["y"])
    g.output("y")
    return model(g)


def functions_unused(count):
    g = Graph()
    g.input("x", [4])
    g.node("Neg", ["x"], ["y"])
    g.output("y")
    return model(g, [function(f"f{k}", ["x"], ["y"], [node("Neg", ["x"], ["y"])]) for k in range(count)])


def opsets(count):
    return of_chain([node("Neg", ["x"], ["y"])],
                    more=b"".join(field(8, field(1, f"d{k}") + number(2, 1)) for k in range(count)))


def opsets_in_graphs(count):
    """A function that imports very many opsets, called often."""
    f = (field(1, "f") + field(4, "x") + field(5, "y") + field(7, node("Neg", ["x"], ["y"])) + field(10, "f") +
         b"".join(field(9, field(1, f"d{k}") + number(2, 1)) for k in range(count)))
    calls = [node("f", ["x" if i == 0 else f"c{i}"], [f"c{i + 1}" if i + 1 < 20000 else "y"], domain="f") for i in range(20000)]
    return of_chain(calls, [f])
