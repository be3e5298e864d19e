"""Decoders of one layer that compute with the number of cached positions in every way in which a model could. Each function returns
an ONNX model with open dimensions, like those of decoder_models.py."""
import numpy as np
from onnx import TensorProto, helper

from decoder_models import FLOAT, GROUPS, HEADS, HIDDEN, INT64, MICROSOFT, MOST, SIZE, WORDS, Model, causal, joined_layer

INT32, BOOL = TensorProto.INT32, TensorProto.BOOL
EDGE = 9  # positions: more than in the prompt, fewer than at the end
FORMS = {
    "mask": "GroupQueryAttention, the length is the mask's",
    "shapes": "GroupQueryAttention without a mask, the length is the cache's",
    "lengths": "GroupQueryAttention with inputs seqlens_k and total_sequence_length",
    "bias": "GroupQueryAttention with an input attention_bias of four dims",
    "joined": "caches that are joined, without a mask",
    "scores": "the same, what is decided is a factor of the scores",
}


class Lengths(Model):
    """`past` and `total` [1] come from shapes; `mask` is an input or ""."""

    def __init__(self, form):
        super().__init__(21)
        self.form, self.stage = form, 0
        joined = form in ("joined", "scores")
        both = "past_sequence_length + sequence_length" if joined else "total_sequence_length"
        self.input("input_ids", INT64, "batch_size", "sequence_length")
        for part in ("key", "value"):
            self.input(f"past_key_values.0.{part}", FLOAT, "batch_size", GROUPS, "past_sequence_length", SIZE)
            self.output(f"present.0.{part}", FLOAT, "batch_size", GROUPS, both, SIZE)
        self.mask = ""
        rows = self.dim("input_ids", 1)
        self.past = self.dim("past_key_values.0.key", 2)
        self.total = self.op("Add", self.past, rows)
        if form == "mask":
            self.mask = self.input("attention_mask", INT64, "batch_size", both)
            self.total = self.dim(self.mask, 1)
            self.past = self.op("Sub", self.total, rows)
        if form == "bias":
            self.input("attention_bias", FLOAT, "batch_size", 1, "sequence_length", both)
            self.total = self.dim("attention_bias", 3)
            self.past = self.op("Sub", self.total, rows)
        if form == "lengths":
            self.input("seqlens_k", INT32, "batch_size")
            self.input("total_sequence_length", INT32)

    # ------------------------------------------------------------------------------ words

    def number(self, value):
        return self.weight(np.array(value, np.int64))

    def scalar(self, x):
        return self.op("Squeeze", x)

    def real(self, x):
        return self.op("Cast", x, to=FLOAT)

    def whole(self, x):
        return self.op("Cast", x, to=INT64)

    def range(self, first=None, last=None):
        return self.op("Range", self.scalar(first) if first else self.number(0), self.scalar(last or self.total),
                       self.number(1))

    def sum(self, x):
        return self.op("ReduceSum", x, keepdims=0)

    def at(self, x, place):
        return self.op("Gather", x, self.number(place), axis=0)

    def slice(self, x, start, end, axis, step=1):
        start, end = (self.ints(i) if isinstance(i, int) else i for i in (start, end))
        return self.op("Slice", x, start, end, self.ints(axis), self.ints(step))

    def branch(self, name, kind, *inputs, value=None, **more):
        """A graph of one node, or of a constant."""
        nodes = [] if value is None else [helper.make_node("Constant", [], [f"{name}_c"], value=helper.make_tensor(
            f"{name}_v", INT64, [1], [value]))]
        inputs = list(inputs) + ([] if value is None else [f"{name}_c"])
        nodes.append(helper.make_node(kind, inputs, [f"{name}_o"], **more))
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_o", INT64, [1])])

    def choice(self, condition, yes, no):
        name = f"if{len(self.nodes)}"
        return self.op("If", condition, then_branch=self.branch(name + "_yes", *yes[:-1], value=yes[-1]),
                       else_branch=self.branch(name + "_no", *no[:-1], value=no[-1]))

    # ------------------------------------------------------------------------------ the model

    def finished(self, decide, of_scores=False):
        if of_scores:
            return self.with_logits(self.attended(lambda scores: self.op("Mul", scores, self.factor(decide))))
        y = self.attended()
        return self.with_logits(self.op("Mul", y, self.factor(decide)))

    def factor(self, decide):
        return self.op("Add", self.op("Sin", self.real(decide(self))), self.weight(np.array(1.5, np.float32)))

    def attended(self, scale=lambda scores: scores):
        x = self.op("Gather", self.numbers(WORDS, HIDDEN, scale=1), "input_ids")
        y = self.norm(x)
        if self.form in ("joined", "scores"):
            y = joined_layer(self, y, causal(self, self.past, self.total), scale=scale)
        else:
            y = self.grouped(y)
        return self.op("Add", x, self.product(HEADS * SIZE, HIDDEN, y))

    def with_logits(self, y):
        self.nodes.append(helper.make_node("MatMul", [y, self.numbers(HIDDEN, WORDS)], ["logits"], name="/logits"))
        self.output("logits", FLOAT, "batch_size", "sequence_length", WORDS)
        return self.build()

    def showing(self, show):
        """The model with an output that has an element for every position, in its last dim."""
        y = self.attended()
        self.nodes.append(helper.make_node("Cast", [show(self)], ["shown"], to=FLOAT, name="/shown"))
        self.outputs.append(helper.make_empty_tensor_value_info("shown"))
        self.outputs[-1].type.tensor_type.elem_type = FLOAT
        return self.with_logits(y)

    def grouped(self, y):
        qkv = self.product(HIDDEN, (HEADS + 2 * GROUPS) * SIZE, y)
        if self.form == "lengths":
            last, total = "seqlens_k", "total_sequence_length"
        else:
            total = self.op("Cast", self.scalar(self.total), to=INT32)
            if self.mask:
                each = self.op("ReduceSum", self.mask, self.ints(1), keepdims=0)
            else:
                each = self.op("Expand", self.total, self.dim("input_ids", 0))
            last = self.op("Cast", self.op("Sub", each, self.number(1)), to=INT32)
        names = [qkv, "", "", "past_key_values.0.key", "past_key_values.0.value", last, total]
        names += ["", "", "", "attention_bias"] if self.form == "bias" else []
        shown = {"qk_output": self.stage} if self.stage else {}
        return self.op("GroupQueryAttention", *names, domain=MICROSOFT, num_heads=HEADS, kv_num_heads=GROUPS, **shown,
                       outputs=["attended", "present.0.key", "present.0.value"] + ["scores"] * bool(shown))[0]


