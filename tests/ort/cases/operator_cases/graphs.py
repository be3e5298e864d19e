"""Graphs of several operators: views of views, concatenations that others read in part, outputs that are read further."""
import numpy as np
from onnx import TensorProto

from .case import Case

MOST_ELEMENTS = 20000


class Graph:
    """A Case that grows by one operator at a time. `shapes` has all its f32 tensors."""

    def __init__(self, draw):
        self.draw, self.case, self.shapes = draw, Case(17, (1e-3, 1e-3)), {}
        for number in range(draw.whole(1, 2)):
            shape = [draw.whole(1, 6) for _ in range(draw.pick(2, 3, 4, 4, 5))]
            self.shapes[self.case.input(f"x{number}", draw.floats(*shape))] = shape

    def known(self, array, dtype=np.int64):
        return self.case.constant(f"c{len(self.case.constants)}", np.asarray(array, dtype))

    def floats(self, *shape, scale=1.0):
        return self.known(self.draw.floats(*shape, scale=scale), np.float32)

    def weight(self, *shape):
        """One that leaves results as large as what it multiplies: all but one axis are summed over, or so."""
        return self.floats(*shape, scale=float(np.prod(shape) / max(shape)) ** -0.5)

    def node(self, op, inputs, *shapes, **attributes):
        names = [f"t{len(self.case.nodes)}_{i}" for i in range(max(1, len(shapes)))]
        self.case.node(op, inputs, names, **attributes)
        self.shapes.update((name, list(shape)) for name, shape in zip(names, shapes))
        return names[0]

    def axis_of(self, shape):
        return self.draw.whole(0, len(shape) - 1)

    def like(self, fits):
        """A tensor whose shape fits."""
        return self.draw.pick(*(name for name, shape in self.shapes.items() if fits(shape)))


def with_axis(shape, axis, extent):
    return [extent if i == axis else d for i, d in enumerate(shape)]


# Each adds an operator that reads tensor x, or nothing where x does not suit.

def reshape(g, x, shape):
    rest, dims = int(np.prod(shape)), []
    for _ in range(g.draw.whole(0, 3)):
        dims.append(g.draw.pick(*(d for d in range(1, rest + 1) if rest % d == 0)))
        rest //= dims[-1]
    dims = [int(d) for d in g.draw.random.permutation([*dims, rest])]
    g.node("Reshape", [x, g.known(dims)], dims)


def transpose(g, x, shape):
    order = [int(i) for i in g.draw.random.permutation(len(shape))]
    g.node("Transpose", [x], [shape[i] for i in order], perm=order)


