"""What every family of the grid gives for a case, and how its ONNX models are put together."""
import dataclasses
import typing

PEAK_FLOPS, PEAK_BYTES = 790e12, 4.67e12  # an H200: matmuls of 16 bits, a stream that is read
F32_FLOPS = 60e12  # f32 without tensor cores
ITEM = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "bool": 1}


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output: its type is one of ITEM."""
    name: str
    dtype: str
    shape: tuple
    below: int = 0  # integers are drawn from 0 to below - 1
    fill: typing.Optional[str] = None  # "mask": about a fifth is masked

    def bytes(self):
        count = ITEM[self.dtype]
        for extent in self.shape:
            count *= extent
        return count


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator of one shape. `nodes()`: ONNX nodes and initializers from the inputs to `output`; `torch`: the same
    by PyTorch, of tensors by name; its result is compared, computed in f32."""
    name: str
    inputs: tuple
    output: Port
    nodes: typing.Callable
    torch: typing.Callable
    flops: float
    weights: tuple = ()  # Ports whose numbers are drawn as core/synthetic.h draws them
    tolerance: float = 0.01  # of the greatest magnitude of the result

    def floor(self):
        """Microseconds: all bytes once, or the operations."""
        moved = sum(port.bytes() for port in self.inputs + self.weights) + self.output.bytes()
        peak = F32_FLOPS if self.output.dtype == "f32" else PEAK_FLOPS
        return max(moved / PEAK_BYTES, self.flops / peak) * 1e6


def model_of(case):
    """The case as an ONNX model; weights are external, for --synthetic-weights."""
    import onnx
    from onnx import TensorProto, helper
    types = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16,
             "i64": TensorProto.INT64, "bool": TensorProto.BOOL}

    def info(port):
        return helper.make_tensor_value_info(port.name, types[port.dtype], port.shape)

    nodes, constants = case.nodes()
    for weight in case.weights:
        tensor = onnx.TensorProto(name=weight.name, data_type=types[weight.dtype], dims=weight.shape,
                                  data_location=TensorProto.EXTERNAL)
        for key, value in (("location", f"{case.name}.data"), ("offset", "0"), ("length", str(weight.bytes()))):
            tensor.external_data.add(key=key, value=value)
        constants.append(tensor)
    graph = helper.make_graph(nodes, case.name, [info(port) for port in case.inputs], [info(case.output)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model
