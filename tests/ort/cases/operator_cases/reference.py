"""Operators of ai.onnx with every attribute at a value other than its default, for attribute_cases.py.

CASES: by name, what makes a Case of some nodes; the values are ONNX's reference evaluator's.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .nodes import Nodes, binary, graph, simple


def reduction(name):
    def make():
        n = Nodes(name, 18)
        x, axes = n.positive(2, 3, 4), n.known([1, -1])
        n.node(x, axes, keepdims=0)
        n.node(x, axes, keepdims=1)
        n.node(x, keepdims=0)
        n.node(x, noop_with_empty_axes=1)
        return n.case
    return make


def reduction_by_attribute(name, opset):
    def make():
        n = Nodes(name, opset)
        x = n.positive(2, 3, 4)
        n.node(x, axes=[1, -1], keepdims=0)
        return n.case
    return make


def arg(name):
    def make():
        n = Nodes(name, 13)
        x = n.whole(0, 2, (3, 4, 5), np.float32)
        for attributes in ({"axis": 1}, {"axis": -1, "keepdims": 0}, {"axis": 2, "select_last_index": 1}):
            n.node(x, **attributes)
        return n.case
    return make


def windows(name, opset, with_ceil=True, **more):
    def make():
        n = Nodes(name, opset)
        x = n.floats(1, 2, 7, 8)
        for attributes in ({"strides": [2, 3], "pads": [1, 0, 0, 1]}, {"dilations": [2, 1], "strides": [1, 2]},
                           {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
                           {"auto_pad": "VALID", "strides": [3, 2]}, {"ceil_mode": 1, "strides": [3, 3]} if with_ceil else {},
                           *({key: value, "pads": [1, 1, 1, 1], "strides": [2, 2]} for key, value in more.items())):
            if name == "LpPool" and "auto_pad" in attributes:
                attributes = {**attributes, "strides": [1, 1]}
            if name == "AveragePool" and opset < 19:
                attributes.pop("dilations", None)
            n.node(x, kernel_shape=[2, 3] if "auto_pad" not in attributes else [3, 3], **attributes)
        return n.case
    return make


def max_pool_indices():
    n = Nodes("MaxPool", 12)
    x = n.floats(1, 2, 5, 6)
    n.node(x, outputs=2, kernel_shape=[2, 2], strides=[2, 1])
    n.node(x, outputs=2, kernel_shape=[2, 2], storage_order=1)
    return n.case


def convolution():
    n = Nodes("Conv", 11)
    x, w, grouped, bias = n.floats(1, 4, 7, 8), n.floats(6, 4, 3, 2), n.floats(6, 2, 3, 2), n.floats(6)
    for attributes in ({"strides": [2, 3], "pads": [1, 0, 2, 1]}, {"dilations": [2, 3]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
                       {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, {"auto_pad": "VALID"}, {"kernel_shape": [3, 2]}):
        n.node(x, w, bias, **attributes)
    n.node(x, grouped, group=2, pads=[1, 1, 1, 1])
    return n.case


def convolution_of_integers():
    n = Nodes("ConvInteger", 11)
    x, w, grouped = n.whole(0, 255, (1, 4, 7, 8), np.uint8), n.whole(0, 255, (2, 4, 3, 2), np.uint8), n.whole(0, 255, (4, 2, 3, 2), np.uint8)
    zero, of_weights = n.of(np.array(7, np.uint8)), n.known(np.array(3, np.uint8))
    for attributes in ({"strides": [2, 3], "pads": [1, 0, 2, 1]}, {"dilations": [2, 3]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
                       {"kernel_shape": [3, 2]}):
        n.node(x, w, zero, of_weights, **attributes)
    n.node(x, grouped, zero, of_weights, group=2)
    return n.case


def quantised_convolution():
    n = Nodes("QLinearConv", 11)
    x, w, grouped = n.whole(0, 255, (1, 4, 7, 8), np.uint8), n.whole(0, 255, (2, 4, 3, 2), np.uint8), n.whole(0, 255, (4, 2, 3, 2), np.uint8)
    scale, zero = n.known(0.02, np.float32), n.known(120, np.uint8)
    of_w, zero_w = n.known(0.01, np.float32), n.known(130, np.uint8)
    of_y, zero_y = n.known(0.05, np.float32), n.known(128, np.uint8)
    for weights, attributes in ((w, {"strides": [2, 3], "pads": [1, 0, 2, 1]}), (w, {"dilations": [2, 3]}), (w, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
                                (w, {"kernel_shape": [3, 2]}), (grouped, {"group": 2})):
        n.node(x, scale, zero, weights, of_w, zero_w, of_y, zero_y, **attributes)
    return n.case


def transposed_convolution():
    n = Nodes("ConvTranspose", 11)
    x, w, grouped = n.floats(1, 4, 4, 5), n.floats(4, 3, 3, 2), n.floats(4, 3, 3, 2)
    for attributes in ({"strides": [2, 3], "pads": [1, 0, 2, 1]}, {"strides": [3, 2], "output_padding": [1, 1]}, {"dilations": [2, 3]},
                       {"kernel_shape": [3, 2]}, {"strides": [3, 2], "output_shape": [11, 10]},
                       {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, {"strides": [2, 2], "auto_pad": "SAME_LOWER"}):
        n.node(x, w, **attributes)
    n.node(x, grouped, group=2)
    return n.case


def gemm():
    n = Nodes("Gemm", 13)
    a, at, b, bt, c = n.floats(3, 4), n.floats(4, 3), n.floats(4, 5), n.floats(5, 4), n.floats(5)
    n.node(a, b, c, alpha=0.5, beta=2.0)
    n.node(at, bt, c, transA=1, transB=1)
    n.node(at, b, transA=1)
    n.node(a, bt, c, transB=1, beta=0.25)
    return n.case


def resize():
    n = Nodes("Resize", 19)
    x = n.floats(1, 2, 5, 6)
    up, down = n.known([1, 1, 1.6, 2.5], np.float32), n.known([1, 1, 0.6, 0.5], np.float32)
    roi = n.known([0, 0, 0.2, 0.1, 1, 1, 0.8, 1.2], np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for where in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"):
            n.node(x, "", up, mode=mode, coordinate_transformation_mode=where)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        n.node(x, "", down, nearest_mode=rounding)
    n.node(x, "", down, mode="linear", antialias=1)
    n.node(x, "", up, mode="cubic", cubic_coeff_a=-0.5)
    n.node(x, "", up, mode="cubic", exclude_outside=1)
    n.node(x, roi, "", n.known([1, 2, 4, 4]), mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=10.0)
    n.node(x, "", "", n.known([7, 9]), mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger")
    n.node(x, "", "", n.known([7, 9]), axes=[3, 2], keep_aspect_ratio_policy="not_smaller")
    return n.case


def recurrent(name, gates, batch_first=False):
    def make():
        n = Nodes(name, 14)
        steps, batch, size, hidden = 4, 2, 3, 5
        more = {"LSTM": 8, "GRU": 6, "RNN": 2}[name] * hidden
        outputs = 3 if name == "LSTM" else 2
        def weights(directions):
            return [n.floats(directions, gates * hidden, size, scale=0.5), n.floats(directions, gates * hidden, hidden, scale=0.5),
                    n.floats(directions, more, scale=0.5)]
        x, w = n.floats(steps, batch, size), weights(1)
        rows = n.floats(batch, steps, size)
        start = n.floats(1, batch, hidden)
        names = {"LSTM": ["HardSigmoid", "Elu", "Softsign"], "GRU": ["HardSigmoid", "LeakyRelu"], "RNN": ["Affine"]}[name]
        if batch_first:  # ONNX Runtime does not know this layout
            n.node(rows, *w, outputs=outputs, hidden_size=hidden, layout=1)
            return n.case
        n.node(x, *w, "", start, outputs=outputs, hidden_size=hidden, clip=0.3)
        n.node(x, *w, outputs=outputs, hidden_size=hidden, activations=names, activation_alpha=[0.3] * len(names),
               activation_beta=[0.4] * len(names))
        n.node(x, *w, outputs=outputs, hidden_size=hidden, direction="reverse")
        n.node(x, *weights(2), outputs=outputs, hidden_size=hidden, direction="bidirectional")
        if name == "GRU":
            n.node(x, *w, outputs=outputs, hidden_size=hidden, linear_before_reset=1)
        if name == "LSTM":
            n.node(x, *w, outputs=outputs, hidden_size=hidden, input_forget=1)
        return n.case
    return make


def scan():
    n = Nodes("Scan", 16)
    f = TensorProto.FLOAT
    body = graph([helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Mul", ["t", "b"], ["u"]), helper.make_node("Identity", ["t"], ["s2"])],
                 [("s", f, [3]), ("a", f, [3]), ("b", f, [3])], [("s2", f, [3]), ("t", f, [3]), ("u", f, [3])])
    start = n.floats(3)
    # Unrolled, and as a loop.
    for rounds in (2, 3, 5, 20):
        a, b, turned = n.floats(rounds, 3), n.floats(rounds, 3), n.floats(3, rounds)
        n.node(start, a, b, outputs=3, body=body, num_scan_inputs=2, scan_output_directions=[1, 0])
        n.node(start, a, b, outputs=3, body=body, num_scan_inputs=2, scan_input_directions=[0, 1], scan_output_directions=[1, 1])
        n.node(start, turned, b, outputs=3, body=body, num_scan_inputs=2, scan_input_axes=[1, 0], scan_output_axes=[1, -1], scan_output_directions=[1, 1])
    return n.case


def loop():
    n = Nodes("Loop", 16)
    f, i, b = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    body = graph([helper.make_node("Add", ["s", "s"], ["t"]), helper.make_node("Cast", ["i"], ["r"], to=f), helper.make_node("Add", ["t", "r"], ["u"]),
                  helper.make_node("Identity", ["c"], ["c2"])],
                 [("i", i, []), ("c", b, []), ("s", f, [3])], [("c2", b, []), ("t", f, [3]), ("u", f, [3])])
    for rounds in (3, 18):
        n.node(n.known(rounds, np.int64), n.known(True), n.floats(3), outputs=2, body=body)
    return n.case


def branch():
    n = Nodes("If", 16)
    x = n.floats(3)
    out = [("y", TensorProto.FLOAT, [3])]
    yes, no = graph([helper.make_node("Neg", [x], ["y"])], [], out), graph([helper.make_node("Abs", [x], ["y"])], [], out)
    for condition in (n.of(np.array(True)), n.of(np.array(False)), n.known(True), n.known(False)):
        n.node(condition, then_branch=yes, else_branch=no)
    return n.case


def sequences():
    n = Nodes("SequenceConstruct", 21)
    x, y = n.floats(2, 3, 4), n.floats(2, 3, 4)
    both = n.node(x, y, show=False)
    n.node(both, op="ConcatFromSequence", axis=1)
    n.node(both, op="ConcatFromSequence", axis=-1, new_axis=1)
    pieces = n.node(x, op="SplitToSequence", axis=1, keepdims=0, show=False)
    n.node(pieces, n.known(1, np.int64), op="SequenceAt")
    pieces = n.node(x, n.known([1, 2]), op="SplitToSequence", axis=-2, show=False)
    n.node(pieces, n.known(-1, np.int64), op="SequenceAt")
    n.node(pieces, op="SequenceLength")
    fewer = n.node(both, n.known(0, np.int64), op="SequenceErase", show=False)
    n.node(n.node(fewer, x, n.known(0, np.int64), op="SequenceInsert", show=False), n.known(0, np.int64), op="SequenceAt")
    empty = n.node(op="SequenceEmpty", dtype=TensorProto.FLOAT, show=False)
    n.node(n.node(empty, x, op="SequenceInsert", show=False), n.known(0, np.int64), op="SequenceAt")
    return n.case


def constants():
    n = Nodes("Constant", 13)
    n.node(value=numpy_helper.from_array(np.arange(6, dtype=np.int32).reshape(2, 3)))
    n.node(value_float=1.5)
    n.node(value_int=7)
    n.node(value_ints=[3, 4])
    n.node(value_floats=[0.5, -2.0])
    n.node(n.known([2, 3]), op="ConstantOfShape", value=numpy_helper.from_array(np.array([5], np.int64)))
    n.node(n.known([2, 3]), op="ConstantOfShape")
    n.node(n.floats(3, 4), op="EyeLike", k=1)
    n.node(n.floats(3, 4), op="EyeLike", k=-2, dtype=TensorProto.INT64)
    n.node(*(n.known(i, np.int64) for i in (2, 9, 3)), op="Range")
    return n.case


def shapes():
    n = Nodes("Shape", 15)
    x = n.floats(2, 3, 4, 5)
    n.node(x, start=1)
    n.node(x, start=-3, end=-1)
    n.node(x, end=2)
    n.node(x, op="Size")
    return n.case


def spectra():
    n = Nodes("HannWindow", 17)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        n.node(n.known(9, np.int64), op=op, periodic=0)
        n.node(n.known(9, np.int64), op=op, output_datatype=TensorProto.DOUBLE)
    x, z = n.floats(2, 8, 3, 1), n.floats(2, 8, 3, 2)
    n.node(x, op="DFT", axis=2)
    n.node(x, op="DFT", onesided=1)
    n.node(z, op="DFT", inverse=1)
    signal = n.floats(1, 16, 1)
    n.node(signal, n.known(4, np.int64), n.known(np.hanning(8), np.float32), op="STFT", onesided=1)
    n.node(signal, n.known(4, np.int64), n.known(np.hanning(8), np.float32), op="STFT", onesided=0)
    return n.case


def attention():
    n = Nodes("Attention", 24)
    q, k, v, mask = n.floats(2, 4, 3, 8), n.floats(2, 2, 5, 8), n.floats(2, 2, 5, 6), n.floats(3, 5)
    for attributes in ({"scale": 0.3}, {"softcap": 2.0}, {"is_causal": 1}):
        n.node(q, k, v, mask, **attributes)
    for mode in (1, 2, 3):
        n.node(q, k, v, mask, "", "", outputs=4, qk_matmul_output_mode=mode, softcap=2.0)
        n.case.outputs.pop(list(n.case.outputs)[-2]), n.case.outputs.pop(list(n.case.outputs)[-2])
    n.case.opset = 25
    n.node(q, k, v, is_causal=1, left_window_size=1)
    n.node(q, k, v, left_window_size=0, right_window_size=1)
    rows = [n.floats(2, 3, 32), n.floats(2, 5, 16), n.floats(2, 5, 12)]
    n.node(*rows, q_num_heads=4, kv_num_heads=2)
    return n.case


def rotary():
    n = Nodes("RotaryEmbedding", 23)
    x, joined = n.floats(2, 3, 4, 8), n.floats(2, 4, 24)
    cosine, sine, part, part_sine = (n.floats(2, 4, size) for size in (4, 4, 2, 2))
    n.node(x, cosine, sine, interleaved=1)
    n.node(joined, cosine, sine, num_heads=3)
    n.node(x, part, part_sine, rotary_embedding_dim=4)
    return n.case


def quantisation():
    n = Nodes("QuantizeLinear", 21)
    x = n.floats(3, 4, 6, scale=3)
    scale, by_axis = n.known([0.1, 0.2, 0.3, 0.4], np.float32), n.known([0.1, 0.2, 0.3], np.float32)
    blocks = n.known(n.draw.positive(3, 2, 6), None)
    n.node(x, by_axis, axis=0)
    n.node(x, scale, axis=-2)
    n.node(x, scale, output_dtype=TensorProto.INT8)
    n.node(x, blocks, axis=1, block_size=2)
    q = n.whole(0, 255, (3, 4, 6), np.uint8)
    n.node(q, by_axis, op="DequantizeLinear", axis=0)
    n.node(q, blocks, op="DequantizeLinear", axis=1, block_size=2)
    return n.case


def quantisation_to_types():
    n = Nodes("QuantizeLinear", 23)
    x, scale = n.floats(3, 4, scale=300), n.known(0.5, np.float32)
    zero = n.case.constants
    zero.append(helper.make_tensor("fp8", TensorProto.FLOAT8E5M2, [], [0.0]))
    zero.append(helper.make_tensor("fp8b", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    for name in ("fp8", "fp8b"):
        for saturate in (0, 1):
            q = n.node(x, scale, name, saturate=saturate, show=False)
            n.node(q, scale, op="DequantizeLinear")
    q = n.whole(0, 255, (3, 4), np.uint8)
    y = n.node(q, scale, op="DequantizeLinear", output_dtype=TensorProto.FLOAT16, show=False)
    n.node(y, op="Cast", to=TensorProto.FLOAT)
    return n.case


def casts():
    n = Nodes("Cast", 24)
    x = n.floats(3, 4, scale=1000)
    for name, saturate in (("FLOAT8E4M3FN", 0), ("FLOAT8E5M2", 0), ("FLOAT8E4M3FN", 1)):
        n.node(n.node(x, to=getattr(TensorProto, name), saturate=saturate, show=False), to=TensorProto.FLOAT)
    for to in (TensorProto.INT32, TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.DOUBLE):
        n.node(x, to=to)
    small = n.positive(3, 4)
    for rounding in ("up", "down", "nearest"):
        n.node(n.node(small, to=TensorProto.FLOAT8E8M0, round_mode=rounding, show=False), to=TensorProto.FLOAT)
    n.node(x, small, op="CastLike")
    return n.case


def scatter():
    n = Nodes("ScatterElements", 18)
    x, at, updates = n.floats(3, 4, 5), n.known(np.array([[[0, 1, 2, 1, 0]], [[2, 0, 1, 0, 2]]])), n.floats(2, 1, 5)
    n.node(x, at, updates, axis=1)
    n.node(x, at, updates, axis=-1)
    for reduction_ in ("add", "mul", "max", "min"):
        n.node(x, at, updates, axis=1, reduction=reduction_)
        n.node(x, n.known([[0, 1], [2, 3], [0, 1]]), n.floats(3, 5), op="ScatterND", reduction=reduction_)
    n.node(x, n.known([[0, 1], [2, 3]]), n.floats(2, 5), op="ScatterND")
    return n.case


def gathers():
    n = Nodes("Gather", 13)
    x = n.floats(3, 4, 5)
    n.node(x, n.known([[2, -1], [0, 1]]), axis=1)
    n.node(x, n.whole(0, 3, (2, 2)), axis=-2)
    n.node(x, n.whole(0, 3, (3, 2, 5)), op="GatherElements", axis=1)
    n.node(x, n.whole(0, 3, (3, 2, 1)), op="GatherND", batch_dims=1)
    n.node(x, n.known([True, False, True, True]), op="Compress", axis=1)
    n.node(x, n.known([True, False, True]), op="Compress")
    n.node(n.whole(0, 4, (2, 3)), n.known(5, np.int64), n.known([0.5, 2], np.float32), op="OneHot", axis=1)
    lengths = n.known([4, 2, 3])
    n.node(x, lengths, op="ReverseSequence", time_axis=1, batch_axis=0)
    n.node(n.floats(4, 3, 2), lengths, op="ReverseSequence")
    n.node(x, n.known([2]), op="TopK", outputs=2, axis=1, largest=0)
    n.node(x, n.known([2]), op="TopK", outputs=2, axis=0)
    return n.case


def data_sized():
    """Dimensions whose length is known only at run time."""
    n = Nodes("NonZero")
    x, mask = n.floats(4, 6), n.of(np.array([True, False, True, True]))
    found = n.node(mask, show=False)
    places = n.node(found, op="Transpose", perm=[1, 0], show=False)
    rows = n.node(x, n.node(found, n.known([0]), op="Squeeze", show=False), op="Gather", show=False)

    def back(updates, *shape):
        n.node(n.known(np.zeros((4, *shape), np.float32)), places, updates, op="ScatterND")

    back(n.node(rows, n.known([1]), op="ReduceMax", keepdims=0, show=False))
    back(n.node(rows, op="Softmax", axis=1, show=False), 6)
    turned = n.node(rows, op="Transpose", perm=[1, 0], show=False)
    back(n.node(n.node(turned, op="Neg", show=False), op="Transpose", perm=[1, 0], show=False), 6)
    for piece, size in zip(n.node(rows, n.known([2, 4]), op="Split", outputs=2, axis=1, show=False), (2, 4)):
        back(piece, size)
    return n.case


def tensor_scatter():
    n = Nodes("TensorScatter", 24)
    past, new, at = n.floats(2, 3, 6, 4), n.floats(2, 3, 2, 4), n.known([5, 1])
    n.node(past, new, at, mode="circular")
    n.node(n.floats(2, 6, 3, 4), n.floats(2, 2, 3, 4), n.known([1, 3]), axis=1)
    return n.case


def sampling():
    n = Nodes("GridSample", 20)
    x, grid = n.floats(1, 2, 4, 5), n.floats(1, 3, 4, 2)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            n.node(x, grid, mode=mode, padding_mode=padding)
            n.node(x, grid, mode=mode, padding_mode=padding, align_corners=1)
    return n.case


def losses():
    n = Nodes("NegativeLogLikelihoodLoss", 13)
    x, labels, weight = n.floats(3, 4, 2), n.of(np.array([[0, 3], [1, 2], [3, 3]])), n.positive(4)
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        for how in ("none", "sum", "mean"):
            n.node(x, labels, weight, op=op, reduction=how, ignore_index=3)
            n.node(x, labels, op=op, reduction=how)
    return n.case


def norms():
    n = Nodes("LayerNormalization", 17)
    x, scale, bias = n.floats(2, 3, 4), n.floats(3, 4), n.floats(3, 4)
    n.node(x, scale, bias, axis=1, epsilon=0.1)
    channels = [n.floats(3) for _ in range(3)] + [n.positive(3)]
    n.node(x, *channels, op="BatchNormalization", epsilon=0.1, momentum=0.5)
    n.node(x, *channels[:2], op="InstanceNormalization", epsilon=0.1)
    n.node(x, op="LpNormalization", axis=1, p=1)
    n.node(x, op="LpNormalization", axis=0, p=2)
    n.node(x, op="MeanVarianceNormalization", axes=[1, 2])
    n.node(n.floats(1, 5, 2, 2, scale=3), op="LRN", size=3, alpha=0.2, beta=0.5, bias=2.0)
    return n.case


def newer_norms():
    n = Nodes("RMSNormalization", 23)
    n.node(n.floats(2, 3, 4), n.floats(3, 4), axis=1, epsilon=0.1)
    n.node(n.floats(2, 6, 3), n.floats(6), n.floats(6), op="GroupNormalization", num_groups=2, epsilon=0.1)
    return n.case


def movement():
    n = Nodes("Transpose", 19)
    x, image = n.floats(2, 3, 4), n.floats(1, 8, 2, 3)
    n.node(x, perm=[2, 0, 1])
    n.node(x, op="Flatten", axis=2)
    n.node(x, op="Flatten", axis=-3)
    n.node(x, op="Split", outputs=2, axis=2, num_outputs=2)
    n.node(x, n.known([1, 2]), op="Split", outputs=2, axis=1)
    n.node(x, x, op="Concat", axis=-1)
    n.node(image, op="DepthToSpace", blocksize=2, mode="CRD")
    n.node(image, op="DepthToSpace", blocksize=2)
    n.node(n.floats(1, 2, 4, 6), op="SpaceToDepth", blocksize=2)
    n.node(n.of(np.zeros((2, 0, 3), np.float32)), n.known([0, 5]), op="Reshape", allowzero=1)
    n.node(x, n.known(1, np.int64), op="Trilu", upper=0)
    n.node(x, op="Dropout", seed=3)
    n.node(x, n.known([0, 1, 2, 1, 0, 1]), op="Pad", mode="reflect")
    n.node(x, n.known([0, 1, 2, 1, 0, 1]), op="Pad", mode="edge")
    n.node(x, n.known([0, 1, 2, 1, 0, 1]), op="Pad", mode="wrap")
    n.node(n.floats(1, 12, 9), n.known([4, 5]), n.known([2, 2]), op="Col2Im", strides=[2, 2], pads=[1, 0, 1, 1])
    n.node(n.floats(1, 8, 9), n.known([5, 5]), n.known([2, 2]), op="Col2Im", dilations=[2, 2])
    return n.case


def squeezes():
    n = Nodes("Squeeze", 11)
    n.node(n.floats(1, 3, 1, 4), axes=[2])
    n.node(n.floats(3, 4), op="Unsqueeze", axes=[1, 3])
    n.node(n.floats(3, 4), op="Split", outputs=2, axis=1, split=[1, 3])
    return n.case


def pointwise():
    n = Nodes("Mod", 21)
    a, b = n.floats(3, 4, scale=5), n.positive(4)
    n.node(a, b, fmod=1)
    whole = n.whole(0, 9, (3, 4), np.uint8)
    n.node(whole, n.known(2, np.uint8), op="BitShift", direction="LEFT")
    n.node(whole, n.known(2, np.uint8), op="BitShift", direction="RIGHT")
    inf = n.of(np.array([np.inf, -np.inf, 1, np.nan], np.float32))
    n.node(inf, op="IsInf", detect_negative=0)
    n.node(inf, op="IsInf", detect_positive=0)
    n.node(a, b, op="Einsum", equation="ij,j->i")
    n.node(a, b, op="Einsum", equation="ij,j->ji")
    return n.case


def space_to_depth():
    n = Nodes("SpaceToDepth", 28)
    n.node(n.floats(1, 2, 4, 6), blocksize=2, mode="CRD")
    return n.case


def bit_cast():
    n = Nodes("BitCast", 26)
    n.node(n.whole(-9, 9, (3, 4), np.int32), to=TensorProto.UINT32)
    return n.case


def cumulative(name, opset):
    def make():
        n = Nodes(name, opset)
        x, axis = n.floats(2, 5), n.known(1, np.int64)
        for attributes in ({"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
            n.node(x, axis, **attributes)
        return n.case
    return make


def linear_attention():
    n = Nodes("LinearAttention", 27)
    q, k, v, decay, beta = n.floats(2, 5, 8), n.floats(2, 5, 8), n.floats(2, 5, 12), n.floats(2, 5, 2, scale=0.2), n.positive(2, 5, 2)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        n.node(q, k, v, "", decay if "gated" in rule else "", beta if "delta" in rule else "", outputs=2, q_num_heads=2, kv_num_heads=2,
               update_rule=rule, scale=0.3, chunk_size=4)
    x, w = n.floats(2, 3, 7), n.floats(3, 1, 4)
    n.node(x, w, n.floats(3), op="CausalConvWithState", outputs=2, activation="silu")
    return n.case


PLAIN = {
    "LeakyRelu": (16, {"alpha": 0.3}), "Elu": (6, {"alpha": 2.0}), "Selu": (6, {"alpha": 2.0, "gamma": 3.0}), "Celu": (12, {"alpha": 2.0}),
    "ThresholdedRelu": (10, {"alpha": 0.5}), "HardSigmoid": (6, {"alpha": 0.4, "beta": 0.3}), "Swish": (24, {"alpha": 2.0}),
    "Gelu": (20, {"approximate": "tanh"}), "Shrink": (9, {"lambd": 0.8, "bias": 0.3}),
    "Softmax": (13, {"axis": 1}), "LogSoftmax": (13, {"axis": 1}), "Hardmax": (13, {"axis": 1}),
    "GlobalLpPool": (18, {"p": 3}),
}

CASES = {name: simple(name, max(opset, 11), (2, 3, 4, 5), attributes) for name, (opset, attributes) in PLAIN.items()}
CASES.update({f"{name}_11": simple(name, 11, (2, 3, 4), {"axis": 2}, {"axis": -3}, {}) for name in ("Softmax", "LogSoftmax", "Hardmax")})
CASES.update({name: reduction(name) for name in
              ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")})
CASES.update({f"{name}_11": reduction_by_attribute(name, 11) for name in
              ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp")})
CASES.update({name: arg(name) for name in ("ArgMax", "ArgMin")})
CASES.update({
    "SwiGLU": binary("SwiGLU", 28, [lambda d: d.floats(2, 6), lambda d: d.floats(2, 6)], {"alpha": 2.0}),
    "MaxPool": windows("MaxPool", 12), "MaxPool_indices": max_pool_indices,
    "AveragePool": windows("AveragePool", 19, count_include_pad=1), "LpPool": windows("LpPool", 18, p=3),
    "Conv": convolution, "ConvInteger": convolution_of_integers, "QLinearConv": quantised_convolution, "ConvTranspose": transposed_convolution,
    "Gemm": gemm, "Resize": resize, "LSTM": recurrent("LSTM", 4), "GRU": recurrent("GRU", 3), "RNN": recurrent("RNN", 1),
    "LSTM_layout": recurrent("LSTM", 4, True), "GRU_layout": recurrent("GRU", 3, True), "RNN_layout": recurrent("RNN", 1, True),
    "Scan": scan, "Loop": loop, "If": branch, "sequences": sequences, "Constant": constants, "Shape": shapes, "spectra": spectra,
    "Attention": attention, "RotaryEmbedding": rotary, "QuantizeLinear": quantisation, "QuantizeLinear_23": quantisation_to_types,
    "Cast": casts, "ScatterElements": scatter, "gathers": gathers, "data_sized": data_sized, "TensorScatter": tensor_scatter,
    "GridSample": sampling, "losses": losses, "norms": norms, "norms_23": newer_norms, "movement": movement, "Squeeze_11": squeezes,
    "pointwise": pointwise, "BitCast": bit_cast, "SpaceToDepth": space_to_depth, "CumSum": cumulative("CumSum", 14), "CumProd": cumulative("CumProd", 26),
    "LinearAttention": linear_attention,
})
