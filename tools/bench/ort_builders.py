#!/usr/bin/env python3
"""Decoders as onnxruntime-genai's model builder writes them (built_models.py), with a cache of a fixed length, against ONNX
Runtime, whose caches grow: a prompt and --steps tokens, two texts in one session. Prints how far logits ever are apart.

What a builder writes in f16 or bf16 is compared with the same numbers in f32. ONNX Runtime rounds what goes into a MatMulNBits to 8
bits where accuracy_level is 4; the peer is told not to.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxruntime-genai onnx-ir
  build/venv/bin/python tools/bench/ort_builders.py
  build/venv/bin/python tools/bench/ort_builders.py 'qwen3: int4 cpu algo_config=k_quant'
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument as NotRun

import built_models
from checkpoints import ToolError
from ort_peer import ROOT, cpu_session
from rondo_session import Session, run_fitted

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
TYPES = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}
# Of weights behind a DequantizeLinear, too, ONNX Runtime rounds what is multiplied by them to 8 bits, unless told.
WHOLE = {"session.qdq_matmulnbits_accuracy_level": "0"}
# What the codes of E2M1 stand for.
FP4 = np.array([sign * x for sign in (1, -1) for x in (0, 0.5, 1, 1.5, 2, 3, 4, 6)], np.float32)


def every_graph(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from every_graph(attribute.g)


def experts_of_numbers(model):
    """QMoE of 8 and 2 bits, and of FP4, as MoE of the numbers that they stand for: ONNX Runtime rounds what goes into those of 8 bits
    to 8 bits, and has no FP4 for CPUs."""
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
                if fp4:  # in rows of outputs, one for each input
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

    def __init__(self, path, batch, optimised=True):
        self.session = cpu_session(path, 1, WHOLE, optimised)
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


def text(arguments, peer, session, random, words=built_models.WORDS, hidden=built_models.HEADS * built_models.SIZE, optimised=True):
    """One text through both: how far each step's results are apart at most, of the greatest. `optimised`: as cpu_session has it."""
    growing = Growing(peer, arguments.batch, optimised)
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
        got = run_fitted(session, "prefill" if step == 0 else "decode", inputs | {"attention_mask": mask})
        ends = {name: np.nan_to_num(np.abs(numbers(array) - results[name]), nan=np.inf).max() / np.abs(results[name]).max()
                for name, array in got.items() if name in results}
        apart.append(float(max(ends.values())))
        tokens, done = results[wanted][:, -1:, :words].argmax(-1), total
    return apart


def exact(case):
    """Whether the builder computes in f32 there."""
    return not any(word in case for word in ("fp16", "bf16", "cuda", "webgpu", "dml", "NvTensorRtRtx")) or "webgpu_fp32" in case


def peer_of(case):
    """The same numbers in a form that ONNX Runtime's CPU provider runs: weights by rows, norms outside GroupQueryAttention, the last of
    recurrent states."""
    words = [word for word in case.split() if "state_window" not in word]
    case = " ".join(words)
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
    # In f16 and bf16 rounding decides now and then which experts a token has: nine of ten steps then.
    return max(steps) if exact(case) or not np.isfinite(steps).all() else float(np.quantile(steps, 0.9))


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


# NAME: PRECISION PROVIDER OPTION=VALUE ...: every family in the precisions of a CPU, and options, on families that they are about.
CASES = [f"{name}: {kind} cpu" for name in built_models.CHECKPOINTS for kind in ("fp32", "int4")
         if (kind, name.split(",")[0]) not in (("fp32", "gpt oss"),)]
CASES += [f"{name}: {kind}" for name in ("llama", "qwen3", "phi3, long", "gemma2", "lfm2", "qwen3.5", "gpt oss, all experts", "whisper")
          for kind in ("fp16 cuda", "bf16 cuda", "int4 cuda", "int8 cuda", "int4 webgpu", "fp16 dml", "int4 dml", "fp16 NvTensorRtRtx",
                       "int4 NvTensorRtRtx", "int8 cpu")
          if name != "whisper" or kind == "fp16 cuda"]
