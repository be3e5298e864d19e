"""Models quantised statically by ONNX Runtime's own tool, onnxruntime.quantization: each has a name and a function, which reads a model and
writes the tool's result; `feeds` gives inputs for calibration. Needs no more than onnxruntime."""
from onnxruntime import quantization as q
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
from onnxruntime.quantization.shape_inference import quant_pre_process


class Feed(CalibrationDataReader):
    def __init__(self, inputs):
        self.inputs = iter(inputs)

    def get_next(self):
        return next(self.inputs, None)


def static(**more):
    def make(path, out, feeds):
        ready = out.with_suffix(".ready.onnx")
        quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        q.quantize_static(str(ready), str(out), Feed(feeds()), **more)

    return make


S8, U8, S16, U16, S4, U4 = (QuantType.QInt8, QuantType.QUInt8, QuantType.QInt16, QuantType.QUInt16, QuantType.QInt4, QuantType.QUInt4)
QDQ, QOP = QuantFormat.QDQ, QuantFormat.QOperator
ALL = {
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
}
