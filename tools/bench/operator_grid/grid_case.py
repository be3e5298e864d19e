"""A case of the grid, and how its ONNX model is made."""
import dataclasses
import typing

PEAK_FLOPS, PEAK_BYTES = 790e12, 4.67e12  # an H200's 16-bit matmuls and its memory reads, a second
F32_FLOPS = 60e12  # f32 without tensor cores, a second
ITEM = {"f32": 4, "f16": 2, "bf16": 2, "i64": 8, "bool": 1}


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output. Its type is a key of ITEM."""
    name: str
    dtype: str
    shape: tuple
    below: int = 0  # integers are drawn from 0 to below - 1
    fill: typing.Optional[str] = None  # "mask": about a fifth is masked; "boxes": corners x, y, x, y

    def bytes(self):
        count = ITEM[self.dtype]
        for extent in self.shape:
            count *= extent
        return count


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator with one shape. `nodes()` returns ONNX nodes and initializers that compute `output` from the inputs. `torch`
    computes the same in PyTorch from {name: tensor}. For the comparison it computes in f32."""
    name: str
    inputs: tuple
    output: Port
    nodes: typing.Callable
    torch: typing.Callable
    flops: float
    weights: tuple = ()  # Ports with the synthetic numbers of core/synthetic.h
    tolerance: float = 0.01  # relative to the result's largest magnitude

    def floor(self):
        """The least possible time in microseconds: every byte once at peak rate, or the operations at peak rate if that is longer."""
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