CASES += [f"llama: int4 cpu {options}" for options in (
    "block_size=16", "block_size=64", "block_size=128", "is_symmetric=false", "algo_config=rtn", "algo_config=k_quant",
    "algo_config=k_quant_mixed", "algo_config=rtn_last is_symmetric=false", "algo_config=k_quant is_symmetric=false", "use_qdq=true",
    "use_qdq=true is_symmetric=false", "use_qdq=true algo_config=k_quant is_symmetric=false", "use_qdq=true block_size=128",
    "op_types_to_quantize=MatMul/Gather", "op_types_to_quantize=MatMul/Gather is_symmetric=false", "exclude_lm_head=true",
    "exclude_embeds=true", "include_hidden_states=true", "prune_lm_head=true", "fuse_qkv=false", "fuse_mlp_gate_up=true",
    "aux_hidden_state_layers=1")]
CASES += [
    "llama: int8 cpu algo_config=k_quant", "llama: int8 cpu block_size=128 is_symmetric=false", "llama, tied: int8 cpu is_symmetric=false",
    "llama, tied: int4 cpu shared_embeddings=false", "llama, tied: int4 cpu algo_config=k_quant", "llama, tied: int4 cpu algo_config=rtn_last",
    "llama: int4 cuda enable_cuda_graph=true", "llama: int4 webgpu enable_webgpu_graph=true", "llama: int4 webgpu use_webgpu_fp32=true",
    "llama: int4 cuda use_cuda_bf16=true", "llama: int4 cuda matmulnbits_weights_prepacked=1",
    "llama: int8 cuda matmulnbits_weights_prepacked=1", "llama: int4 cuda matmulnbits_weights_prepacked=2 block_size=64",
    "phi3, long: int4 webgpu enable_webgpu_graph=true", "gemma2: fp32 cpu windowed_kv_cache=false",
    "qwen2.5 vl: int4 cpu exclude_embeds=true", "qwen3 vl: int4 cpu exclude_embeds=true", "gpt oss: int4 cpu moe_quant_type=int8",
    "gpt oss: int4 cpu qmoe_block_size=64", "gpt oss: int4 cpu qmoe_block_size=0", "gpt oss: int4 cpu is_symmetric=false",
    "gpt oss, all experts: int4 cuda moe_quant_type=int8", "gpt oss, all experts: int4 cuda qmoe_block_size=64",
    "gpt oss, all experts: int4 cuda qmoe_block_size=0", "gpt oss, all experts: int4 cuda moe_quant_type=int2 qmoe_block_size=64",
    "gpt oss, all experts: int4 cuda use_cuda_bf16=true", "gpt oss, all experts: int4 cuda moe_quant_type=mxfp4",
    "gpt oss, all experts: int4 cuda moe_quant_type=mxfp4 use_cuda_bf16=true", "lfm2 moe: int4 cuda", "qwen3.5 moe: int4 cuda",
    "qwen3.5 moe: int4 cpu moe_quant_type=int8", "qwen3.5: fp16 cuda linear_attn_op=gated_delta_net",
    "qwen3.5: fp32 cpu state_window=4"]


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
    print(f"ONNX Runtime {ort.__version__}; batch {arguments.batch}, a prompt of {arguments.prompt}, {arguments.steps} steps, two texts, a "
          f"cache of {arguments.length}\n")
    print("| model | apart at most, of the greatest |\n|---|---|")
    bad = []
    for case in arguments.cases or CASES:
        try:
            worst = compare(arguments, case)
            cell = f"{worst:.1e}"
            tolerance = 1e-4 if exact(case) else 5e-2 if "bf16" in case else 1e-2
            if not worst <= tolerance:
                bad.append(f"{case}: {worst:.1e} apart, more than {tolerance:g}")
        except ToolError as error:
            cell = f"not built: {error}"
        except (RuntimeError, NotRun) as error:
            cell = "failed"
            bad.append(f"{case}: {error}")
        print(f"| {case} | {cell} |", flush=True)
    return "\n".join(bad) or None


if __name__ == "__main__":
    sys.exit(main())
