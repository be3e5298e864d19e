#!/usr/bin/env python3
"""Decoders as onnxruntime-genai's model builder writes them (built_models.py), with a cache of a fixed length, against ONNX
Runtime, whose caches grow: a prompt and --steps tokens, two texts in one session. Prints how far logits ever are apart.

What a builder writes in f16 or bf16 is compared with the same numbers in f32. ONNX Runtime rounds what goes into a MatMulNBits to 8
bits where accuracy_level is 4; the peer is told not to.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxruntime-genai onnxscript
  build/venv/bin/python tools/bench/ort_builders.py
  build/venv/bin/python tools/bench/ort_builders.py 'qwen3: int4 cpu algo_config=k_quant'
"""
import argparse
import json
import pathlib
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import built_models
from checkpoints import ToolError
from ort_peer import ROOT, cpu_session
from rondo_session import Session

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
TYPES = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}
# Of weights behind a DequantizeLinear, too, ONNX Runtime rounds what is multiplied by them to 8 bits, unless told.
WHOLE = {"session.qdq_matmulnbits_accuracy_level": "0"}


def every_graph(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from every_graph(attribute.g)


def experts_of_numbers(model):
    """QMoE of 8 and 2 bits as MoE of the numbers that they stand for: ONNX Runtime rounds what goes into those of 8 bits to 8 bits."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        bits = given.get("expert_weight_bits", 4)
        if node.op_type != "QMoE" or bits == 4:
            continue
        inputs = list(node.input)[:2]
        for layer in (2, 5, 8):
            names = [*node.input[layer : layer + 3], "", "", ""][:3]
            if names[0]:
                codes, scales = (numpy_helper.to_array(tensors[name]) for name in names[:2])
                parts = [(codes >> at) & ((1 << bits) - 1) for at in range(0, 8, bits)]
                codes = np.stack(parts, -1).reshape(*codes.shape[:2], -1).astype(np.float32) - (1 << (bits - 1))
                scales = np.repeat(scales.reshape(*codes.shape[:2], -1), codes.shape[2] // scales.reshape(*codes.shape[:2], -1).shape[2], 2)
                model.graph.initializer.append(numpy_helper.from_array(codes * scales.astype(np.float32), f"{names[0]}_numbers"))
                names[0] += "_numbers"
            inputs += [names[0], names[2]]
        while not inputs[-1]:
            inputs.pop()
        kept = ("activation_alpha", "activation_beta", "activation_type", "k", "normalize_routing_weights", "swiglu_fusion", "swiglu_limit")
        node.CopyFrom(helper.make_node("MoE", inputs, list(node.output), node.name, domain="com.microsoft",
                                       **{name: value for name, value in given.items() if name in kept}))


def widened(path, peer):
    """The model with its numbers of f16 and bf16 in f32, and no rounding of what goes into a MatMulNBits."""
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


def numbers(array):
    """What came out of a plan as f32: bf16 comes as its bits."""
    return (array.astype(np.uint32) << 16).view(np.float32) if array.dtype == np.uint16 else array.astype(np.float32)


def present_of(past):
    return past.replace("past_key_values", "present").replace("past", "present")


class Growing:
    """ONNX Runtime: what came out as `present` goes in as `past`."""

    def __init__(self, path, batch):
        self.session = cpu_session(path, 1, WHOLE)
        self.ports = {port.name: port for port in self.session.get_inputs()}
        self.outputs = [port.name for port in self.session.get_outputs()]
        self.past = {}
        for port in self.ports.values():
            if port.name.startswith("past") and len(port.shape) >= 3:
                known = {"past_sequence_length": 0, "batch_size": batch, "kv_cache_dim": built_models.SIZE,
                         "past_sliding_length": built_models.SLIDING}
                shape = [known.get(d, d) for d in port.shape]
                self.past[port.name] = np.zeros(shape, TYPES[port.type])

    def run(self, inputs):
        given = {name: array for name, array in inputs.items() if name in self.ports}
        results = dict(zip(self.outputs, self.session.run(None, given | self.past)))
        for name in self.past:
            self.past[name] = results[present_of(name)]
        return results


def compile_model(arguments, path, plan, more=()):
    command = [arguments.binaries / "rondo", "compile", f"prefill={path}", f"decode={path}", "-o", plan,
               "--cache-length", arguments.length, "--shape", f"batch_size={arguments.batch}", "--shape",
               f"prefill:sequence_length={arguments.prompt}", "--shape", "decode:sequence_length=1", *more, *arguments.compile.split()]
    run(command)


def text(arguments, peer, session, random, words=built_models.WORDS, hidden=built_models.HEADS * built_models.SIZE):
    """One text through both: how far each step's results are apart at most, of the greatest."""
    growing = Growing(peer, arguments.batch)
    embedded = np.random.default_rng(5).standard_normal((words, hidden)).astype(np.float32)
    tokens = random.integers(3, words, (arguments.batch, arguments.prompt))
    session.reset()
    apart, done, wanted = [], 0, "logits" if "logits" in growing.outputs else "hidden_states"
    for step in range(arguments.steps + 1):
        total = done + tokens.shape[1]
        positions = np.broadcast_to(np.arange(done, total), tokens.shape)
        if "position_ids" in growing.ports and len(growing.ports["position_ids"].shape) == 3:
            positions = np.broadcast_to(positions, (3, *tokens.shape))
        mask = np.zeros((arguments.batch, arguments.length), np.int64)
        mask[:, :total] = 1
        inputs = {"input_ids": tokens, "position_ids": positions, "inputs_embeds": embedded[tokens],
                  "past_sequence_length": np.array([done], np.int64)}
        results = growing.run(inputs | {"attention_mask": mask[:, :total]})
        got = session.run("prefill" if step == 0 else "decode", inputs | {"attention_mask": mask})
        ends = {name: np.nan_to_num(np.abs(numbers(array) - results[name]), nan=np.inf).max() / np.abs(results[name]).max()
                for name, array in got.items() if name in results}
        apart.append(float(max(ends.values())))
        tokens, done = results[wanted][:, -1:, :words].argmax(-1), total
    return apart


def peer_of(case):
    """The same numbers in a form that ONNX Runtime's CPU provider runs: weights by rows, norms outside GroupQueryAttention."""
    words = case.split()
    if " cuda" not in case and " webgpu" not in case:
        return case
    words = [word for word in words if "weights_prepacked" not in word and "fuse_qk_norm_gqa" not in word]
    return " ".join([*words, "fuse_qk_norm_gqa=false", *(["qmoe_weights_prepacked=0"] if "cuda" in words else [])])


def compare(arguments, case):
    made, like = built(arguments, case), built(arguments, peer_of(case))
    if case.startswith("whisper"):
        return float(whisper(arguments, made, like))
    path, peer = made / "model.onnx", like / "peer.onnx"
    if not peer.exists():
        widened(like / "model.onnx", peer)
    compile_model(arguments, path, made / "plan.rondo")
    session, random = Session(arguments.binaries.parent / "lib", made / "plan.rondo"), np.random.default_rng(arguments.seed)
    steps = [step for _ in range(2) for step in text(arguments, peer, session, random)]
    session.close()
    # In f16 and bf16 rounding decides now and then which experts a token has; nine of ten steps then.
    exact = not any(word in case for word in ("fp16", "bf16", "cuda", "webgpu", "dml", "Nv"))
    return max(steps) if exact or not np.isfinite(steps).all() else float(np.quantile(steps, 0.9))


def whisper(arguments, made, peer_made):
    """How many tokens of `rondo generate` are not ONNX Runtime's: [frames] through the encoder, then token by token."""
    features = np.random.default_rng(arguments.seed).standard_normal((1, 80, 3000)).astype(np.float32)
    narrow = onnx.load(made / "encoder.onnx", load_external_data=False).graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    np.save(made / "features.npy", features.astype(np.float16) if narrow else features)
    for name in ("encoder", "decoder"):
        if not (peer_made / f"{name}_peer.onnx").exists():
            widened(peer_made / f"{name}.onnx", peer_made / f"{name}_peer.onnx")
    encoder, decoder = (cpu_session(peer_made / f"{name}_peer.onnx", 1, WHOLE) for name in ("encoder", "decoder"))
    out = dict(zip([o.name for o in encoder.get_outputs()], encoder.run(None, {"audio_features": features})))
    past = {name.replace("present", "past"): array for name, array in out.items() if "cross" in name}
    for port in decoder.get_inputs():
        if "self" in port.name:
            past[port.name] = np.zeros((1, built_models.HEADS, 0, built_models.SIZE), np.float32)
    tokens, said = np.array([[1]], np.int32), []
    for _ in range(arguments.steps):
        results = dict(zip([o.name for o in decoder.get_outputs()], decoder.run(None, {"input_ids": tokens} | past)))
        past |= {name.replace("present", "past"): array for name, array in results.items() if "present" in name}
        tokens = results["logits"][:, -1:].argmax(-1).astype(np.int32)
        said.append(int(tokens[0, 0]))
    plan = made / "plan.rondo"
    run([arguments.binaries / "rondo", "compile", f"encode={made / 'encoder.onnx'}", f"decode={made / 'decoder.onnx'}", "-o", plan,
         "--cache-length", arguments.length, "--shape", "batch_size=1", "--shape", "decode:sequence_length=1", "--sample", "logits",
         *arguments.compile.split()])
    got = run([arguments.binaries / "rondo", "generate", plan, "--ids", "--json", "--max-tokens", arguments.steps, "--start", 1, "--input",
               f"audio_features={made / 'features.npy'}"])
    got = json.loads(got)["texts"][0]["tokens"]
    return sum(a != b for a, b in zip(got, said))


def run(words):
    said = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip() or f"rondo ended with {said.returncode}")
    return said.stdout


def built(arguments, case):
    name, _, words = case.partition(": ")
    precision, provider, *options = words.split()
    folder = arguments.folder / "_".join("".join(c if c.isalnum() else " " for c in name).split())
    return built_models.build(name, folder, precision, provider, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="'NAME: PRECISION PROVIDER OPTION=VALUE ...'")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/builders")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="", help="more options of rondo compile: '--target cuda:sm_90a'")
    arguments = parser.parse_args()
    for case in arguments.cases:
        try:
            print(f"| {case} | {compare(arguments, case):.1e} |", flush=True)
        except ToolError as error:
            print(f"| {case} | not built: {error} |", flush=True)
        except Exception as error:
            print(f"| {case} | FAILED: {type(error).__name__} {str(error)[:600]} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
