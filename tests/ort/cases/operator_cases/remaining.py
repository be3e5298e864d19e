"""Cases that the drawn ones leave out: attributes of com.microsoft's operators one by one, for attribute_cases.py. ONNX Runtime gives
the expected values; if its CPU provider lacks an operator, the same written with others does (`oracle`)."""
import numpy as np
from onnx import TensorProto

from .case import MICROSOFT
from .nodes import Nodes, refused


def channels_last(name, plain, weights, *attributes):
    """An operator with channels last, and the one with channels second between transposes."""
    def make():
        n, o = Nodes(name), Nodes(name)
        for each in attributes:
            for nodes, layout in ((n, False), (o, True)):
                inputs = [nodes.floats(1, 7, 6, 4)]
                inputs += [nodes.floats(*shape) for shape in weights(each)]
                if not layout:
                    nodes.node(*inputs, domain=MICROSOFT, **each)
                    continue
                inputs[0] = nodes.node(inputs[0], op="Transpose", perm=[0, 3, 1, 2], show=False)
                made = nodes.node(*inputs, op=plain, show=False, **each)
                nodes.node(made, op="Transpose", perm=[0, 2, 3, 1])
        n.case.oracle = o.case
        return n.case
    return make


def pool_of_bytes():
    n = Nodes("QLinearAveragePool")
    x = n.whole(0, 255, (1, 2, 7, 8), np.uint8)
    scales = n.known(0.02, np.float32), n.known(120, np.uint8), n.known(0.03, np.float32), n.known(110, np.uint8)
    for attributes in ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"ceil_mode": 1, "strides": [3, 3]},
                       {"count_include_pad": 1, "pads": [1, 1, 1, 1]}):
        n.node(x, *scales, domain=MICROSOFT, kernel_shape=[3, 3], **attributes)
    return n.case


def convolution_of_bytes():
    n = Nodes("QLinearConv")
    x, w = n.whole(0, 255, (1, 7, 8, 4), np.uint8), n.known(n.draw.whole(0, 255, (6, 4, 3, 2), np.uint8))
    scales = [n.known(scale, np.float32) for scale in (0.02, 0.01, 0.05)]
    zeros = [n.known(zero, np.uint8) for zero in (120, 130, 128)]
    for attributes in ({"strides": [2, 1]}, {"auto_pad": "SAME_UPPER"}, {"dilations": [2, 3], "kernel_shape": [3, 2]}):
        n.node(x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], domain=MICROSOFT, channels_last=1, **attributes)
    return n.case


def fused_convolution():
    n = Nodes("FusedConv")
    x, w = n.floats(1, 4, 7, 8), n.floats(6, 4, 3, 2)
    for attributes in ({"auto_pad": "SAME_UPPER"}, {"dilations": [2, 3]}, {"kernel_shape": [3, 2], "strides": [2, 3]}):
        n.node(x, w, domain=MICROSOFT, activation="Relu", **attributes)
    return n.case


def lstm_of_bytes():
    n = Nodes("DynamicQuantizeLSTM")
    size, hidden = 6, 5
    x = n.floats(4, 2, size)
    w = [n.known(n.draw.whole(0, 255, (1, rows, 4 * hidden), np.uint8)) for rows in (size, hidden)]
    bias = n.floats(1, 8 * hidden)
    scale, zero = n.known([0.01], np.float32), n.known([128], np.uint8)
    for attributes in ({"clip": 0.3}, {"input_forget": 1}, {"direction": "reverse"},
                       {"activations": ["HardSigmoid", "Elu", "Softsign"], "activation_alpha": [0.3] * 3, "activation_beta": [0.4] * 3}):
        n.node(x, *w, bias, "", "", "", "", scale, zero, scale, zero, outputs=3, domain=MICROSOFT, hidden_size=hidden, **attributes)
    return n.case


def gelus():
    n = Nodes("QuickGelu")
    n.node(n.floats(3, 4), domain=MICROSOFT, alpha=0.7)
    return n.case


