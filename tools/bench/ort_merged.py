#!/usr/bin/env python3
"""Optimum's merged decoders (merged_models.py) through `rondo generate`, against ONNX Runtime's greedy tokens. Of those with
an encoder, sources of --batch texts, each shorter than the one before; prompts are of one token there, else of --prompt.

  tools/setup --venv
  build/venv/bin/python tools/bench/ort_merged.py
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort

import merged_models
from decoder_models import ENCODED, HEADS, HIDDEN, SIZE, WORDS
from ort_peer import ROOT, compare_tokens, cpu_session

SOURCE = 9


def greedy(arguments, folder, prompt, sources):
    session = cpu_session(folder / "model.onnx", 1)
    wanted = [port.name for port in session.get_inputs()]
    outputs = [port.name for port in session.get_outputs()]
    batch, given = len(prompt), {}
    if "encoder_hidden_states" in wanted:
        given["encoder_hidden_states"] = sources["hidden"]
    if "encoder_attention_mask" in wanted:
        given["encoder_attention_mask"] = sources["mask"]
    past = {name: np.zeros((batch, HEADS, 1, SIZE), np.float32) for name in wanted if name.startswith("past")}
    tokens, done, texts = prompt, 0, []
    for step in range(arguments.steps):
        total = done + tokens.shape[1]
        inputs = {"input_ids": tokens, "use_cache_branch": np.array([step > 0]), "attention_mask": np.ones((batch, total), np.int64),
                  "position_ids": np.broadcast_to(np.arange(done, total), tokens.shape)}
        results = dict(zip(outputs, session.run(None, {k: v for k, v in inputs.items() if k in wanted} | given | past)))
        for name in past:
            if step == 0 or ".encoder." not in name:
                past[name] = results[name.replace("past_key_values", "present")]
        tokens, done = results["logits"][:, -1:].argmax(-1), total
        texts.append(tokens)
    return np.concatenate(texts, 1)


def run(words):
    said = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())
    return said.stdout


def compare(arguments, name):
    """How many tokens are not ONNX Runtime's."""
    folder = ROOT / "build/merged" / "".join(c if c.isalnum() else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(merged_models.ALL[name](), folder / "model.onnx")
    onnx.save(merged_models.encoder(), folder / "encoder.onnx")
    random, batch = np.random.default_rng(arguments.seed), arguments.batch
    encoded, whisper = any(form in name for form in ("bart", "t5", "whisper")), "whisper" in name
    prompt = random.integers(0, WORDS, (batch, 1 if encoded else arguments.prompt))
    model, shapes = folder / "model.onnx", ["--shape", f"batch_size={batch}"]
    programs, given = [f"first={model}", f"decode={model}"], []
    sources = {}
    if encoded and not whisper:
        lengths = [SOURCE - i for i in range(batch)]
        ids = [random.integers(0, WORDS, n) for n in lengths]
        mask = (np.arange(SOURCE)[None] < np.array(lengths)[:, None]).astype(np.int64)
        padded = np.array([np.pad(i, (0, SOURCE - len(i))) for i in ids])
        hidden = cpu_session(folder / "encoder.onnx", 1).run(None, {"input_ids": padded, "attention_mask": mask})[0]
        sources = {"hidden": hidden, "mask": mask}
        programs.insert(0, f"encode={folder / 'encoder.onnx'}")
        shapes += ["--shape", f"encoder_sequence_length={SOURCE}", "--shape", f"encoder_sequence_length_out={SOURCE}"]
        for row in ids:
            given += ["--source", " ".join(map(str, row))]
    elif whisper:
        sources = {"hidden": random.standard_normal((batch, ENCODED, HIDDEN)).astype(np.float32)}
        shapes += ["--shape", f"encoder_sequence_length_out={ENCODED}"]
        np.save(folder / "hidden.npy", sources["hidden"])
        given = ["--input", f"encoder_hidden_states={folder / 'hidden.npy'}"]
    expected = greedy(arguments, folder, prompt, sources)
    run([arguments.binaries / "rondo", "compile", *programs, "-o", folder / "plan.rondo", "--cache-length", arguments.length,
         "--bind", "first:use_cache_branch=false", "--bind", "decode:use_cache_branch=true", *shapes,
         "--shape", f"first:sequence_length={arguments.first or prompt.shape[1]}", "--shape", "decode:sequence_length=1",
         *(["--sample", "logits"] if arguments.sample else []), *arguments.compile.split()])
    for row in prompt:
        given += ["--prompt", " ".join(map(str, row))]
    said = run([arguments.binaries / "rondo", "generate", folder / "plan.rondo", "--ids", "--json", "--max-tokens",
                arguments.steps, *given])
    got = np.array([text["tokens"] for text in json.loads(said)["texts"]])
    return int((got != expected).sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(merged_models.ALL))
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--first", type=int, default=0,
                        help="tokens that the first program reads, without an encoder; else as many as a prompt has")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", action="store_true", help="tokens are drawn on the device")
    parser.add_argument("--compile", default="", help="more options of rondo compile: '--target cuda:sm_90a'")
    arguments = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}; batch {arguments.batch}, {arguments.steps} steps, a cache of {arguments.length}\n")
    print("| model | tokens that differ |\n|---|---|")
    return compare_tokens(arguments.models or merged_models.ALL, lambda name: (compare(arguments, name),))


if __name__ == "__main__":
    sys.exit(main())
