#!/usr/bin/env python3
"""Models as optimum-onnx exports them (optimum_models.py), against ONNX Runtime: decoders with a cache of a fixed length, prompt and --steps
tokens of two texts in one session; pairs of an encoder and a decoder by `rondo generate`, in both forms (decoder_model and
decoder_with_past_model; decoder_model_merged); all others by outputs.

  tools/setup --venv && build/venv/bin/pip install torch 'transformers<4.58' optimum-onnx
  build/venv/bin/python tools/bench/ort_optimum.py
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import torch
import transformers
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument as NotRun

import optimum_models
from checkpoints import ToolError
from ort_builders import WHOLE, numbers, text
from ort_peer import ROOT, cpu_session
from rondo_session import Session, run_fitted

TOLERANCE = 1e-4
# What dims that exporters give names are here.
DIMS = {"batch_size": 2, "sequence_length": 9, "text_batch_size": 2, "image_batch_size": 2, "num_channels": 3, "encoder_sequence_length": 9,
        "point_batch_size": 2, "nb_points_per_image": 3, "feature_size": 8,
        "height": 64, "width": 64, "num_samples": 400, "audio_sequence_length": 400}


def run(words):
    said = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip() or f"rondo ended with {said.returncode}")
    return said.stdout


def dims_of(port):
    return [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim]


def example(port, shape, random):
    """What goes into an input of this name."""
    kind = port.type.tensor_type.elem_type
    if "mask" in port.name and "bool_masked_pos" != port.name:
        mask = np.ones(shape, np.int64)
        if len(shape) == 2 and shape[0] > 1 and shape[1] > 3:
            mask[0, -2:] = 0
        return mask.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    if kind in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        if "token_type" in port.name:
            return random.integers(0, 2, shape)
        if "position" in port.name:
            return np.broadcast_to(np.arange(shape[-1]), shape).copy()
        if "bbox" in port.name:
            return np.sort(random.integers(0, 60, shape), -1)
        if "labels" in port.name:
            return random.integers(0, 2, shape)
        return random.integers(3, optimum_models.WORDS, shape)
    if kind == onnx.TensorProto.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    return random.standard_normal(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


def outputs(arguments, path, peer_path, sizes, optimised=True):
    """How far outputs are apart at most, of the greatest of each."""
    model = onnx.load(path, load_external_data=False)
    made = {i.name for i in model.graph.initializer}
    ports = [port for port in model.graph.input if port.name not in made]
    random, given, words = np.random.default_rng(arguments.seed), {}, {}
    for port in ports:
        for d in dims_of(port):
            if isinstance(d, str):
                words[d] = sizes.get(d, DIMS.get(d))
                if words[d] is None:
                    raise RuntimeError(f"no size is known of {d!r} of input {port.name!r}")
        given[port.name] = example(port, [words.get(d, d) for d in dims_of(port)], random)
    plan = path.with_suffix(".rondo")
    peer = cpu_session(peer_path, 1, WHOLE, optimised)
    peer.run(None, peer_inputs(peer, given))
    run([arguments.binaries / "rondo", "compile", path, "-o", plan, *arguments.compile.split(),
         *(word for d, n in words.items() for word in ("--shape", f"{d}={n}"))])
    session = Session(arguments.binaries.parent / "lib", plan)
    worst = 0.0
    for _ in range(2):
        expected = dict(zip([o.name for o in peer.get_outputs()], peer.run(None, peer_inputs(peer, given))))
        got = run_fitted(session, "main", given)
        for name, array in expected.items():
            a, b = np.asarray(array), got[name]
            if a.shape != b.shape:
                raise RuntimeError(f"output {name!r} is {b.shape}, ONNX Runtime's {a.shape}")
            if a.dtype.kind == "f":
                b = numbers(b)
                if not np.array_equal(np.isnan(a), np.isnan(b)):
                    raise RuntimeError(f"output {name!r}: not the same numbers are NaN")
                same = (a == b) | np.isnan(a)
                off = np.where(same, 0, np.abs(np.where(same, 0, a) - np.where(same, 0, b)))
                size = np.abs(a[np.isfinite(a)]).max(initial=1e-30)
                worst = max(worst, float(off.max(initial=0) / size))
            else:
                worst = max(worst, float((a != b).mean()) if a.size else 0.0)
        given = {port.name: example(port, given[port.name].shape, random) for port in ports}
    session.close()
    return worst


def peer_inputs(peer, given):
    """The inputs in the types that the peer's own have."""
    return {port.name: given[port.name].astype(np.float32) if port.type == "tensor(float)" else given[port.name]
            for port in peer.get_inputs()}


