"""A lower bound for the live bytes at a plan's steps, computed from the ONNX graph alone.

The inputs are: operators, shapes (ONNX's own shape inference), and the order, which `rondo inspect --steps` gives by the names of
the ONNX nodes that each step computes. Of the plan itself only the ports that are states are used, not its buffers, kernels or
offsets. A value needs memory from the step that computes it to the last step that reads it, and none if that is one step. Free are:
constants, views (reshape, transpose, slice, split, expand, ...), concatenations (their pieces are written in place), states and their
new contents, and nodes that no step names, because they are folded into others. A result may take over the memory of an operand that
the step reads last, if each element depends only on the same element, or its row. Sizes are rounded up to 64 bytes, like the
arena's. If a node is in several steps, the one that needs least counts.

A plan can need more for two reasons: memory that no ONNX node names (workspace, operands in another layout, partial sums), or waste.
`explain` prints both sides of the fullest step.
"""
import math

import numpy
import onnx
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

VIEWS = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Expand", "Dropout",
         "Concat"}
# ELEMENTWISE: each element of the result depends only on the same element of an operand with the same shape. ROWWISE: on its row.
ELEMENTWISE = {"Abs", "Add", "And", "Cast", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Gelu", "IsNaN", "Less", "LessOrEqual",
               "GreaterOrEqual", "Log", "Max", "Min", "Mul", "Neg", "Not", "Pow", "Reciprocal", "Relu", "Sigmoid", "Sin", "Sqrt",
               "Sub", "Tanh", "Where"}
ROWWISE = {"Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "ReduceMean", "InstanceNormalization",
           "GroupNormalization"}
ALIGNMENT = 64
MOST_FOLDED = 1 << 16  # elements


def rounded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT


# ------------------------------------------------------------------------------------------------ constants and shapes


def fold_constants(model):
    """Small constants by name, including those computed from other constants."""
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer
             if t.data_location != onnx.TensorProto.EXTERNAL and math.prod(t.dims) <= MOST_FOLDED}
    constant = {t.name for t in model.graph.initializer}
    opsets = list(model.opset_import)
    for node in model.graph.node:
        inputs = [i for i in node.input if i]
        if node.op_type != "Constant" and not (inputs and all(i in constant for i in inputs)):
            continue
        constant.update(node.output)
        if not all(i in known for i in inputs):
            continue
        graph = helper.make_graph([node], "one", [helper.make_empty_tensor_value_info(i) for i in set(inputs)],
                                  [helper.make_empty_tensor_value_info(o) for o in node.output if o])
        evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))
        try:
            made = evaluator.run(None, {i: known[i] for i in set(inputs)})
        except ValueError:  # the evaluator's GatherElements lacks some shapes; no later shape depends on such values
            continue
        known.update({o: v for o, v in zip([o for o in node.output if o], made) if numpy.size(v) <= MOST_FOLDED})
    return known, constant