def _more(m, edge=EDGE):
    return m.op("Greater", m.total, m.ints(edge))


def _early(m, edge=EDGE):
    return m.whole(m.op("Less", m.range(), m.ints(edge)))


def _few(m):
    return m.slice(m.weight(np.r_[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, [0] * 60]), 0, m.total, 0)


def _late(m):
    return m.whole(m.op("Greater", m.range(), m.op("Sub", m.total, m.ints(EDGE))))


def _table(m, size=MOST):
    return m.weight(m.random.integers(0, 50, size))


def _loop(m, trips, keep="true"):
    """The sum of the round numbers."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["sum", "i"], ["more"])], "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", BOOL, []),
         helper.make_tensor_value_info("sum", INT64, [])],
        [helper.make_tensor_value_info("on", BOOL, []), helper.make_tensor_value_info("more", INT64, [])])
    return m.op("Loop", trips, m.weight(np.array(True)), m.number(0), body=body)


# Values computed from the number of positions: one number, or one for each of the run's rows.
DECISIONS = {
    "the number": lambda m: m.total,
    "cached ones": lambda m: m.past,
    "greater": lambda m: _more(m),
    "less, as floats": lambda m: m.op("Less", m.real(m.total), m.weight(np.array([EDGE + .5], np.float32))),
    "equal": lambda m: m.op("Equal", m.total, m.ints(EDGE)),
    "anything cached": lambda m: m.op("Cast", m.past, to=BOOL),
    "between": lambda m: m.op("And", _more(m), m.op("Not", _more(m, EDGE + 4))),
    "either": lambda m: m.op("Xor", _more(m), _more(m, EDGE + 4)),
    "least": lambda m: m.op("Min", m.total, m.ints(EDGE)),
    "greatest": lambda m: m.op("Max", m.total, m.ints(EDGE)),
    "clipped": lambda m: m.op("Clip", m.total, m.number(7), m.number(EDGE)),
    "divided": lambda m: m.op("Div", m.total, m.ints(4)),
    "remainder": lambda m: m.op("Mod", m.total, m.ints(5)),
    "apart": lambda m: m.op("Abs", m.op("Sub", m.total, m.ints(EDGE))),
    "sign": lambda m: m.op("Sign", m.op("Sub", m.total, m.ints(EDGE))),
    "square": lambda m: m.op("Mul", m.total, m.total),
    "power": lambda m: m.op("Pow", m.real(m.total), m.weight(np.array(.5, np.float32))),
    "root": lambda m: m.op("Sqrt", m.real(m.total)),
    "logarithm": lambda m: m.op("Log", m.real(m.total)),
    "reciprocal": lambda m: m.op("Mul", m.op("Reciprocal", m.real(m.total)), m.weight(np.array(9, np.float32))),
    "rounded": lambda m: m.op("Ceil", m.op("Div", m.real(m.total), m.weight(np.array(4, np.float32)))),
    "shifted": lambda m: m.op("BitShift", m.op("Cast", m.total, to=TensorProto.UINT64),
                              m.weight(np.array([2], np.uint64)), direction="RIGHT"),
    "bits": lambda m: m.op("BitwiseAnd", m.total, m.ints(6)),
    "chosen": lambda m: m.op("Where", _more(m), m.total, m.ints(3)),
    "of a table": lambda m: m.op("Gather", _table(m), m.total),
    "of a table's end": lambda m: m.op("Gather", _table(m), m.op("Neg", m.total)),
    "elements of a table": lambda m: m.op("GatherElements", _table(m), m.total),
    "of a table, by GatherND": lambda m: m.op("GatherND", _table(m), m.op("Unsqueeze", m.total, m.ints(0))),
    "one of a table": lambda m: m.slice(_table(m), m.past, m.op("Add", m.past, m.ints(1)), 0),
    "some of a table": lambda m: m.sum(m.slice(_table(m), m.past, m.total, 0)),
    "few of a table": lambda m: m.sum(m.slice(m.weight(np.r_[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, [7] * 60]), m.past, m.op(
        "Add", m.past, m.ints(2)), 0)),
    "a table's part": lambda m: m.sum(m.slice(_table(m), 0, m.total, 0)),
    "a table's last part": lambda m: m.sum(m.slice(_table(m), m.op("Neg", m.total), 2 ** 62, 0)),
    "put into a table": lambda m: m.sum(m.op("Mul", m.weight(np.arange(MOST)), m.op(
        "ScatterElements", m.weight(np.zeros(MOST, np.int64)), m.total, m.ints(1)))),
    "one of many": lambda m: m.sum(m.op("Mul", m.weight(np.arange(MOST)), m.op(
        "OneHot", m.total, m.number(MOST), m.ints(0, 2)))),
    "a branch": lambda m: m.choice(_more(m), ("Neg", 3), ("Neg", 5)),
    "a branch that computes": lambda m: m.choice(_more(m), ("Sub", m.total, 3), ("Add", m.past, 5)),
    "the size of a cache": lambda m: m.op("Size", "past_key_values.0.key"),
    "what comes out": lambda m: m.dim("present.0.key", 2),
    "what comes out, transposed": lambda m: m.dim(m.op("Transpose", "present.0.value", perm=[2, 0, 1, 3]), 0),
    "what comes out, in one": lambda m: m.dim(m.op("Reshape", "present.0.value", m.ints(0, 0, -1)), 2),
    "a part of a shape": lambda m: m.op("Shape", "past_key_values.0.value", start=2, end=3),
    "a shape of another type": lambda m: m.dim(m.op("Cast", "past_key_values.0.key", to=TensorProto.DOUBLE), 2),
    "a product's shape": lambda m: m.dim(m.op("MatMul", "present.0.key", m.numbers(SIZE, 3)), 2),
    "a list": lambda m: m.op("ReduceMax", m.op("Concat", m.total, m.ints(EDGE), axis=0), keepdims=0),
    "a list's product": lambda m: m.op("ReduceProd", m.op("Concat", m.total, m.ints(2), axis=0), keepdims=0),
    "a list, sorted": lambda m: m.at(m.op("TopK", m.op("Concat", m.total, m.ints(EDGE), axis=0), m.ints(1), outputs=2)[0], 0),
    "a sum of mixed": lambda m: m.op("Sum", m.real(m.total), m.real(m.past)),
    "range, sum": lambda m: m.sum(m.range()),
    "range, greatest": lambda m: m.op("ReduceMax", m.range(), keepdims=0),
    "range, mean": lambda m: m.op("ReduceMean", m.real(m.range()), keepdims=0),
    "range, last": lambda m: m.op("Gather", m.range(), m.number(-1)),
    "range, last by Slice": lambda m: m.slice(m.range(), -1, 2 ** 62, 0),
    "range, first three": lambda m: m.sum(m.slice(m.range(), 0, 3, 0)),
    "range, last three": lambda m: m.sum(m.slice(m.range(), -3, 2 ** 62, 0)),
    "range, turned": lambda m: m.at(m.slice(m.range(), -1, -2 ** 62, 0, -1), 0),
    "range, summed up": lambda m: m.op("Gather", m.op("CumSum", m.range(), m.number(0)), m.number(-1)),
    "range, where the greatest is": lambda m: m.op("ArgMax", m.range(), axis=0),
    "range, TopK": lambda m: m.op("TopK", m.range(), m.ints(1), outputs=2)[0],
    "range, product": lambda m: m.op("MatMul", m.real(m.range()), m.real(m.range())),
    "range, Einsum": lambda m: m.op("Einsum", m.real(m.range()), equation="i->"),
    "range, softmax": lambda m: m.op("Gather", m.op("Softmax", m.real(m.range()), axis=0), m.number(-1)),
    "range of new ones": lambda m: m.op("Unsqueeze", m.range(m.past), m.ints(1)),
    "range of new ones, sum": lambda m: m.sum(m.range(m.past)),
    "range of the last five": lambda m: m.sum(m.range(m.op("Sub", m.total, m.ints(5)))),
    "range from three on": lambda m: m.sum(m.range(m.ints(3))),
    "range, counted by a window": lambda m: m.sum(m.whole(m.op("Less", m.range(), m.op("Sub", m.total, m.ints(4))))),
    "range, those that are even": lambda m: m.sum(m.op("Mod", m.range(), m.ints(2))),
    "positions' rows": lambda m: m.op("Unsqueeze", m.op("Gather", _table(m), m.range(m.past)), m.ints(1)),
    # Elements are the same at every length, but they are read at moving positions.
    "early ones, of the new": lambda m: m.op("Unsqueeze", m.slice(_early(m), m.past, m.total, 0), m.ints(1)),
    "early ones, last": lambda m: m.op("Gather", _early(m), m.number(-1)),
    "early ones, last by Slice": lambda m: m.slice(_early(m), -1, 2 ** 62, 0),
    "early ones, last by GatherND": lambda m: m.op("GatherND", _early(m), m.ints(-1)),
    "early ones, last element": lambda m: m.op("GatherElements", _early(m), m.ints(-1)),
    "early ones, turned": lambda m: m.at(m.slice(_early(m), -1, -2 ** 62, 0, -1), 0),
    "early ones, split": lambda m: m.op("Unsqueeze", m.op("Split", _early(m), m.op(
        "Concat", m.past, m.dim("input_ids", 1), axis=0), axis=0, outputs=2)[1], m.ints(1)),
    "early ones, joined": lambda m: m.op("Gather", m.op("Concat", m.whole(m.op("Less", m.range(last=m.past), m.ints(
        EDGE))), m.op("Mul", m.range(m.past), m.ints(0)), axis=0), m.number(3)),
    "a table, padded in front": lambda m: m.sum(m.slice(m.op("Pad", m.weight(np.arange(5)), m.op(
        "Concat", m.past, m.ints(40), axis=0)), 8, 12, 0)),
    "early ones, filled up": lambda m: m.sum(m.op("Mul", m.weight(np.arange(60)), m.op("Pad", m.op("Add", _early(m), m.ints(
        1)), m.op("Concat", m.ints(0), m.op("Sub", m.ints(60), m.total), axis=0)))),
    "early ones, tiled": lambda m: m.slice(m.op("Tile", _early(m), m.ints(2)), m.total, m.op("Add", m.total, m.ints(1)), 0),
    "early ones, two in one": lambda m: m.at(m.slice(m.op("Reshape", m.op("Concat", m.op("Unsqueeze", _early(m), m.ints(
        0)), m.op("Unsqueeze", m.range(), m.ints(0)), axis=0), m.ints(-1)), -1, -2 ** 62, 0, -1), 0),
    "early ones, below a diagonal": lambda m: m.at(m.op("ReduceMax", m.op("Trilu", m.op("Expand", m.op(
        "Unsqueeze", _early(m), m.ints(0)), m.op("Concat", m.ints(2), m.total, axis=0)), m.scalar(m.past), upper=1),
        m.ints(0), keepdims=0), 4),
    "a table's part, its end": lambda m: m.op("Gather", m.op("Add", _few(m), m.ints(1)), m.number(-1)),
    "a table's part, new ones": lambda m: m.op("Unsqueeze", m.op("Mul", m.slice(_few(m), m.past, m.total, 0), m.ints(3)), m.ints(1)),
    "a table's part, split": lambda m: m.op("Unsqueeze", m.op("Add", m.op("Split", _few(m), m.op(
        "Concat", m.past, m.dim("input_ids", 1), axis=0), axis=0, outputs=2)[1], m.ints(1)), m.ints(1)),
    "a table's part, a sequence": lambda m: m.op("Unsqueeze", m.op("Add", m.op("SequenceAt", m.op("SplitToSequence", _few(
        m), m.op("Concat", m.past, m.dim("input_ids", 1), axis=0), axis=0), m.number(1)), m.ints(1)), m.ints(1)),
    "a table's part, joined": lambda m: m.op("Gather", m.op("Concat", m.op("Mul", m.slice(_few(m), 0, m.past, 0), m.ints(
        3)), m.op("Expand", m.ints(0), m.dim("input_ids", 1)), axis=0), m.number(3)),
    "a table's part, filled up": lambda m: m.op("Gather", m.op("Add", m.op("Pad", _few(m), m.op("Concat", m.ints(0), m.op(
        "Sub", m.ints(60), m.total), axis=0)), m.ints(1)), m.number(8)),
    "a table's part, turned and summed up": lambda m: m.op("Gather", m.op("CumSum", _few(m), m.number(0), reverse=1),
                                                           m.number(0)),
    "a table's part, summed up": lambda m: m.op("Gather", m.op("CumSum", _few(m), m.number(0)), m.number(4)),
    "a table's part, greatest": lambda m: m.op("ReduceMax", _few(m), keepdims=0),
    "a table's part, where the greatest is": lambda m: m.op("ArgMax", _few(m), axis=0),
    "a table's part, below a diagonal": lambda m: m.op("ReduceMax", m.slice(m.op("Trilu", m.op("Expand", m.op(
        "Unsqueeze", _few(m), m.ints(0)), m.op("Concat", m.ints(2), m.total, axis=0)), m.scalar(m.past), upper=1), 0, 5, 1),
        keepdims=0),
    "a table's part, two in one": lambda m: m.op("Gather", m.op("Reshape", m.op("Add", m.op("Expand", m.op(
        "Unsqueeze", _few(m), m.ints(0)), m.op("Concat", m.ints(2), m.total, axis=0)), m.ints(1)), m.ints(-1)), m.number(-1)),
    "a table's part, tiled": lambda m: m.op("Gather", m.op("Tile", m.op("Add", _few(m), m.ints(1)), m.ints(2)), m.number(-1)),
    "late ones, first": lambda m: m.op("Gather", _late(m), m.number(0)),
    "late ones, first by Slice": lambda m: m.slice(_late(m), 0, 1, 0),
    "late ones, last": lambda m: m.op("Gather", _late(m), m.number(-1)),
    "late ones, of the new": lambda m: m.op("Unsqueeze", m.slice(_late(m), m.past, m.total, 0), m.ints(1)),
    "the rest by five, last": lambda m: m.op("Gather", m.op("Mod", m.range(), m.ints(5)), m.number(-1)),
    "early rows, of the new": lambda m: m.op("Unsqueeze", m.op("Squeeze", m.slice(m.op("Slice", m.whole(m.op(
        "Less", m.op("Add", m.op("Unsqueeze", m.range(), m.ints(1)), m.op("Unsqueeze", m.range(), m.ints(0))), m.ints(
            2 * EDGE))), m.past, m.total, m.ints(0)), 3, 4, 1), m.ints(1)), m.ints(1)),
    "expanded, sum": lambda m: m.sum(m.op("Expand", m.ints(1), m.total)),
    "expanded, sum of an axis": lambda m: m.op("ReduceSum", m.op("Expand", m.ints(1), m.op(
        "Concat", m.ints(1), m.total, axis=0)), m.ints(1), keepdims=0),
    "expanded, its shape": lambda m: m.dim(m.op("Expand", m.ints(1), m.op("Concat", m.ints(2), m.total, axis=0)), 1),
    "expanded, summed up": lambda m: m.op("Gather", m.op("CumSum", m.op("Expand", m.ints(1), m.total), m.number(0)),
                                          m.number(-1)),
    "expanded, mean": lambda m: m.op("ReduceMean", m.op("Expand", m.weight(np.ones(1, np.float32)), m.total), keepdims=0),
    "filled, sum": lambda m: m.sum(m.op("ConstantOfShape", m.total, value=helper.make_tensor("v", INT64, [1], [1]))),
    "filled, size": lambda m: m.op("Size", m.op("ConstantOfShape", m.op("Concat", m.ints(2), m.total, axis=0))),
    "filled, those that are not 0": lambda m: m.dim(m.op("NonZero", m.op(
        "ConstantOfShape", m.total, value=helper.make_tensor("v", INT64, [1], [1]))), 1),
    "tiled, sum": lambda m: m.sum(m.op("Tile", m.ints(1), m.total)),
    "padded, sum": lambda m: m.sum(m.op("Pad", m.ints(1), m.op("Concat", m.ints(0), m.total, axis=0), m.number(1))),
    "a triangle, sum": lambda m: m.sum(m.op("Trilu", m.op("Expand", m.weight(np.ones((1, 1), np.float32)), m.op(
        "Concat", m.total, m.total, axis=0)), upper=0)),
    "a diagonal, sum": lambda m: m.sum(m.op("EyeLike", m.op("ConstantOfShape", m.op("Concat", m.total, m.total, axis=0)),
                                            dtype=FLOAT)),
    "a loop": lambda m: _loop(m, m.scalar(m.total)),
    "the mask's sum": lambda m: m.op("ReduceSum", m.mask, m.ints(1), keepdims=1),
    "the mask summed up": lambda m: m.slice(m.op("CumSum", m.mask, m.number(1)), -1, 2 ** 62, 1),
    "the mask's last": lambda m: m.slice(m.mask, -1, 2 ** 62, 1),
    "the mask's first three": lambda m: m.op("ReduceSum", m.slice(m.mask, 0, 3, 1), m.ints(1)),
    "the mask's last three": lambda m: m.op("ReduceSum", m.slice(m.mask, -3, 2 ** 62, 1), m.ints(1)),
    "the mask behind the cached": lambda m: m.op("ReduceSum", m.slice(m.mask, m.past, 2 ** 62, 1), m.ints(1)),
    "the mask by position": lambda m: m.op("ReduceSum", m.op("Mul", m.mask, m.range()), m.ints(1)),
    "the mask's greatest position": lambda m: m.op("ReduceMax", m.op("Mul", m.mask, m.range()), m.ints(1)),
    "positions of the mask": lambda m: m.op("Unsqueeze", m.slice(m.op("Sub", m.op("CumSum", m.mask, m.number(1)), m.ints(1)),
                                                                 m.op("Neg", m.dim("input_ids", 1)), 2 ** 62, 1), m.ints(2)),
    "a mask's shape, cut": lambda m: m.dim(m.slice(m.mask, 1, 2 ** 62, 1), 1),
    "a mask's parts not 0": lambda m: m.dim(m.op("NonZero", m.mask), 1),
    "the bias's sum": lambda m: m.sum(m.bias),
    "the bias's greatest": lambda m: m.op("ReduceMax", m.bias, keepdims=0),
    "a cache's sum": lambda m: m.sum("present.0.key"),
    "a cache's greatest": lambda m: m.op("ReduceMax", "past_key_values.0.key", keepdims=0),
    "a cache's last row": lambda m: m.sum(m.slice("present.0.key", -1, 2 ** 62, 2)),
    "a cache's first row": lambda m: m.sum(m.slice("present.0.key", 0, 1, 2)),
    "a cache's new rows": lambda m: m.sum(m.slice("present.0.key", m.past, 2 ** 62, 2)),
    "a cache's row": lambda m: m.sum(m.op("Gather", "present.0.value", m.past, axis=2)),
}


def _has(form, decision):
    """Whether the form has what the decision needs."""
    return {"the mask": form == "mask", "a mask's": form == "mask", "positions of the mask": form == "mask",
            "the bias": form == "bias"}.get(next((s for s in ("the mask", "a mask's", "positions of the mask", "the bias")
                                                  if decision.startswith(s)), ""), True)


def _build(form, decision):
    m = Lengths(form)
    m.bias = "attention_bias"
    return m.finished(DECISIONS[decision], form == "scores")


# Outputs beside logits and caches.
OUTPUTS = {
    "positions": lambda m: m.range(),
    "positions from the end": lambda m: m.op("Sub", m.total, m.range()),
    "early ones": _early,
    "late ones": _late,
    "rows of a table": lambda m: m.op("Gather", _table(m), m.range(), axis=0),
    "the first of a table": _few,
    "the last of a table": lambda m: m.slice(_table(m), m.op("Neg", m.total), 2 ** 62, 0),
    "positions summed up": lambda m: m.op("CumSum", m.range(), m.number(0)),
    "a square": lambda m: m.op("LessOrEqual", m.op("Unsqueeze", m.range(), m.ints(0)),
                               m.op("Unsqueeze", m.range(m.past), m.ints(1))),
    "cached ones": lambda m: m.range(last=m.past),
    "one more": lambda m: m.range(last=m.op("Add", m.total, m.ints(1))),
    "sorted": lambda m: m.op("TopK", m.range(), m.total, outputs=2)[0],
    "backwards": lambda m: m.slice(m.range(), -1, -2 ** 62, 0, -1),
    "the mask": lambda m: m.mask,
    "the mask summed up": lambda m: m.op("CumSum", m.mask, m.number(1)),
    "the mask turned": lambda m: m.op("Equal", m.mask, m.number(0)),
    "the bias": lambda m: m.bias,
    "features of keys": lambda m: m.op("Transpose", "present.0.key", perm=[0, 1, 3, 2]),
    "lengths of keys": lambda m: m.op("ReduceL2", "present.0.key", m.ints(3), keepdims=0),
    "products of keys": lambda m: m.op("MatMul", m.numbers(3, SIZE), m.op("Transpose", "present.0.key", perm=[0, 1, 3, 2])),
    "products of keys, softmax": lambda m: m.op("Softmax", m.op(
        "MatMul", m.numbers(3, SIZE), m.op("Transpose", "present.0.key", perm=[0, 1, 3, 2])), axis=-1),
    "products of keys, softmax over heads": lambda m: m.op("Softmax", m.op(
        "MatMul", m.numbers(3, SIZE), m.op("Transpose", "present.0.key", perm=[0, 1, 3, 2])), axis=1),
    "products of keys, the greatest": lambda m: m.op("Sub", m.real(m.range()), m.op("ReduceMax", m.op(
        "MatMul", m.numbers(3, SIZE), m.op("Transpose", "present.0.key", perm=[0, 1, 3, 2])), m.ints(3), keepdims=1)),
    "products of keys and values": lambda m: m.op("MatMul", "present.0.key", m.op(
        "Transpose", "present.0.value", perm=[0, 1, 3, 2])),
    "scores": lambda m: "scores",
    "their softmax": lambda m: "scores",
}


def _shows(form, name):
    if name in ("scores", "their softmax"):
        return form not in ("joined", "scores")
    return form != "scores" and _has(form, name)


def _showing(form, name):
    m = Lengths(form)
    m.bias = "attention_bias"
    m.stage = {"scores": 1, "their softmax": 2}.get(name, 0)
    return m.showing(OUTPUTS[name])


# Decisions that scale all scores.
SCALES = ("the number", "logarithm", "root", "chosen", "of a table", "a branch", "one of a table")
ALL = {f"{form}: {decision}": lambda form=form, decision=decision: _build(form, decision)
       for form in FORMS for decision in (SCALES if form == "scores" else DECISIONS) if _has(form, decision)}
ALL |= {f"{form}: shown, {name}": lambda form=form, name=name: _showing(form, name)
        for form in FORMS for name in OUTPUTS if _shows(form, name)}