def decoder(arguments, path, peer, optimised=True):
    plan = path.with_suffix(".rondo")
    run([arguments.binaries / "rondo", "compile", f"prefill={path}", f"decode={path}", "-o", plan, "--cache-length", arguments.length,
         "--shape", f"batch_size={arguments.batch}", "--shape", f"prefill:sequence_length={arguments.prompt}", "--shape",
         "decode:sequence_length=1", *arguments.compile.split()])
    session, random = Session(arguments.binaries.parent / "lib", plan), np.random.default_rng(arguments.seed)
    worst = max(step for _ in range(2) for step in text(arguments, peer, session, random, optimum_models.WORDS, optimum_models.HIDDEN, optimised))
    session.close()
    return worst


def source(encoder, random):
    """What a pair's encoder reads: two texts, the first shorter, or numbers."""
    given = {}
    for port in onnx.load(encoder, load_external_data=False).graph.input:
        sizes = {"encoder_sequence_length": 9, "height": 32, "width": 32}
        shape = [sizes.get(d, DIMS.get(d, d)) if isinstance(d, str) else d for d in dims_of(port)]
        given[port.name] = example(port, shape, random)
    if "input_ids" in given and "attention_mask" in given:
        given["attention_mask"][:] = 1
        given["attention_mask"][0, 6:] = 0
        given["input_ids"] *= given["attention_mask"]
    return given


def greedy(folder, given, start, steps):
    """ONNX Runtime's tokens, by decoder_model and decoder_with_past_model."""
    encoder, first, rest = (cpu_session(folder / f"{name}.onnx", 1) for name in (
        "encoder_model", "decoder_model", "decoder_with_past_model"))
    arrays = dict(zip([o.name for o in encoder.get_outputs()], encoder.run(None, given)))
    arrays = {"encoder_hidden_states": arrays["last_hidden_state"], "encoder_attention_mask": given.get("attention_mask"),
              "input_ids": np.full((2, 1), start)} | {k: v for k, v in arrays.items() if "attention_mask" in k}
    arrays["decoder_input_ids"] = arrays["input_ids"]
    tokens, session = [], first
    for _ in range(steps):
        wanted = {p.name: arrays[p.name] for p in session.get_inputs()}
        out = dict(zip([o.name for o in session.get_outputs()], session.run(None, wanted)))
        arrays |= {name.replace("present", "past_key_values"): array for name, array in out.items()}
        tokens.append(out["logits"][:, -1:].argmax(-1))
        arrays["input_ids"] = arrays["decoder_input_ids"] = tokens[-1]
        session = rest
    return np.concatenate(tokens, 1), arrays["encoder_hidden_states"].shape[1]


