"""Models that are small in a file and large once functions, loops and branches are written out. For bomb_models.py."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compile_scale import FLOAT, field, number  # noqa: E402
from onnx_bytes import BOOL, Graph, function, model, node, of_chain, tensor  # noqa: E402


def twice(depth, op="Neg", name=""):
    """Functions that call the next one twice."""
    made = [function(f"f{depth}", ["x"], ["y"], [node(op, ["x"], ["y"])])]
    for i in range(depth):
        call = [node(f"f{i + 1}", ["x"], ["t"], domain="f", name=name and name + "a"),
                node(f"f{i + 1}", ["t"], ["y"], domain="f", name=name and name + "b")]
        made.append(function(f"f{i}", ["x"], ["y"], call))
    return of_chain([node("f0", ["x"], ["y"], domain="f")], made)


def called(times, size, name="", op="Neg"):
    """A function of `size` nodes, called `times` times."""
    body = [node(op, ["x" if i == 0 else f"v{i}"], [f"v{i + 1}" if i + 1 < size else "y"], name=name)
            for i in range(size)]
    calls = [node("f", ["x" if i == 0 else f"c{i}"], [f"c{i + 1}" if i + 1 < times else "y"], domain="f")
             for i in range(times)]
    return of_chain(calls, [function("f", ["x"], ["y"], body)])


def long_calls(depth, name_bytes):
    """Functions that call each other in a row through nodes with long names, so that inlined names grow long."""
    made = [function(f"f{depth}", ["x"], ["y"], [node("Neg", ["x" if i == 0 else f"v{i}"],
                                                         [f"v{i + 1}" if i < 200 else "y"]) for i in range(201)])]
    for i in range(depth):
        made.append(function(f"f{i}", ["x"], ["y"], [node(f"f{i + 1}", ["x"], ["y"], domain="f", name="n" * name_bytes)]))
    return of_chain([node("f0", ["x"], ["y"], domain="f")], made)


def loops(rounds, depth, inner=("Neg",)):
    """Loops within loops."""
    def body(level):
        g = Graph()
        for name in (f"i{level}", f"c{level}", f"x{level}"):
            g.input(name)
        g.node("Identity", [f"c{level}"], [f"d{level}"])
        if level + 1 < depth:
            g.node("Loop", ["n", "go", f"x{level}"], [f"y{level}"], body=body(level + 1))
        else:
            x = f"x{level}"
            for k, op in enumerate(inner):
                x = g.node(op, [x], [f"y{level}" if k + 1 == len(inner) else f"z{k}"])
        for name in (f"d{level}", f"y{level}"):
            g.output(name)
        return g
    g = Graph()
    g.ints("n", [rounds], [])
    g.bool("go")
    g.input("x", [4])
    g.node("Loop", ["n", "go", "x"], ["y"], body=body(0))
    g.output("y")
    return model(g)


def scans(rounds, depth):
    """Scans within scans."""
    def body(level):
        g = Graph()
        for name in (f"s{level}", f"e{level}"):
            g.input(name)
        if level + 1 < depth:
            g.node("Scan", [f"s{level}", "xs"], [f"t{level}"], body=body(level + 1), num_scan_inputs=1)
        else:
            g.node("Add", [f"s{level}", f"e{level}"], [f"t{level}"])
        g.output(f"t{level}")
        return g
    g = Graph()
    g.input("x", [4])
    g.input("xs", [rounds, 4])
    g.node("Scan", ["x", "xs"], ["y"], body=body(0), num_scan_inputs=1)
    g.output("y")
    return model(g)


def loop_of(rounds, add, carried=1):
    """A loop that must be unrolled, because its body carries a sequence."""
    g = Graph()
    g.ints("n", [rounds], [])
    g.bool("go")
    g.bool("never", 0)
    g.input("x", [4])
    g.node("SequenceConstruct", ["x"], ["s"])
    body = Graph()
    for name in ("i", "c", "xi", "si"):
        body.input(name)
    body.node("Identity", ["c"], ["d"])
    add(body)
    body.output("d")
    body.output("yi")
    body.output("so")
    g.node("Loop", ["n", "go", "x", "s"], ["y", "st"], body=body)
    g.output("y")
    return model(g)


def loop_of_many_nodes():
    def add(body):
        x = "xi"
        for k in range(3000):
            x = body.node("Neg", [x], [f"a{k}"])
        body.node("Identity", [x], ["yi"])
        body.node("Identity", ["si"], ["so"])
    return loop_of(4096, add)


def loop_of_initializers():
    def add(body):
        for k in range(20000):
            body.floats(f"w{k}", [1], [k])
        body.node("Neg", ["xi"], ["yi"])
        body.node("Identity", ["si"], ["so"])
    return loop_of(4096, add)


def loop_of_branches_not_taken():
    def add(body):
        no, yes = Graph(), Graph()
        x = "xi"
        for k in range(20000):
            x = no.node("Neg", [x], [f"a{k}"])
        no.output(x)
        yes.node("Neg", ["xi"], ["b"])
        yes.output("b")
        body.node("If", ["never"], ["yi"], then_branch=no, else_branch=yes)
        body.node("Identity", ["si"], ["so"])
    return loop_of(4096, add)


def loop_of_growing_sequence():
    def add(body):
        body.node("Identity", ["xi"], ["yi"])
        body.node("SequenceInsert", ["si", "xi"], ["t0"])
        for k in range(8):
            body.node("SequenceInsert", [f"t{k}", "xi"], [f"t{k + 1}" if k < 7 else "so"])
    return loop_of(4096, add)


def loop_without_end():
    g = Graph()
    g.ints("n", [1 << 62], [])
    g.bool("go")
    g.input("x", [4])
    body = Graph()
    for name in ("i", "c", "xi"):
        body.input(name)
    body.node("Identity", ["c"], ["d"])
    body.node("Neg", ["xi"], ["yi"])
    body.output("d")
    body.output("yi")
    g.node("Loop", ["n", "go", "x"], ["y"], body=body)
    g.output("y")
    return model(g)


def ifs(depth):
    """Nested Ifs whose conditions are known only at run time."""
    def branch(level, side):
        g = Graph()
        out = f"o{level}{side}"
        if level == depth:
            g.node("Neg", ["x"], [out])
        else:
            g.node("If", ["c"], [out], then_branch=branch(level + 1, side + "t"), else_branch=branch(level + 1, side + "e"))
        g.output(out)
        return g
    g = Graph()
    g.input("c", [], BOOL)
    g.input("x", [4])
    g.node("If", ["c"], ["y"], then_branch=branch(1, "t"), else_branch=branch(1, "e"))
    g.output("y")
    return model(g)


def nested_to(depth):
    """Graphs within graphs as deep as the message may nest."""
    g = Graph()
    g.node("Neg", ["x"], ["o"])
    g.output("o")
    for _ in range(depth):
        outer = Graph()
        outer.node("If", ["c"], ["o"], then_branch=g, else_branch=g if len(g.bytes()) < 3000 else Graph())
        outer.output("o")
        g = outer
    top = Graph()
    top.input("x", [4])
    top.bool("c")
    top.nodes = g.nodes
    top.output("o")
    return model(top)


def functions_in_ifs(depth):
    """Functions with an If, decided at run time, that calls the next function in both branches."""
    made = [function(f"f{depth}", ["x", "c"], ["y"], [node("Neg", ["x"], ["y"])])]
    for i in range(depth):
        sides = []
        for side in "te":
            g = Graph()
            g.node(f"f{i + 1}", ["x", "c"], [f"y{side}"], domain="f")
            g.output(f"y{side}")
            sides.append(g)
        made.append(function(f"f{i}", ["x", "c"], ["y"], [node("If", ["c"], ["y"], then_branch=sides[0], else_branch=sides[1])]))
    g = Graph()
    g.input("x", [4])
    g.input("c", [], BOOL)
    g.node("f0", ["x", "c"], ["y"], domain="f")
    g.output("y")
    return model(g, made)


def recursive():
    """A function that calls itself."""
    body = [node("f", ["x"], ["t"], domain="f"), node("f", ["t"], ["y"], domain="f")]
    return of_chain([node("f", ["x"], ["y"], domain="f")], [function("f", ["x"], ["y"], body)])


def calls_of(body, times, more=lambda g: None):
    """A function with the nodes `body` from x to y, called `times` times."""
    g = Graph()
    g.input("x", [4])
    more(g)
    x = "x"
    for k in range(times):
        x = g.node("f", [x], [f"c{k:x}"], domain="f")
    g.output(x)
    return model(g, [function("f", ["x"], ["y"], body)])


def attributes_called(count, times):
    return calls_of([node("Transpose", ["x"], ["y"], perm=[0], other=list(range(count)))], times)


def concats_called(wide, times):
    return calls_of([node("Concat", ["x"] * wide, ["t"], axis=0), node("ReduceMax", ["t"], ["u"]), node("Add", ["x", "u"], ["y"])],
                    times)


def constants_called(size, times):
    value = tensor([size], FLOAT, bytes(4 * size))
    constant = node("Constant", [], ["c"]) + field(5, field(1, "value") + field(5, value) + number(20, 4))
    return calls_of([constant, node("ReduceSum", ["c"], ["s"]), node("Add", ["x", "s"], ["y"])], times)


def unread_called(count, times):
    """A function with many nodes that nothing reads."""
    return calls_of([node("Neg", ["x"], [f"u{k}"]) for k in range(count)] + [node("Neg", ["x"], ["y"])], times)


def loop_carrying(values, rounds):
    g = Graph()
    g.ints("n", [rounds], [])
    g.bool("go")
    for k in range(values):
        g.input(f"x{k}", [1])
    body = Graph()
    for name in ("i", "c", *(f"b{k}" for k in range(values))):
        body.input(name)
    body.node("Identity", ["c"], ["d"])
    body.output("d")
    for k in range(values):
        body.output(body.node("Neg", [f"b{(k + 1) % values}"], [f"e{k}"]))
    g.node("Loop", ["n", "go", *(f"x{k}" for k in range(values))], [f"y{k}" for k in range(values)], body=body)
    g.output("y0")
    return model(g)


def scan_of(nodes, rounds, results):
    g = Graph()
    g.input("x", [4])
    g.input("xs", [rounds, 4])
    body = Graph()
    body.input("s")
    body.input("e")
    x = "s"
    for k in range(nodes):
        x = body.node(("Add", "Mul")[k % 2], [x, "e"], [f"t{k}"])
    body.output(x)
    for k in range(results):
        body.output(body.node("Neg", [x], [f"r{k}"]))
    g.node("Scan", ["x", "xs"], ["y"] + [f"rs{k}" for k in range(results)], body=body, num_scan_inputs=1)
    g.output("y")
    for k in range(results):
        g.output(f"rs{k}")
    return model(g)


def ifs_known(depth, each):
    """Nested Ifs with known conditions, and many nodes beside them."""
    inner = Graph()
    inner.output(inner.node("Neg", ["x"], ["o"]))
    for level in range(depth):
        outer = Graph()
        x = "x"
        for k in range(each):
            x = outer.node("Neg", [x], [f"n{level}_{k}"])
        outer.node("If", ["c"], [f"p{level}"], then_branch=inner, else_branch=inner if level < 8 else Graph())
        outer.output(outer.node("Add", [x, f"p{level}"], [f"o{level}"]))
        inner = outer
    g = inner
    g.input("x", [4])
    g.bool("c")
    return model(g)