def rotary():
    n = Nodes("RotaryEmbedding")
    x, at = n.floats(2, 4, 24), n.whole(0, 9, (2, 4))
    tables = n.floats(10, 4), n.floats(10, 4)
    n.node(x, at, *tables, domain=MICROSOFT, interleaved=1, num_heads=3)
    part = n.floats(10, 2), n.floats(10, 2)
    n.node(x, at, *part, domain=MICROSOFT, num_heads=3, rotary_embedding_dim=4)
    return n.case


def bnb4():
    n = Nodes("MatMulBnb4")
    features, columns = 64, 6
    a = n.floats(3, features)
    for kind in (0, 1):
        codes, most = n.known(n.draw.whole(0, 255, (columns * features // 2,), np.uint8)), n.known(n.draw.positive(columns * features // 32, low=0.1, high=1))
        n.node(a, codes, most, domain=MICROSOFT, K=features, N=columns, block_size=32, quant_type=kind, transB=1)
    return n.case


def of_state(attribute, value):
    return refused("CausalConvWithState", 21, "without the attributes that are for CUDA only", [(2, 3, 7), (3, 1, 4)], MICROSOFT,
                   outputs=2, **{attribute: value})


def bits_of_experts():
    """The same bits given for each layer instead of for the node."""
    n, o = Nodes("QMoE"), Nodes("QMoE")
    for nodes, bits in ((n, {"fc1_expert_weight_bits": 8, "fc2_expert_weight_bits": 8}), (o, {"expert_weight_bits": 8})):
        x, router = nodes.floats(3, 32), nodes.floats(3, 2)
        weights = [nodes.known(nodes.draw.whole(0, 255, (2, rows, columns), np.uint8)) for rows, columns in ((64, 32), (32, 64))]
        scales = [nodes.known(nodes.draw.positive(2, rows)) for rows in (64, 32)]
        nodes.node(x, router, weights[0], scales[0], "", weights[1], scales[1], domain=MICROSOFT, activation_type="relu", k=1, **bits)
    n.case.oracle = o.case
    return n.case


def normalised_heads():
    """GroupQueryAttention that normalises queries and keys itself, compared with it after a SimplifiedLayerNormalization of each."""
    n, o = Nodes("GroupQueryAttention"), Nodes("GroupQueryAttention")
    for epsilons in ({"qk_norm_epsilon": 0.2}, {"q_norm_epsilon": 0.3, "k_norm_epsilon": 0.1}):
        for nodes, inside in ((n, True), (o, False)):
            q, k, v = nodes.floats(1, 3, 32), nodes.floats(1, 3, 16), nodes.floats(1, 3, 16)
            weights = nodes.positive(8), nodes.positive(8)
            lengths, total = nodes.known([2], np.int32), nodes.known(3, np.int32)
            common = {"op": "GroupQueryAttention", "outputs": 3, "domain": MICROSOFT, "num_heads": 4, "kv_num_heads": 2}
            if inside:
                nodes.node(q, k, v, "", "", lengths, total, "", "", "", "", "", "", "", *weights, **common, **epsilons)
                continue
            both = epsilons.get("qk_norm_epsilon", 0)
            q, k = (nodes.node(nodes.node(nodes.node(x, nodes.known([1, 3, heads, 8]), op="Reshape", show=False), weight,
                                          op="SimplifiedLayerNormalization", axis=-1, epsilon=epsilons.get(name, both), show=False),
                               nodes.known([1, 3, heads * 8]), op="Reshape", show=False)
                    for x, weight, heads, name in ((q, weights[0], 4, "q_norm_epsilon"), (k, weights[1], 2, "k_norm_epsilon")))
            nodes.node(q, k, v, "", "", lengths, total, **common)
    rename(o.case, n.case)
    n.case.oracle = o.case
    return n.case


def rename(oracle, case):
    """Gives the oracle the case's input and output names."""
    names = dict(zip(oracle.outputs, case.outputs))
    for node in oracle.nodes:
        node.output[:] = [names.get(name, "" if not name else f"of_{name}") for name in node.output]
        node.input[:] = [name if name in oracle.inputs or name.startswith("c") or not name else f"of_{name}" for name in node.input]
    oracle.outputs = dict.fromkeys(names.values())


def rounded_gate():
    n, o = Nodes("SwiGLU"), Nodes("SwiGLU")
    for nodes in (n, o):
        gate, up = (nodes.of(nodes.draw.floats(3, 8, dtype=np.float16)) for _ in range(2))
        if nodes is n:
            nodes.node(gate, up, domain=MICROSOFT, round_activation=1)
            continue
        wide = nodes.node(gate, op="Cast", to=TensorProto.FLOAT, show=False)
        silu = nodes.node(wide, nodes.node(wide, op="Sigmoid", show=False), op="Mul", show=False)
        nodes.node(nodes.node(silu, op="Cast", to=TensorProto.FLOAT16, show=False), up, op="Mul")
    rename(o.case, n.case)
    n.case.oracle, n.case.tolerance = o.case, (0, 0)
    return n.case


def gated():
    n = Nodes("GatedRMSNorm")
    x, weight, gate = n.floats(2, 3, 8), n.positive(4), n.floats(2, 3, 8)
    n.node(x, weight, gate, domain=MICROSOFT, activation="sigmoid", epsilon=0.1)
    return n.case


def experts_refused(name):
    return refused(name, 21, "use_sparse_mixer", EXPERTS, MICROSOFT, use_sparse_mixer=1)


QUANTISED = [(3, 8), (3, 2), (2, 6, 8), (2, 6), None, (2, 8, 6), (2, 8)]
EXPERTS = [(3, 8), (3, 2), (2, 6, 8), None, (2, 8, 6)]
CASES = {
    "more_NhwcConv": channels_last("NhwcConv", "Conv", lambda each: [(6, 2 if "group" in each else 4, 3, 2)],
                                   {"auto_pad": "SAME_UPPER"}, {"dilations": [2, 1]}, {"group": 2}),
    "more_NhwcMaxPool": channels_last("NhwcMaxPool", "MaxPool", lambda each: [], {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
                                      {"kernel_shape": [2, 3], "ceil_mode": 1, "strides": [3, 3]}, {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    "more_QLinearAveragePool": pool_of_bytes, "more_QLinearConv": convolution_of_bytes, "more_FusedConv": fused_convolution,
    "more_DynamicQuantizeLSTM": lstm_of_bytes, "more_QuickGelu": gelus, "more_RotaryEmbedding": rotary, "more_MatMulBnb4": bnb4,
    "refused_CausalConv_ndim": of_state("ndim", 2), "refused_CausalConv_state_length": of_state("state_length", 5),
    "refused_CausalConv_channels": of_state("input_channels", 3), "refused_CausalConv_offset": of_state("input_channel_offset", 1),
    "refused_CausalConv_state_last": of_state("state_channels_last", 1),
    "more_QMoE_bits": bits_of_experts, "more_GroupQueryAttention_norms": normalised_heads, "more_GatedRMSNorm": gated,
    "more_SwiGLU_rounded": rounded_gate,
    "refused_FP4_scales": refused("TRT_FP4DynamicQuantize", 21, "whole blocks with scales of FLOAT8E4M3FN", [(3, 32), (1,)], "trt", outputs=2,
                                  axis=-1, block_size=16, scale_type=1),
    "refused_MoE_mixer": experts_refused("MoE"),
    "refused_QMoE_mixer": refused("QMoE", 21, "use_sparse_mixer", QUANTISED, MICROSOFT, use_sparse_mixer=1),
    "refused_RouterGateUpProj": refused("RouterGateUpProj", 21, "only swiglu", [(3, 8), (8, 20)], MICROSOFT, outputs=2, activation="relu", router_size=4),
    "refused_QAttention": refused("QAttention", 21, "past_present_share_buffer", [(1, 3, 8), (8, 24), (24,), (1,), (1,)], MICROSOFT, num_heads=2, past_present_share_buffer=1),
    "refused_MatMulBnb4_transB": refused("MatMulBnb4", 21, "as in training", [(3, 64), (6, 8), (12,)], MICROSOFT, K=64, N=6, block_size=32, transB=0),
}