def pair(arguments, made, start, merged):
    """How many tokens of `rondo generate` are not ONNX Runtime's."""
    given = source(made / "encoder_model.onnx", np.random.default_rng(arguments.seed))
    expected, encoded = greedy(made, given, start, arguments.steps)
    if merged:
        model = made / "decoder_model_merged.onnx"
        programs = [f"first={model}", f"decode={model}", "--bind", "first:use_cache_branch=false", "--bind", "decode:use_cache_branch=true"]
    else:
        programs = [f"first={made / 'decoder_model.onnx'}", f"decode={made / 'decoder_with_past_model.onnx'}"]
    names, shapes = {}, []
    for port in onnx.load(made / "encoder_model.onnx", load_external_data=False).graph.input:
        names |= {f"encode:{d}": n for d, n in zip(dims_of(port), given[port.name].shape) if isinstance(d, str)}
    for path in made.glob("decoder_*.onnx"):
        for port in onnx.load(path, load_external_data=False).graph.input:
            for d in dims_of(port):
                if isinstance(d, str) and "past" not in d:
                    size = {"batch_size": 2, "decoder_sequence_length": 1}.get(d, encoded)
                    names |= {f"first:{d}": size, f"decode:{d}": size}
    mask = given.get("attention_mask")
    if mask is not None and mask.shape[1] != encoded:  # of what goes into the encoder, under the name of what comes out
        names |= {f"{program}:encoder_attention_mask": "x".join(map(str, mask.shape)) for program in ("first", "decode")}
    shapes = [word for d, n in names.items() for word in ("--shape", f"{d}={n}")]
    plan = made / "plan.rondo"
    run([arguments.binaries / "rondo", "compile", f"encode={made / 'encoder_model.onnx'}", *programs, "-o", plan, "--cache-length",
         arguments.length, *shapes, "--sample", "logits", *arguments.compile.split()])
    words = []
    if "input_ids" in given:
        for row, real in zip(given["input_ids"], given["attention_mask"].sum(1)):
            words += ["--source", " ".join(map(str, row[:real]))]
    else:
        for name, array in given.items():
            np.save(made / f"{name}.npy", array)
            words += ["--input", f"{name}={made / name}.npy"]
    said = run([arguments.binaries / "rondo", "generate", plan, "--ids", "--json", "--max-tokens", arguments.steps, "--start", start, *words])
    got = np.array([one["tokens"] for one in json.loads(said)["texts"]])
    return int((got != expected).sum())


def exported(name):
    """optimum-cli's export of the model of this name: its folder."""
    m, folder = optimum_models, ROOT / "build/optimum" / name.replace(" ", "_")
    if name in m.DECODERS:
        return m.export(name, m.DECODERS[name], "text-generation-with-past", folder)
    if name in m.PAIRS:
        return m.export(name, m.PAIRS[name], m.task_of(name), folder)
    return m.export(name, m.ENCODERS[name][1], m.ENCODERS[name][0], folder)


def compare(arguments, name):
    """What is in the table of a model, and whether that is as it should be."""
    m, made = optimum_models, exported(name)
    if name in m.DECODERS:
        worst = decoder(arguments, made / "model.onnx", made / "model.onnx")
        return f"{worst:.1e}", worst <= TOLERANCE
    if name in m.PAIRS:
        start = 0 if "t5" in name else 1
        differ = [pair(arguments, made, start, merged) for merged in (False, True)]
        return f"tokens that differ: {differ[0]}, merged: {differ[1]}", not any(differ)
    worst = [outputs(arguments, path, path, m.SIZES.get(name, {})) for path in sorted(made.glob("*.onnx"))]
    return ", ".join(f"{one:.1e}" for one in worst), max(worst) <= TOLERANCE


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="of optimum_models.py")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="", help="more options of rondo compile: '--target cuda:sm_90a'")
    arguments = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}, torch {torch.__version__}, transformers {transformers.__version__}; {arguments.steps} steps\n")
    print("| model | apart at most, of the greatest |\n|---|---|")
    bad = []
    for name in arguments.models or [*optimum_models.DECODERS, *optimum_models.PAIRS, *optimum_models.ENCODERS]:
        try:
            cell, good = compare(arguments, name)
            if not good:
                bad.append(f"{name}: {cell}")
        except ToolError as error:
            cell = f"not exported: {error}"
        except (RuntimeError, NotRun) as error:
            cell = "failed"
            bad.append(f"{name}: {error}")
        print(f"| {name} | {cell} |", flush=True)
    return "\n".join(bad) or None


if __name__ == "__main__":
    sys.exit(main())
