"""Llama-3-8B's decode step with 4-bit weights, in the form of ONNX Runtime's model builder (exclude_embeds): MatMulNBits and
GroupQueryAttention. Weights are random numbers in a separate file beside the model. They are the same, rounded to f16, whatever type
the model computes in."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"
HIDDEN, HEADS, GROUPS, SIZE, WIDE, WORDS, MOST = 4096, 32, 8, 128, 14336, 128256, 2048
INT32 = TensorProto.INT32


class Decoder:
    """Collects nodes. Weights with more than a few numbers go to the open file `data`."""

    def __init__(self, data, block, random, dtype):
        self.data, self.block, self.random, self.dtype = data, block, random, dtype
        self.nodes, self.weights = [], []

    def weight(self, name, array):
        if array.dtype != np.uint8:
            array = array.astype(np.float16).astype(self.dtype)
        tensor = TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))
        tensor.data_location = TensorProto.EXTERNAL
        self.data.seek(-self.data.tell() % 4096, 1)
        for key, value in (("location", self.data.name.rsplit("/", 1)[-1]), ("offset", self.data.tell()),
                           ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.data.write(array.tobytes())
        self.weights.append(tensor)
        return name

    def op(self, kind, *inputs, outputs=None, domain="", **attributes):
        outputs = outputs or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(kind, list(inputs), outputs, domain=domain,
                                           name=f"/{kind}_{len(self.nodes)}", **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def packed(self, name, k, n, x):
        """x @ W: 4-bit codes with 8 for zero, and a scale for each block along k."""
        codes = np.frombuffer(self.random.bytes(n * k // 2), np.uint8).reshape(n, k // self.block, self.block // 2)
        scales = self.random.uniform(0.5, 1.5, (n, k // self.block)) / (4.6 * np.sqrt(k))
        return self.op("MatMulNBits", x, self.weight(name + ".codes", codes),
                       self.weight(name + ".scales", scales), domain=MICROSOFT, bits=4,
                       block_size=self.block, N=n, K=k)

    def gain(self, name):
        return self.weight(name, self.random.uniform(0.5, 1.5, HIDDEN))


def angles():
    rates = 500000.0 ** -(np.arange(SIZE // 2) / (SIZE // 2))
    return np.arange(MOST)[:, None] * rates[None]


def write(path, block, layers, dtype=np.float16, words=WORDS, seed=1):
    """Writes the model for any batch_size with caches of MOST positions. Its weights go to `path` + ".data"."""
    real, batch = helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), "batch_size"
    with open(f"{path}.data", "wb") as data:
        d = Decoder(data, block, np.random.default_rng(seed), dtype)
        cosine, sine = (d.weight(f.__name__, f(angles())) for f in (np.cos, np.sin))
        ports = [("inputs_embeds", real, [batch, 1, HIDDEN]), ("seqlens_k", INT32, [batch]),
                 ("total_sequence_length", INT32, [])]
        results = []
        skip, y = "inputs_embeds", d.op("SimplifiedLayerNormalization", "inputs_embeds", d.gain("norm"), epsilon=1e-5,
                                        axis=-1)
        for layer in range(layers):
            name = f"layers.{layer}."
            cache = [batch, GROUPS, MOST, SIZE]
            ports += [(f"past_key_values.{layer}.{part}", real, cache) for part in ("key", "value")]
            results += [(f"present.{layer}.{part}", real, cache) for part in ("key", "value")]
            qkv = d.packed(name + "qkv", HIDDEN, (HEADS + 2 * GROUPS) * SIZE, y)
            y = d.op("GroupQueryAttention", qkv, "", "", ports[-2][0], ports[-1][0], "seqlens_k", "total_sequence_length",
                     cosine, sine, outputs=[name + "attended", results[-2][0], results[-1][0]], domain=MICROSOFT,
                     num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)[0]
            for part in ("o", "mlp"):
                if part == "o":
                    y = d.packed(name + "o", HIDDEN, HIDDEN, y)
                else:
                    gate, up = (d.packed(name + kind, HIDDEN, WIDE, y) for kind in ("gate", "up"))
                    y = d.packed(name + "down", WIDE, HIDDEN, d.op("Mul", d.op("Mul", gate, d.op("Sigmoid", gate)), up))
                y, _, _, skip = d.op("SkipSimplifiedLayerNormalization", skip, y, d.gain(f"{name}{part}.norm"),
                                     outputs=[f"{name}{part}.normed", "", "", f"{name}{part}.sum"], domain=MICROSOFT,
                                     epsilon=1e-5)
        d.op("Identity", d.packed("head", HIDDEN, words, y), outputs=["logits"])
        results.insert(0, ("logits", real, [batch, 1, words]))
        infos = [[helper.make_tensor_value_info(*port) for port in ports_of] for ports_of in (ports, results)]
        graph = helper.make_graph(d.nodes, "decoder", *infos, d.weights)
        onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]), path)
