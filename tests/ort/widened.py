"""Converts models with 16-bit numbers or rounded matmuls to f32 models with the same numbers, which ONNX Runtime's CPU provider computes exactly."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
# The numbers of E2M1's codes.
FP4 = np.array([sign * x for sign in (1, -1) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)], np.float32)


def every_graph(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from every_graph(attribute.g)


def experts_of_numbers(model):
    """Converts QMoE with 8 or 2 bits or FP4 to MoE with the same numbers: with 8-bit weights ONNX Runtime rounds activations to 8 bits, and
    it has no FP4 on CPUs."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        bits, fp4 = given.get("expert_weight_bits", 4), given.get("quant_type", b"int") in (b"fp4", b"nvfp4")
        if node.op_type != "QMoE" or (bits == 4 and not fp4):
            continue
        inputs = list(node.input)[:2]
        for layer in (2, 5, 8):
            names = [*node.input[layer : layer + 3], "", "", ""][:3]
            if names[0]:
                codes, scales = (numpy_helper.to_array(tensors[name]) for name in names[:2])
                parts = [(codes >> at) & ((1 << bits) - 1) for at in range(0, 8, bits)]
                codes = np.stack(parts, -1).reshape(*codes.shape[:2], -1)
                if fp4:  # rows of outputs, with a number for each input
                    codes = FP4[codes.swapaxes(1, 2)] * numpy_helper.to_array(tensors[node.input[layer // 3 + 15]])[:, None, None]
                else:
                    codes = codes.astype(np.float32) - (1 << (bits - 1))
                scales = scales.astype(np.float32)
                scales = np.repeat(scales.reshape(*codes.shape[:2], -1), codes.shape[2] // scales.reshape(*codes.shape[:2], -1).shape[2], 2)
                weights = (codes * scales).astype(np.float32)
                model.graph.initializer.append(numpy_helper.from_array(weights, f"{names[0]}_numbers"))
                names[0] += "_numbers"
            inputs += [names[0], names[2]]
        while not inputs[-1]:
            inputs.pop()
        kept = ("activation_alpha", "activation_beta", "activation_type", "k", "normalize_routing_weights", "swiglu_fusion", "swiglu_limit")
        node.CopyFrom(helper.make_node("MoE", inputs, list(node.output), node.name, domain="com.microsoft",
                                       **{name: value for name, value in given.items() if name in kept}))


def widened(path, peer):
    """The model with its f16 and bf16 numbers in f32, and without rounding of MatMulNBits' activations."""
    model = onnx.load(path)
    experts_of_numbers(model)

    def wide(tensor):
        if tensor.data_type in NARROW:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))

    for graph in every_graph(model.graph):
        for tensor in graph.initializer:
            wide(tensor)
        for port in (*graph.input, *graph.output, *graph.value_info):
            if port.type.tensor_type.elem_type in NARROW:
                port.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in ("to", "dtype", "output_dtype") and attribute.i in NARROW:
                    attribute.i = TensorProto.FLOAT
                if attribute.name == "accuracy_level":
                    attribute.i = 0
                if attribute.HasField("t"):
                    wide(attribute.t)
    onnx.save(model, peer)