def sizes_of(model, known):
    """Bytes of each value. Known constants also give the shapes that nodes compute."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    there = {t.name for t in copy.graph.initializer}
    made = {name: value for name, value in known.items() if name not in there}
    rest = [n for n in copy.graph.node if not any(o in made for o in n.output)]
    del copy.graph.node[:]
    copy.graph.node.extend(rest)
    copy.graph.initializer.extend(numpy_helper.from_array(numpy.asarray(v), n) for n, v in made.items())
    copy = shape_inference.infer_shapes(copy, data_prop=True, strict_mode=True)
    sizes = {}
    for value in [*copy.graph.value_info, *copy.graph.input, *copy.graph.output]:
        kind = value.type.tensor_type
        if not kind.HasField("shape") or any(d.WhichOneof("value") != "dim_value" for d in kind.shape.dim):
            continue
        width = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
        sizes[value.name] = width * math.prod(d.dim_value for d in kind.shape.dim)
    return sizes


# ------------------------------------------------------------------------------------------------ the graph in steps


class Graph:
    """An ONNX graph whose nodes know the steps that compute them. `steps`: a list of lists of node names; `states`: names of
    inputs and outputs."""

    def __init__(self, model, steps, states):
        self.nodes, self.states = list(model.graph.node), set(states)
        self.known, self.constant = fold_constants(model)
        self.sizes = sizes_of(model, self.known)
        self.steps = steps
        self.inputs = [i.name for i in model.graph.input if i.name not in self.constant]
        self.outputs = [o.name for o in model.graph.output]
        self.where = {}
        for number, names in enumerate(steps):
            for name in names:
                self.where.setdefault(name, set()).add(number)
        self.at, self.producer, same = {}, {}, {}
        for index, node in enumerate(self.nodes):
            self.at[index] = self.where.get(node.name or node.output[0], set())
            # The compiler keeps one of several equal nodes; the others are views of it.
            inputs = [self.alias(i) for i in node.input]
            key = (node.op_type, tuple(inputs), tuple(sorted(a.SerializeToString() for a in node.attribute)))
            first = same.setdefault(key, index)
            for place, output in enumerate(node.output):
                if first != index and not self.at[index]:
                    self.producer[output] = ("same", self.nodes[first].output[place])
                else:
                    self.producer[output] = ("node", index)
        self.memory = {}  # results of reads()

    def alias(self, value):
        while self.producer.get(value, ("", ""))[0] == "same":
            value = self.producer[value][1]
        return value

    def steps_of(self, root):
        return {-1} if root in self.inputs else self.at[self.producer[root][1]]

    def reads(self, value):
        """The memory behind `value`: {(root, piece of it): bytes}, where the root is an input or a value that a step computes."""
        value = self.alias(value)
        if value in self.memory:
            return self.memory[value]
        self.memory[value] = found = {}
        if not value or value in self.constant:
            return found
        size = self.sizes[value]
        if value in self.inputs:
            found[value, value] = size
            return found
        node = self.nodes[self.producer[value][1]]
        if self.at[self.producer[value][1]] and node.op_type not in VIEWS:
            found[value, value] = size
            return found
        operands = node.input if node.op_type == "Concat" or node.op_type not in VIEWS else node.input[:1]
        for operand in operands:
            for (root, piece), part in self.reads(operand).items():
                smaller = size < part
                key = (root, value if smaller else piece)
                found[key] = max(found.get(key, 0), min(size, part))
        return found

    def lives(self):
        """{root: [(first step, last step, piece, bytes)]}"""
        free = {root for name in self.outputs if name in self.states for root, _ in self.reads(name)}
        free.update(name for name in self.inputs if name in self.states)
        lives = {}

        def add(root, piece, size, first, last):
            if root not in free:
                lives.setdefault(root, []).append((first, last, piece, size))

        for index, node in enumerate(self.nodes):
            if node.op_type in VIEWS or not self.at[index]:
                continue
            for operand in node.input:
                for (root, piece), size in self.reads(operand).items():
                    made = self.steps_of(root)
                    later = [s for s in self.at[index] if s > min(made)]
                    if made & self.at[index] or not later:
                        continue
                    last = min(later)
                    add(root, piece, size, max(m for m in made if m < last), last)
        end = len(self.steps) - 1
        for name in self.outputs:
            if name in self.states:
                continue
            roots = self.reads(name)
            if len(roots) == 1 and next(iter(roots))[0] not in self.inputs:
                (root, _), = roots
                add(root, root, self.sizes[name], max(self.steps_of(root)), end)
            else:
                add(name, name, self.sizes[name], end, end)
        return lives


# --------------------------------------------------------------------------------------------------------- the bound


def shared(graph, step, born, dying):
    """Bytes that values of `born` can take over from values of `dying`; both are {value: bytes}."""
    options = {}
    for value, size in born.items():
        ahead, seen, options[value] = [value], set(), []
        while ahead:
            at = ahead.pop()
            if at in seen or at not in graph.producer:
                continue
            seen.add(at)
            node = graph.nodes[graph.producer[at][1]] if graph.producer[at][0] == "node" else None
            inside = node is not None and (step in graph.at[graph.producer[at][1]] or not graph.at[graph.producer[at][1]])
            if not inside or node.op_type not in ELEMENTWISE | ROWWISE | VIEWS:
                continue
            for operand in node.input:
                ahead.append(graph.alias(operand))
                options[value] += [r for r, _ in graph.reads(operand) if dying.get(r, 0) >= size and r != value]
    taken = {}

    def place(value, tried):
        for root in options[value]:
            if root in tried:
                continue
            tried.add(root)
            if root not in taken or place(taken[root], tried):
                taken[root] = value
                return True
        return False

    return sum(rounded(size) for value, size in sorted(born.items(), key=lambda b: -b[1]) if place(value, set()))


def live_at(lives, step):
    """{root: bytes} at a step: the sum of its live pieces, at most the whole root."""
    live = {}
    for root, pieces in lives.items():
        now = {piece: size for first, last, piece, size in pieces if first <= step <= last}
        if now:
            live[root] = (sum(now.values()), max(size for *_, size in pieces))
    return {root: min(total, whole) for root, (total, whole) in live.items()}


def lower_bound(graph):
    """Returns (bytes, the fullest step, {root: bytes} there, bytes shared there)."""
    lives = graph.lives()
    first = {root: min(p[0] for p in pieces) for root, pieces in lives.items()}
    last = {root: max(p[1] for p in pieces) for root, pieces in lives.items()}
    best = (0, 0, {}, 0)
    for step in range(len(graph.steps)):
        live = live_at(lives, step)
        born = {r: size for r, size in live.items() if first[r] == step}
        dying = {r: size for r, size in live.items() if last[r] == step and first[r] < step}
        saved = shared(graph, step, born, dying)
        total = sum(rounded(size) for size in live.values()) - saved
        if total > best[0]:
            best = (total, step, live, saved)
    return best
