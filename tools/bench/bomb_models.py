"""The models of bombs.py. BOMBS has a function for each, which returns the bytes of a file of about 1 MB or less."""
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from compile_scale import FLOAT, INT64, field, number  # noqa: E402
from onnx_bytes import BOOL, Graph, function, model, node, of_chain, tensor, whole  # noqa: E402

# -------------------------------------------------------------------------------- written out: functions and graphs


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


# --------------------------------------------------------------------------------------------- numbers worked out


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


# ------------------------------------------------------------------------------------------------ sequences, pieces


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


# ---------------------------------------------------------------------------------------------------------- wide


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


# ------------------------------------------------------------------------------------------------- names and texts


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


# ------------------------------------------------------------------------------------------------- more of bodies


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


# ------------------------------------------------------------------------------------------ more of wide and long


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


BOMBS = {
    "functions_twice_18": lambda: twice(18),
    "functions_twice_40": lambda: twice(40),
    "functions_twice_12_of_lstm_names": lambda: twice(14, "Gelu", "n" * 2000),
    "functions_5000_called_5000_times": lambda: called(5000, 5000),
    "functions_called_20000_times_long_name": lambda: called(20000, 1, "n" * 200000),
    "functions_of_long_names_60_deep": lambda: long_calls(60, 12000),
    "functions_in_branches_20": lambda: functions_in_ifs(20),
    "functions_unused": lambda: functions_unused(20000),
    "functions_of_many_opsets": lambda: opsets_in_graphs(20000),
    "loops_16_8": lambda: loops(16, 8),
    "loops_17_8": lambda: loops(17, 8),
    "loops_4096_2": lambda: loops(4096, 2),
    "loops_16_3_of_500": lambda: loops(16, 3, ("Neg", "Exp") * 250),
    "scans_16_8": lambda: scans(16, 8),
    "scans_4096_2": lambda: scans(4096, 2),
    "loop_of_3000_nodes_4096_times": loop_of_many_nodes,
    "loop_of_20000_initializers": loop_of_initializers,
    "loop_of_branches_not_taken": loop_of_branches_not_taken,
    "loop_of_growing_sequence": loop_of_growing_sequence,
    "loop_without_end": loop_without_end,
    "ifs_11_deep": lambda: ifs(11),
    "nested_30_deep": lambda: nested_to(30),
    "nested_90_deep": lambda: nested_to(90),
    "constant_of_2^42": lambda: constant_of_shape([1 << 42], 1, summed),
    "constants_of_2^24": lambda: constant_of_shape([1 << 24], 200, summed),
    "constants_of_2^23_as_shapes": lambda: constant_of_shape([1 << 23], 50, as_shape),
    "concat_doubled_40": lambda: doubled("Concat", 40),
    "concat_doubled_26": lambda: doubled("Concat", 26),
    "tile_doubled_30": lambda: doubled("Tile", 30),
    "pad_doubled_30": lambda: doubled("Pad", 30),
    "folded_sums_15000": lambda: folded(15000, [16384]),
    "folded_powers_15000": lambda: folded(15000, [16384], "Pow"),
    "matmuls_folded": lambda: matmuls_folded(8000, 128),
    "convolutions_folded": lambda: convolutions_folded(500),
    "one_hots": lambda: one_hots(200),
    "range_of_2^40": lambda: ranges(1 << 40, 1),
    "ranges_of_2^25": lambda: ranges(1 << 25, 100),
    "eye_like": lambda: single("EyeLike", ["x"], dims=(60000, 60000)),
    "expand_2^43": lambda: single("Expand", ["x", "s"], [("s", [1 << 20, 1 << 21, 4], None)]),
    "tile_2^43": lambda: single("Tile", ["x", "s"], [("s", [1 << 41], None)]),
    "resize_2^40": lambda: single("Resize", ["x", "", "", "s"], [("s", [1, 1, 1 << 20, 1 << 20], None)], dims=(1, 1, 2, 2)),
    "pad_2^40": lambda: single("Pad", ["x", "s"], [("s", [1 << 40, 1 << 40], None)]),
    "pool_of_2^31": lambda: single("MaxPool", ["x"], dims=(1, 1, 65536, 65536), kernel_shape=[32768, 32768]),
    "upsampled_split": lambda: many_splits(40, 65536),
    "sequence_of_30000_inserts": lambda: sequence_of_inserts(30000),
    "splits_200_of_20000": lambda: many_splits(200, 20000),
    "inputs_30000": lambda: inputs(30000),
    "inputs_30000_unused": lambda: inputs(30000, False),
    "inputs_200000": lambda: inputs(200000, False),
    "inputs_200000_summed": lambda: inputs(200000),
    "outputs_100000_of_one": lambda: outputs(100000, True),
    "outputs_20000": lambda: outputs(20000, False),
    "chain_45000": lambda: chain(45000),
    "chain_of_functions_45000": lambda: chain(45000, ("Exp", "Tanh", "Abs")),
    "ladder_35000": lambda: ladder(35000),
    "fan_sum_30000": lambda: fan(30000, "Sum"),
    "fan_concat_30000": lambda: fan(30000, "Concat"),
    "sum_of_one_value": lambda: of_one_value("Sum", 300000),
    "concat_of_one_value": lambda: of_one_value("Concat", 300000),
    "softmaxes_30000": lambda: reductions(30000),
    "matmuls_30000": lambda: matmuls(30000),
    "distinct_matmuls_8000": lambda: distinct_matmuls(8000),
    "lstm_8000": lambda: recurrent("LSTM", 8000),
    "gru_8000": lambda: recurrent("GRU", 8000),
    "lstm_of_4000_steps_4000": lambda: recurrent("LSTM", 4000, 4000),
    "layer_norms_20000": lambda: each_of("LpNormalization", 20000, [4, 8]),
    "cumsums_20000": lambda: each_of("CumSum", 20000, [64], ("a",), [("a", [0], [])]),
    "det_10000": lambda: each_of("Softmax", 10000, [8, 8], axis=0),
    "gelus_30000": lambda: each_of("Gelu", 30000, [4]),
    "top_k_8000": lambda: top_k(8000),
    "lrn_15000": lambda: each_of("LRN", 15000, [1, 64, 4], size=63),
    "average_pools_15000": lambda: each_of("AveragePool", 15000, [1, 1, 64], kernel_shape=[31], pads=[15, 15]),
    "long_names": lambda: long_names(90, 10000),
    "one_name_20000": lambda: one_name(20000),
    "needs_8000": lambda: needs(8000),
    "after_12000": lambda: after(12000),
    "dim_of_200000_terms": lambda: dim_text("N" + "+N" * 200000),
    "dim_in_300000_brackets": lambda: dim_text("(" * 300000 + "N" + ")" * 300000),
    "dim_of_minus_signs": lambda: dim_text("-" * 900000 + "N"),
    "einsum_of_50": lambda: equation(50, ",".join(chr(65 + k % 26 if k < 26 else 97 + k % 26) for k in range(50)) + "->"),
    "einsum_of_20000": lambda: equation(20000, ",".join("a" for _ in range(20000)) + "->a"),
    "einsum_text": lambda: equation(1, "a" * 900000 + "->"),
    "weights_unused_40000": lambda: weights_unused(40000),
    "constants_20000": lambda: constants(20000),
    "backward_40000": lambda: backward(40000),
    "states_10000": lambda: states(10000),
    "views_10000": lambda: views(10000),
    "slices_8000": lambda: slices(8000),
    "opsets_50000": lambda: opsets(50000),
    "function_of_itself": recursive,
    "attributes_of_200000_called_5000_times": lambda: attributes_called(200000, 5000),
    "concats_of_50000_called_5000_times": lambda: concats_called(50000, 5000),
    "constants_of_100000_called_5000_times": lambda: constants_called(100000, 5000),
    "unread_20000_called_5000_times": lambda: unread_called(20000, 5000),
    "loop_carrying_3000": lambda: loop_carrying(3000, 4096),
    "loop_carrying_3000_written_out": lambda: loop_carrying(3000, 16),
    "scan_of_4000_nodes": lambda: scan_of(4000, 4096, 2),
    "scan_of_4000_nodes_written_out": lambda: scan_of(4000, 16, 2),
    "scan_of_2000_results": lambda: scan_of(1, 16, 2000),
    "ifs_known_20_deep": lambda: ifs_known(20, 40),
    "identities_40000": lambda: identities(40000),
    "ports_15000": lambda: ports(15000),
    "ports_with_names_of_100_KB": lambda: long_ports(3, 100000),
    "ports_with_names_of_2_KB": lambda: long_ports(140, 2000),
    "value_infos_60000": lambda: value_infos(60000),
    "metadata_20000": lambda: metadata(20000),
    "tiny_constants_15000": lambda: tiny_constants(15000),
    "external_of_2^40": lambda: external(1, [1 << 20, 1 << 20]),
    "external_9000_of_nothing": lambda: external(9000, [1 << 10]),
    "external_outside": lambda: external(1, [4], "../" * 1000 + "etc/passwd"),
    "sparse_of_2^50": lambda: sparse([1 << 50]),
    "split_60000": lambda: split(60000),
    "gathers_12000": lambda: indexed("Gather", 12000),
    "scatters_8000": lambda: indexed("ScatterElements", 8000),
    "layer_normalizations_20000": lambda: normalised(20000),
    "attentions_15000": lambda: attentions(15000),
    "read_again_4000": lambda: read_again(4000),
    "hann_window_2^40": lambda: single("HannWindow", ["s"], [("s", [1 << 40], [])]),
    "conv_transpose_large": lambda: single("ConvTranspose", ["x", "x"], dims=(1, 1, 2, 2), strides=[1 << 20, 1 << 20]),
    "string_of_900_KB": lambda: single("Neg", ["x"], text="s" * 900000),
}
