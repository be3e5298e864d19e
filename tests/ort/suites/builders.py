"""Decoders as onnxruntime-genai's model builder writes them, in every precision, for every provider, with its options.

The builder itself, on small checkpoints with random weights (cases/built_models.py: 30 families); caches of a fixed length against ONNX Runtime's growing
ones: a prompt and --steps tokens, two texts in one session. What a builder writes in f16 or bf16 is compared with the same numbers in f32. ONNX Runtime
rounds what goes into a MatMulNBits to 8 bits where accuracy_level is 4; the peer is told not to. Builds are kept in build/builders.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxruntime-genai onnx-ir
  build/venv/bin/python tests/ort/run builders 'qwen3: int4 cpu algo_config=k_quant'      # 'NAME: PRECISION PROVIDER OPTION=VALUE ...'
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto

import built_models
from checkpoints import ToolError
from peer import ROOT, WHOLE, LeftOut, arrays_of, cpu_session, generated, none_of, off, outputs_of, rondo, shapes, within
from rondo_session import Session
from walk import Growing, compile_decoder, inputs_at, walk
from widened import widened

TAKES = ("steps", "prompt", "batch", "length")
HEADS = ("apart at most, of the greatest",)
# Every family in the CPU's precisions, and each option on the families that it concerns.
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


def declare(parser):
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/builders")


def cases(arguments):
    return arguments.cases or CASES


def exact(case):
    """Whether the builder computes this case in f32."""
    return not any(word in case for word in ("fp16", "bf16", "cuda", "webgpu", "dml", "NvTensorRtRtx")) or "webgpu_fp32" in case


def peer_of(case):
    """The same model in a form that ONNX Runtime's CPU provider runs: weights by rows, norms outside GroupQueryAttention, only the last
    recurrent state."""
    words = [word for word in case.split() if "state_window" not in word]
    case = " ".join(words)
    if " cuda" not in case and " webgpu" not in case:
        return case
    words = [word for word in words if "weights_prepacked" not in word and "fuse_qk_norm_gqa" not in word]
    return " ".join([*words, "fuse_qk_norm_gqa=false", *(["qmoe_weights_prepacked=0"] if "cuda" in words else [])])


def built(arguments, case):
    name, _, words = case.partition(": ")
    precision, provider, *options = words.split()
    folder = arguments.folder / "_".join("".join(c if c.isalnum() else " " for c in name).split())
    try:
        return built_models.build(name, folder, precision, provider, options)
    except ToolError as error:
        raise LeftOut(f"not built: {error}") from error


def steps_apart(arguments, session, peer, words=built_models.WORDS, hidden=built_models.HEADS * built_models.SIZE, optimised=True):
    """Runs two texts through both. Returns for each step the largest difference relative to the largest value. `optimised`: see cpu_session."""
    random, embedded = np.random.default_rng(arguments.seed), np.random.default_rng(5).standard_normal((words, hidden)).astype(np.float32)
    sizes, apart = {"kv_cache_dim": built_models.SIZE, "past_sliding_length": built_models.SLIDING}, []
    for _ in range(2):
        growing = Growing(cpu_session(peer, 1, WHOLE, optimised), arguments.batch, sizes)
        session.reset()

        def inputs(_, tokens, done):
            given = inputs_at(arguments, tokens, done)
            if "position_ids" in growing.ports and len(growing.ports["position_ids"].shape) == 3:
                given["position_ids"] = np.broadcast_to(given["position_ids"], (3, *tokens.shape))
            return given | {"inputs_embeds": embedded[tokens]}

        for _, expected, got in walk(arguments, growing, session, random.integers(3, words, (arguments.batch, arguments.prompt)), inputs, words=words):
            apart.append(max(off(array, expected[name]) / np.abs(expected[name]).max() for name, array in got.items() if name in expected))
    return apart


def compare(arguments, case):
    made, like = built(arguments, case), built(arguments, peer_of(case))
    if case.startswith("whisper"):
        return none_of(whisper(arguments, made, like))
    peer = like / "peer.onnx"
    if not peer.exists():
        widened(like / "model.onnx", peer)
    compile_decoder(arguments, made / "model.onnx", made / "plan.rondo")
    session = Session(arguments.binaries.parent / "lib", made / "plan.rondo")
    steps = steps_apart(arguments, session, peer)
    session.close()
    # In f16 and bf16, rounding sometimes changes a token's experts, so only nine of ten steps must agree.
    worst = max(steps) if exact(case) or not np.isfinite(steps).all() else float(np.quantile(steps, 0.9))
    return within(worst, 1e-4 if exact(case) else 5e-2 if "bf16" in case else 1e-2)


def whisper(arguments, made, like):
    """The number of tokens from `rondo generate` that differ from ONNX Runtime's: [frames] through the encoder, then token by token."""
    features = np.random.default_rng(arguments.seed).standard_normal((1, 80, 3000)).astype(np.float32)
    narrow = onnx.load(made / "encoder.onnx", load_external_data=False).graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    for name in ("encoder", "decoder"):
        if not (like / f"{name}_peer.onnx").exists():
            widened(like / f"{name}.onnx", like / f"{name}_peer.onnx")
    encoder, decoder = (cpu_session(like / f"{name}_peer.onnx", 1, WHOLE) for name in ("encoder", "decoder"))
    given = {name.replace("present", "past"): array for name, array in outputs_of(encoder, {"audio_features": features}).items() if "cross" in name}
    given |= {port.name: np.zeros((1, built_models.HEADS, 0, built_models.SIZE), np.float32) for port in decoder.get_inputs() if "self" in port.name}
    given["input_ids"], said = np.array([[1]], np.int32), []
    for _ in range(arguments.steps):
        results = outputs_of(decoder, given)
        given |= {name.replace("present", "past"): array for name, array in results.items() if "present" in name}
        given["input_ids"] = results["logits"][:, -1:].argmax(-1).astype(np.int32)
        said.append(int(given["input_ids"][0, 0]))
    plan = made / "plan.rondo"
    rondo(arguments, "compile", f"encode={made / 'encoder.onnx'}", f"decode={made / 'decoder.onnx'}", "-o", plan, "--cache-length", arguments.length,
          *shapes({"batch_size": 1, "decode:sequence_length": 1}), "--sample", "logits", *arguments.compile.split())
    got = generated(arguments, plan, "--start", 1, *arrays_of(made, {"audio_features": features.astype(np.float16) if narrow else features}))
    return sum(a != b for a, b in zip(got[0], said))
