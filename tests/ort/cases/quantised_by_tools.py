"""Models of optimum_models.py, quantised, narrowed and fused by ONNX Runtime's own tools: onnxruntime.quantization and
onnxruntime.transformers. Each has a name and a function, which reads a model and writes the tool's result; `feeds` gives inputs for
calibration."""
import onnx
from onnxruntime import quantization as q
from onnxruntime.quantization import QuantFormat, QuantType
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import (DefaultWeightOnlyQuantConfig, HQQWeightOnlyQuantConfig,
                                                             KQuantWeightOnlyQuantConfig, MatMulNBitsQuantizer, RTNWeightOnlyQuantConfig)
from onnxruntime.transformers import float16, optimizer

import quantised_statically


def dynamic(**more):
    return lambda path, out, feeds: q.quantize_dynamic(path, out, **more)


def nbits(bits, gather=False, block_size=32, **more):
    def make(path, out, feeds):
        kinds = ("MatMul", "Gather") if gather else ("MatMul",)
        quantizer = MatMulNBitsQuantizer(onnx.load(path), bits=bits, block_size=block_size, op_types_to_quantize=kinds,
                                         quant_axes=(("MatMul", 0), ("Gather", 1)), **more)
        quantizer.process()
        quantizer.model.save_model_to_file(str(out), False)

    return make


def algorithm(config):
    def make(path, out, feeds):
        quantizer = MatMulNBitsQuantizer(onnx.load(path), algo_config=config())
        quantizer.process()
        quantizer.model.save_model_to_file(str(out), False)

    return make


def bnb4(kind):
    def make(path, out, feeds):
        quantizer = MatMulBnb4Quantizer(onnx.load(path), kind, 32)
        quantizer.process()
        quantizer.model.save_model_to_file(str(out), False)

    return make


def halved(**more):
    return lambda path, out, feeds: onnx.save(float16.convert_float_to_float16(onnx.load(path), **more), out)


def fused(kind, half=False):
    """Runs onnxruntime.transformers.optimizer, which uses operators of com.microsoft for attention, norms and activations."""
    def make(path, out, feeds):
        made = optimizer.optimize_model(str(path), model_type=kind, opt_level=0)
        if half:
            made.convert_float_to_float16(keep_io_types=True)
        made.save_model_to_file(str(out))

    return make


S8, U8, QDQ = QuantType.QInt8, QuantType.QUInt8, QuantFormat.QDQ
ALL = {
    "dynamic, u8": dynamic(weight_type=U8),
    "dynamic, s8": dynamic(weight_type=S8, reduce_range=True),
    "dynamic, s8 per channel": dynamic(weight_type=S8, per_channel=True, reduce_range=True),
    "dynamic, symmetric": dynamic(weight_type=S8, reduce_range=True, extra_options={"WeightSymmetric": True}),
    **quantised_statically.ALL,
    "4 bits": nbits(4, is_symmetric=True),
    "4 bits, zero points": nbits(4, is_symmetric=False),
    "4 bits, blocks of 128": nbits(4, block_size=128, is_symmetric=False),
    "4 bits, accuracy 4": nbits(4, is_symmetric=True, accuracy_level=4),
    "4 bits, QDQ": nbits(4, is_symmetric=True, quant_format=QDQ),
    "4 bits, QDQ, zero points": nbits(4, is_symmetric=False, quant_format=QDQ),
    "4 bits, QDQ, blocks of 16": nbits(4, is_symmetric=True, quant_format=QDQ, block_size=16),
    "4 bits and gather": nbits(4, gather=True, is_symmetric=True),
    "4 bits and gather, zero points": nbits(4, gather=True, is_symmetric=False),
    "8 bits": nbits(8, is_symmetric=True),
    "8 bits, zero points": nbits(8, is_symmetric=False),
    "8 bits and gather": nbits(8, gather=True, is_symmetric=False),
    "2 bits": nbits(2, is_symmetric=True),
    "2 bits, zero points": nbits(2, is_symmetric=False),
    "HQQ": algorithm(lambda: HQQWeightOnlyQuantConfig(block_size=32)),
    "RTN": algorithm(RTNWeightOnlyQuantConfig),
    "k_quant": algorithm(KQuantWeightOnlyQuantConfig),
    "default config, QDQ": algorithm(lambda: DefaultWeightOnlyQuantConfig(block_size=64, is_symmetric=False, quant_format=QDQ)),
    "bnb FP4": bnb4(MatMulBnb4Quantizer.FP4),
    "bnb NF4": bnb4(MatMulBnb4Quantizer.NF4),
    "f16": halved(),
    "f16, ports of f32": halved(keep_io_types=True),
    "f16, not norms": halved(keep_io_types=True, op_block_list=["LayerNormalization", "Softmax", "ReduceMean", "Pow", "Sqrt"]),
    "fused": fused("bert"),
    "fused, f16": fused("bert", half=True),
}
