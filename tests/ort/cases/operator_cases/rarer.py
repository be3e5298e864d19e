"""Operators that few models have, for attribute_cases.py. The values come from the reference evaluator or ONNX Runtime."""
import numpy as np
from onnx import TensorProto, helper

from .nodes import Nodes, refused


def geometry():
    n = Nodes("AffineGrid", 20)
    for theta, size in ((n.floats(2, 2, 3), [2, 3, 4, 5]), (n.floats(2, 3, 4), [2, 1, 2, 3, 4])):
        n.node(theta, n.known(size), align_corners=1)
        n.node(theta, n.known(size))
    x = n.floats(3, 6, 5)
    n.node(x, n.known([4, 8]), op="CenterCropPad", axes=[1, -1])
    n.node(x, n.known([2, 7, 5]), op="CenterCropPad")
    at = n.of(np.array([[[[3, 9], [12, 19]]]]))
    n.node(n.floats(1, 1, 2, 2), at, op="MaxUnpool", kernel_shape=[2, 3], strides=[2, 2])
    n.node(n.floats(1, 1, 2, 2), at, op="MaxUnpool", kernel_shape=[3, 4], strides=[2, 3], pads=[0, 0, 1, 1])
    for rows in (1, 2, 5):
        n.node(n.floats(2, 3, rows, rows), op="Det")
    n.node(n.of(np.array([[0, 2, 1], [3, 0, 0], [0, 0, 5]], np.float32)), op="Det")
    return n.case


def regions():
    n = Nodes("RoiAlign", 16)
    x, batch = n.floats(2, 3, 8, 9), n.of(np.array([1, 0, 1]))
    boxes = n.of(np.array([[0, 0, 6, 5], [2, 3, 15, 14], [1, 1, 3, 12]], np.float32))
    for mode in ("avg", "max"):
        n.node(x, boxes, batch, mode=mode, output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.5)
        n.node(x, boxes, batch, mode=mode, output_height=3, output_width=2, spatial_scale=0.5, coordinate_transformation_mode="output_half_pixel")
    return n.case


def deformed():
    n = Nodes("DeformConv", 19)
    x, w, bias = n.floats(2, 4, 5, 6), n.floats(6, 2, 2, 3), n.floats(6)
    offsets, mask = n.floats(2, 2 * 2 * 3 * 2, 3, 3), n.positive(2, 2 * 2 * 3, 3, 3)
    n.node(x, w, offsets, bias, mask, group=2, offset_group=2, strides=[2, 2], pads=[1, 1, 0, 1])
    n.node(x, n.floats(5, 4, 2, 2), n.floats(2, 8, 3, 4), dilations=[2, 2])
    return n.case


def changed_scores():
    n = Nodes("FlexAttention", 28)

    def graph(op, value, dtype):
        port = [helper.make_tensor_value_info(name, dtype, None) for name in ("s", "t")]
        constant = helper.make_tensor("v", dtype, [], [value])
        return helper.make_graph([helper.make_node(op, ["s", "v"], ["t"])], op, port[:1], port[1:], [constant])

    q, k, v = n.floats(2, 4, 3, 8), n.floats(2, 2, 5, 8), n.floats(2, 2, 5, 6)
    n.node(q, k, v, domain="ai.onnx.preview", scale=0.2, score_mod=graph("Mul", 0.5, TensorProto.FLOAT))
    n.node(q, k, v, domain="ai.onnx.preview", prob_mod=graph("Mul", 2.0, TensorProto.DOUBLE), softmax_precision=TensorProto.DOUBLE)
    return n.case


