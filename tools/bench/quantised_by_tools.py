"""Models of optimum_models.py, quantised, narrowed and fused by ONNX Runtime's own tools: onnxruntime.quantization and
onnxruntime.transformers. A name and a function each, which reads a model and writes what the tool makes of it; `feeds` gives inputs to
calibrate with."""
import onnx
from onnxruntime import quantization as q
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import (DefaultWeightOnlyQuantConfig, HQQWeightOnlyQuantConfig,
                                                             KQuantWeightOnlyQuantConfig, MatMulNBitsQuantizer, RTNWeightOnlyQuantConfig)
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers import float16, optimizer


class Feed(CalibrationDataReader):
    def __init__(self, inputs):
        self.inputs = iter(inputs)

    def get_next(self):
        return next(self.inputs, None)


def dynamic(**more):
    return lambda path, out, feeds: q.quantize_dynamic(path, out, **more)


def static(**more):
    def make(path, out, feeds):
        ready = out.with_suffix(".ready.onnx")
        quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        q.quantize_static(str(ready), str(out), Feed(feeds()), **more)

    return make


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
    """onnxruntime.transformers.optimizer: operators of com.microsoft for attention, norms and activations."""
    def make(path, out, feeds):
        made = optimizer.optimize_model(str(path), model_type=kind, opt_level=0)
        if half:
            made.convert_float_to_float16(keep_io_types=True)
        made.save_model_to_file(str(out))

    return make


S8, U8, S16, U16, S4, U4 = (QuantType.QInt8, QuantType.QUInt8, QuantType.QInt16, QuantType.QUInt16, QuantType.QInt4, QuantType.QUInt4)
QDQ, QOP = QuantFormat.QDQ, QuantFormat.QOperator
ALL = {
    "dynamic, u8": dynamic(weight_type=U8),
    "dynamic, s8": dynamic(weight_type=S8, reduce_range=True),
    "dynamic, s8 per channel": dynamic(weight_type=S8, per_channel=True, reduce_range=True),
    "dynamic, symmetric": dynamic(weight_type=S8, reduce_range=True, extra_options={"WeightSymmetric": True}),
    "QDQ, u8 s8": static(quant_format=QDQ, activation_type=U8, weight_type=S8),
    "QDQ, u8 s8 per channel": static(quant_format=QDQ, activation_type=U8, weight_type=S8, per_channel=True),
    "QDQ, s8 s8 per channel": static(quant_format=QDQ, activation_type=S8, weight_type=S8, per_channel=True),
    "QDQ, u8 u8": static(quant_format=QDQ, activation_type=U8, weight_type=U8),
    "QDQ, u16 u8": static(quant_format=QDQ, activation_type=U16, weight_type=U8),
    "QDQ, s16 s8 per channel": static(quant_format=QDQ, activation_type=S16, weight_type=S8, per_channel=True),
    "QDQ, u16 s4": static(quant_format=QDQ, activation_type=U16, weight_type=S4),
    "QDQ, u8 u4 per channel": static(quant_format=QDQ, activation_type=U8, weight_type=U4, per_channel=True),
    "QDQ, all options": static(quant_format=QDQ, activation_type=S8, weight_type=S8, per_channel=True, extra_options={
        "ActivationSymmetric": True, "WeightSymmetric": True, "AddQDQPairToWeight": True, "DedicatedQDQPair": True,
        "QuantizeBias": False, "ForceQuantizeNoInputCheck": True}),
    "QDQ, contrib": static(quant_format=QDQ, activation_type=U16, weight_type=U8, extra_options={"UseQDQContribOps": True}),
    "QDQ, percentiles": static(quant_format=QDQ, activation_type=U8, weight_type=S8, calibrate_method=q.CalibrationMethod.Percentile),
    "QOperator, u8 u8": static(quant_format=QOP, activation_type=U8, weight_type=U8),
    "QOperator, u8 s8": static(quant_format=QOP, activation_type=U8, weight_type=S8, reduce_range=True),
    "QOperator, u8 s8 per channel": static(quant_format=QOP, activation_type=U8, weight_type=S8, per_channel=True, reduce_range=True),
    "QOperator, s8 s8": static(quant_format=QOP, activation_type=S8, weight_type=S8),
    "QDQ, matmuls alone": static(quant_format=QDQ, activation_type=U8, weight_type=U8, op_types_to_quantize=["MatMul", "Gemm"]),
    "QDQ, matmuls by weights": static(quant_format=QDQ, activation_type=U8, weight_type=U8, op_types_to_quantize=["MatMul", "Gemm"],
                                      extra_options={"MatMulConstBOnly": True}),
    "QOperator, matmuls by weights": static(quant_format=QOP, activation_type=U8, weight_type=U8, op_types_to_quantize=[
        "MatMul", "Gemm"], extra_options={"MatMulConstBOnly": True}),
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