def cut(g, x, shape):
    axis = g.axis_of(shape)
    first = g.draw.whole(0, shape[axis] - 1)
    end, step = g.draw.whole(first + 1, shape[axis]), g.draw.pick(1, 1, 1, 2, -1)
    extent = -(-(end - first) // abs(step))
    if step < 0:
        first, end = end - 1, first - 1 if first > 0 else -(1 << 40)
    g.node("Slice", [x, *(g.known([n]) for n in (first, end, axis, step))], with_axis(shape, axis, extent))


def concat(g, x, shape):
    axis = g.axis_of(shape)
    fits = [axis if i == axis else d for i, d in enumerate(shape)]
    others = [g.like(lambda s: len(s) == len(shape) and with_axis(s, axis, axis) == fits) for _ in range(g.draw.whole(1, 2))]
    pieces = [str(name) for name in g.draw.random.permutation([x, *others])]
    g.node("Concat", pieces, with_axis(shape, axis, sum(g.shapes[name][axis] for name in pieces)), axis=axis)


def split(g, x, shape):
    axis = g.axis_of(shape)
    if shape[axis] > 1:
        first = g.draw.whole(1, shape[axis] - 1)
        parts = [first, shape[axis] - first]
        g.node("Split", [x, g.known(parts)], *(with_axis(shape, axis, n) for n in parts), axis=axis)


def pad(g, x, shape):
    mode, axes = g.draw.pick("constant", "edge", "reflect"), len(shape)
    pads = [min(g.draw.pick(0, 0, 1, 2), shape[i % axes] - 1 if mode == "reflect" else 2) for i in range(2 * axes)]
    g.node("Pad", [x, g.known(pads)], [d + pads[i] + pads[i + axes] for i, d in enumerate(shape)], mode=mode)


def gather(g, x, shape):
    axis = g.axis_of(shape)
    places = g.draw.whole(-shape[axis], shape[axis] - 1, (g.draw.whole(1, 5),))
    g.node("Gather", [x, g.known(places)], with_axis(shape, axis, len(places)), axis=axis)


def scatter(g, x, shape):
    places = np.unique(g.draw.whole(0, shape[0] - 1, (2, 1)), axis=0)
    g.node("ScatterND", [x, g.known(places), g.floats(len(places), *shape[1:])], shape)


def repeat(g, x, shape):
    times = [g.draw.pick(1, 1, 2) for _ in shape]
    wide = [d if d > 1 else n for d, n in zip(shape, times)]
    if g.draw.chance():
        g.node("Expand", [x, g.known(wide)], wide)
    else:
        g.node("Tile", [x, g.known(times)], [d * n for d, n in zip(shape, times)])


def unsqueeze(g, x, shape):
    axis = g.draw.whole(0, len(shape))
    if len(shape) < 5:
        g.node("Unsqueeze", [x, g.known([axis])], shape[:axis] + [1] + shape[axis:])


def blocks(g, x, shape):
    if len(shape) == 4 and shape[1] % 4 == 0:
        g.node("DepthToSpace", [x], [shape[0], shape[1] // 4, 2 * shape[2], 2 * shape[3]], blocksize=2, mode=g.draw.pick("DCR", "CRD"))
    elif len(shape) == 4 and shape[2] % 2 == shape[3] % 2 == 0:
        g.node("SpaceToDepth", [x], [shape[0], 4 * shape[1], shape[2] // 2, shape[3] // 2], blocksize=2)


def unary(g, x, shape):
    g.node(g.draw.pick("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "HardSigmoid", "Softplus", "Erf", "LeakyRelu", "HardSwish"), [x], shape)


def binary(g, x, shape):
    broadcast = [d if g.draw.chance() else 1 for d in shape][g.draw.whole(0, len(shape) - 1):]
    other = g.like(lambda s: s == shape) if g.draw.chance() else g.floats(*broadcast)
    g.node(g.draw.pick("Add", "Sub", "Mul", "Max", "Min"), [x, other] if g.draw.chance() else [other, x], shape)


def select(g, x, shape):
    less = g.node(g.draw.pick("Greater", "Less"), [x, g.like(lambda s: s == shape)])
    g.node("Where", [less, x, g.like(lambda s: s == shape) if g.draw.chance() else g.floats(1)], shape)


def clip(g, x, shape):
    g.node("Clip", [x, g.known(-0.5, np.float32), g.known(0.75, np.float32)], shape)


def reduce(g, x, shape):
    axes = [i for i in range(len(shape)) if g.draw.chance()] or [0]
    kept, op = g.draw.pick(0, 1), g.draw.pick("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
    left = [1 if i in axes else d for i, d in enumerate(shape) if kept or i not in axes]
    if left and op == "ReduceSum":
        g.node(op, [x, g.known(axes)], left, keepdims=kept)
    elif left:
        g.node(op, [x], left, axes=axes, keepdims=kept)


def along(g, x, shape):
    axis, op = g.axis_of(shape), g.draw.pick("Softmax", "CumSum", "TopK", "ArgMax")
    if op == "Softmax":
        g.node(op, [x], shape, axis=axis)
    elif op == "CumSum":
        g.node(op, [x, g.known(axis)], shape, exclusive=g.draw.pick(0, 1), reverse=g.draw.pick(0, 1))
    elif op == "TopK":
        most = g.draw.whole(1, shape[axis])
        name = f"t{len(g.case.nodes)}"
        g.case.node(op, [x, g.known([most])], [name, name + "_places"], axis=axis, largest=g.draw.pick(0, 1))
        g.shapes[name] = with_axis(shape, axis, most)
    else:
        g.node("Cast", [g.node(op, [x], axis=axis)], with_axis(shape, axis, 1), to=TensorProto.FLOAT)


def normalise(g, x, shape):
    if len(shape) < 3 or g.draw.chance():
        g.node("LayerNormalization", [x, g.floats(shape[-1]), g.floats(shape[-1])], shape, axis=-1)
    else:
        g.node("InstanceNormalization", [x, g.floats(shape[1]), g.floats(shape[1])], shape)


def convolution(g, x, shape):
    if not 3 <= len(shape) <= 5:
        return
    axes, channels = len(shape) - 2, shape[1]
    window, strides = ([g.draw.whole(1, 3) for _ in range(axes)] for _ in range(2))
    pads = [g.draw.whole(0, window[i % axes] - 1) for i in range(2 * axes)]
    around = [pads[i] + pads[i + axes] for i in range(axes)]
    if g.draw.chance(0.7):
        out = [(d + a - w) // s + 1 if d + a >= w else 0 for d, a, w, s in zip(shape[2:], around, window, strides)]
        groups = g.draw.pick(1, *(n for n in range(1, channels + 1) if channels % n == 0))
        outputs = groups * g.draw.whole(1, 4)
        op, weight = "Conv", (outputs, channels // groups, *window)
    else:
        out = [s * (d - 1) + w - a for d, a, w, s in zip(shape[2:], around, window, strides)]
        op, groups, outputs = "ConvTranspose", 1, g.draw.whole(1, 4)
        weight = (channels, outputs, *window)
    if min(out) > 0:
        bias = [g.floats(outputs)] if g.draw.chance() else []
        g.node(op, [x, g.weight(*weight), *bias], [shape[0], outputs, *out], group=groups, strides=strides, pads=pads)


def pool(g, x, shape):
    if not 3 <= len(shape) <= 4:
        return
    window, strides = [min(d, g.draw.whole(1, 3)) for d in shape[2:]], [g.draw.pick(1, 2) for _ in shape[2:]]
    out = [(d - w) // s + 1 for d, w, s in zip(shape[2:], window, strides)]
    g.node(g.draw.pick("MaxPool", "AveragePool"), [x], shape[:2] + out, kernel_shape=window, strides=strides)


def matmul(g, x, shape):
    if len(shape) < 2:
        return
    seconds = [name for name, s in g.shapes.items() if len(s) == len(shape) and s[:-2] == shape[:-2] and s[-2] == shape[-1]]
    if seconds and g.draw.chance():
        other = g.draw.pick(*seconds)
        g.node("MatMul", [x, other], shape[:-1] + [g.shapes[other][-1]])
    else:
        columns = g.draw.whole(1, 20)
        g.node("MatMul", [x, g.weight(shape[-1], columns)], shape[:-1] + [columns])


OPERATORS = (reshape, transpose, transpose, cut, cut, concat, concat, concat, split, pad, gather, scatter, repeat, unsqueeze, blocks, unary,
             unary, binary, binary, select, clip, reduce, reduce, along, normalise, convolution, convolution, pool, matmul)


def graph(draw):
    g = Graph(draw)
    given = list(g.shapes)
    for _ in range(draw.whole(4, 14)):
        x = draw.pick(*list(g.shapes)[-6:])
        if g.shapes[x]:
            draw.pick(*OPERATORS)(g, x, g.shapes[x])
        for name in [name for name, shape in g.shapes.items() if np.prod(shape) > MOST_ELEMENTS]:
            del g.shapes[name]
    made = [name for name in g.shapes if name not in given] or [g.node("Neg", [given[0]], g.shapes[given[0]])]
    read = {name for node in g.case.nodes for name in node.input}
    for name in made:
        if name not in read or draw.chance(0.35):
            g.case.output(name)
    if not g.case.outputs:
        g.case.output(made[-1])
    return g.case


CASES = {"graphs": graph}