def numbers_of_ml():
    n = Nodes("Scaler", 21)
    x = n.floats(3, 4)

    def node(op, *inputs, **attributes):
        n.node(*inputs, op=op, domain="ai.onnx.ml", **attributes)

    node("Scaler", x, offset=[0.1, 0.2, 0.3, 0.4], scale=[2.0, 3.0, 4.0, 5.0])
    node("Scaler", x, offset=[0.1], scale=[2.0])
    for norm in ("MAX", "L1", "L2"):
        node("Normalizer", x, norm=norm)
    holes = n.of(np.array([[1, np.nan, 2], [np.nan, 5, -1]], np.float32))
    node("Imputer", holes, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
    node("Imputer", holes, imputed_value_floats=[7.0], replaced_value_float=2.0)
    node("Imputer", n.of(np.array([[1, 2], [2, 3]])), imputed_value_int64s=[8, 9], replaced_value_int64=2)
    node("Binarizer", x, threshold=0.3)
    node("ArrayFeatureExtractor", x, n.known([[2, 0]]))
    labels, floats = n.of(np.array([[1, 4], [2, 9]])), n.of(np.array([0.5, 1.5, 7], np.float32))
    node("LabelEncoder", labels, keys_int64s=[1, 2, 4], values_floats=[0.1, 0.2, 0.4], default_float=-3.0)
    node("LabelEncoder", floats, keys_floats=[0.5, 1.5], values_int64s=[5, 6], default_int64=-9)
    return n.case


def labels_of_tensors():
    n = Nodes("LabelEncoder", 21)
    of = lambda name, kind, values: helper.make_tensor(name, kind, [len(values)], values)
    n.node(n.of(np.array([1, 3, 2])), domain="ai.onnx.ml", keys_tensor=of("k", TensorProto.INT64, [1, 2]),
           values_tensor=of("v", TensorProto.DOUBLE, [0.5, 0.25]), default_tensor=of("d", TensorProto.DOUBLE, [-1.0]))
    return n.case


def ngrams():
    n = Nodes("TfIdfVectorizer", 9)
    one, rows = n.of(np.array([1, 5, 3, 1, 5, 6, 3], np.int32)), n.of(np.array([[1, 5, 6, 3], [5, 3, 1, 5]]))
    pool = {"ngram_counts": [0, 3], "ngram_indexes": [2, 0, 1, 4, 3], "pool_int64s": [1, 5, 3, 1, 5, 5, 3]}
    for x in (one, rows):
        n.node(x, mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1, **pool)
        n.node(x, mode="IDF", min_gram_length=2, max_gram_length=2, max_skip_count=0, weights=[0.1, 0.2, 0.3, 0.4, 0.5], **pool)
        n.node(x, mode="TFIDF", min_gram_length=1, max_gram_length=1, max_skip_count=0, weights=[0.1, 0.2, 0.3, 0.4, 0.5], **pool)
    return n.case


def training():
    """Training modes whose results do not depend on chance."""
    n = Nodes("BatchNormalization", 15)
    x, scale, bias, mean, variance = n.floats(4, 3, 5), n.floats(3), n.floats(3), n.floats(3), n.positive(3)
    n.node(x, scale, bias, mean, variance, outputs=3, training_mode=1, momentum=0.7)
    return n.case


def mels():
    n = Nodes("MelWeightMatrix", 17)
    whole, real = (lambda v: n.known(v, np.int64)), (lambda v: n.known(v, np.float32))
    for to in (TensorProto.FLOAT, TensorProto.DOUBLE):
        n.node(whole(8), whole(64), whole(8000), real(20), real(4000), output_datatype=to)
    return n.case


def mapped():
    n = Nodes("SequenceConstruct", 17)
    a, b = n.floats(2, 3), n.floats(4, 3)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a", "b", "c")]
    body = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "body", ports[:2], ports[2:])
    made = n.node(n.node(a, b, show=False), n.floats(3), op="SequenceMap", body=body, show=False)
    n.node(made, op="ConcatFromSequence", axis=0)
    return n.case


def of_nothing():
    n = Nodes("ReduceSum", 20)
    x, axes = n.of(np.zeros((2, 0, 3), np.float32)), n.known([1])
    for op in ("Sum", "Prod", "Max", "Min", "SumSquare", "L1", "L2", "LogSum", "LogSumExp"):
        n.node(x, axes, op=f"Reduce{op}", keepdims=0)
    return n.case


CASES = {
    "AffineGrid": geometry, "RoiAlign": regions, "DeformConv": deformed, "FlexAttention": changed_scores, "ml": numbers_of_ml,
    "TfIdfVectorizer": ngrams, "LabelEncoder": labels_of_tensors, "BatchNormalization_training": training, "MelWeightMatrix": mels, "SequenceMap": mapped,
    "reductions_of_nothing": of_nothing,
    "refused_TfIdfVectorizer": refused("TfIdfVectorizer", 9, "rondo has no strings", [(3,)], pool_strings=["a"]),
    "refused_LabelEncoder": refused("LabelEncoder", 21, "rondo has no strings", [(3,)], "ai.onnx.ml", keys_strings=["a"], values_floats=[1.0]),
    "refused_LabelEncoder_values": refused("LabelEncoder", 21, "rondo has no strings", [(3,)], "ai.onnx.ml", keys_floats=[1.0], values_strings=["a"]),
}
