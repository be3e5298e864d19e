#!/usr/bin/env python3
"""Models of an encoder and a decoder, exported from transformers as Optimum does it (an encoder, a decoder's first step,
its other steps), through `rondo generate`, against ONNX Runtime's greedy tokens. Sources of two texts, the first shorter.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxscript
  build/venv/bin/python tools/bench/ort_encoders.py
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime as ort
import torch

import exported_decoders
from exported_decoders import ENCODED, HEADS, LAYERS, SIZE, WITH_ENCODER, WORDS
from ort_peer import ROOT, compare_tokens, cpu_session

BATCH, SOURCE, START = 2, 9, 1
KINDS = [f"{layer}.{kind}.{part}" for layer in range(LAYERS) for kind in ("decoder", "encoder") for part in ("key", "value")]
OWN = [kind for kind in KINDS if "decoder" in kind]


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.encoder = model.get_encoder()

    def forward(self, source, attention_mask=None):
        more = {} if attention_mask is None else {"attention_mask": attention_mask}
        return self.encoder(source, **more).last_hidden_state


class First(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, encoder_hidden_states, encoder_attention_mask=None):
        out = self.model(decoder_input_ids=input_ids, encoder_outputs=(encoder_hidden_states,),
                         attention_mask=encoder_attention_mask, use_cache=True)
        cache, caches = out.past_key_values, []
        for layer in range(LAYERS):
            for one in (cache.self_attention_cache, cache.cross_attention_cache):
                caches += [one.layers[layer].keys, one.layers[layer].values]
        return (out.logits, *caches)


class Next(torch.nn.Module):
    """The encoder's output is in the caches: of what stands for it, only the shape is looked at."""

    def __init__(self, model, masked):
        super().__init__()
        self.decoder, self.masked = exported_decoders._WithEncoder(model), masked

    def forward(self, input_ids, *rest):
        mask, past = (rest[0], rest[1:]) if self.masked else (None, rest)
        hidden = past[2].new_zeros(past[2].shape[0], past[2].shape[2], HEADS * SIZE)
        return self.decoder(input_ids, hidden, *past, mask=mask)


def write(module, path, inputs, outputs, named):
    """inputs: name, example, dims that vary, of which the first `named` have names in Python; outputs: names and dims.
    Of whisper, the exporter that runs the model writes down the lengths that it saw."""
    names = {"input_names": [name for name, _, _ in inputs], "output_names": [name for name, _ in outputs]}
    tensors, dims = tuple(tensor for _, tensor, _ in inputs), [varying for _, _, varying in inputs]
    if "whisper" in str(path):
        shapes = (*dims[:named], tuple(dims[named:])) if dims[named:] else tuple(dims)
        torch.onnx.export(module.eval(), tensors, path, dynamic_shapes=shapes, opset_version=18, dynamo=True, verbose=False,
                          external_data=False, **names)
        return
    axes = {name: varying for name, _, varying in inputs} | dict(outputs)
    torch.onnx.export(module.eval(), tensors, path, dynamic_axes=axes, opset_version=17, dynamo=False, **names)


def export(name, folder):
    torch.manual_seed(3)
    model = WITH_ENCODER[name]().eval()
    for parameter in model.parameters():  # so that not every token follows itself
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.6)
    batch, rows = {0: "batch_size"}, {0: "batch_size", 1: "sequence_length"}
    source_dims, masked = {0: "batch_size", 1: "encoder_sequence_length"}, name != "whisper"
    length = SOURCE if masked else ENCODED[name]
    mask = ("attention_mask", torch.ones(2, length, dtype=torch.int64), source_dims)
    their_mask = [("encoder_" + mask[0], *mask[1:])] if masked else []
    if masked:
        sources = [("input_ids", torch.randint(0, WORDS, (2, length)), source_dims), mask]
    else:
        sources = [("input_features", torch.randn(2, model.config.num_mel_bins, 2 * length), batch)]
    hidden_dims = source_dims if masked else batch
    write(Encoder(model), folder / "encoder.onnx", sources, [("last_hidden_state", hidden_dims)], 2)
    ids = ("input_ids", torch.randint(0, WORDS, (2, 3)), rows)

    def dims(kind, length):
        return {0: "batch_size"} | ({2: length} if "decoder" in kind else {2: "encoder_sequence_length"} if masked else {})

    write(First(model), folder / "first.onnx",
          [ids, ("encoder_hidden_states", torch.randn(2, length, HEADS * SIZE), hidden_dims), *their_mask],
          [("logits", rows), *((f"present.{kind}", dims(kind, "sequence_length")) for kind in KINDS)], 3)
    past = [(f"past_key_values.{kind}", torch.randn(2, HEADS, 5 if "decoder" in kind else length, SIZE),
             dims(kind, "past_sequence_length")) for kind in KINDS]
    both = "past_sequence_length + sequence_length"
    write(Next(model, masked), folder / "decode.onnx", [ids, *their_mask, *past],
          [("logits", rows), *((f"present.{kind}", dims(kind, both)) for kind in OWN)], 1)


def given(session, arrays):
    return {port.name: arrays[port.name] for port in session.get_inputs()}


def greedy(folder, sources, prompt, steps):
    """ONNX Runtime's tokens behind the prompt: [batch, steps]."""
    encoder, first, decode = (cpu_session(folder / f"{name}.onnx", 1) for name in ("encoder", "first", "decode"))
    arrays = sources | {"encoder_hidden_states": encoder.run(None, given(encoder, sources))[0], "input_ids": prompt}
    arrays["encoder_attention_mask"] = sources.get("attention_mask")
    tokens, session = [], first
    for _ in range(steps):
        out = dict(zip([port.name for port in session.get_outputs()], session.run(None, given(session, arrays))))
        arrays |= {name.replace("present", "past_key_values"): array for name, array in out.items()}
        tokens.append(out["logits"][:, -1:].argmax(-1))
        arrays["input_ids"], session = tokens[-1], decode
    return np.concatenate(tokens, 1)


def compile_plan(arguments, folder, masked, prompt):
    command = [arguments.binaries / "rondo", "compile", *(f"{name}={folder / name}.onnx" for name in ("first", "decode")),
               f"encode={folder}/encoder.onnx", "-o", folder / "plan.rondo", "--cache-length", arguments.length,
               "--shape", f"batch_size={BATCH}", "--shape", f"first:sequence_length={prompt}", "--shape",
               "decode:sequence_length=1", *arguments.compile.split()]
    if masked:
        command += ["--shape", f"encoder_sequence_length={SOURCE}"]
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())


def compare(arguments, name):
    """How many tokens of `rondo generate` are not ONNX Runtime's, and how many different ones there are."""
    folder = ROOT / "build/encoders" / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "decode.onnx").exists():
        export(name, folder)
    random, masked = np.random.default_rng(arguments.seed), name != "whisper"
    prompt = np.concatenate([np.full((BATCH, 1), START), random.integers(0, WORDS, (BATCH, arguments.prompt - 1))], 1)
    command = [arguments.binaries / "rondo", "generate", folder / "plan.rondo", "--ids", "--json", "--max-tokens",
               arguments.steps, "--start", START]
    for row in prompt[:, 1:] if arguments.prompt > 1 else []:
        command += ["--prompt", " ".join(map(str, row))]
    if masked:
        mask = (np.arange(SOURCE) < np.array([[SOURCE - 3], [SOURCE]])).astype(np.int64)
        sources = {"input_ids": random.integers(0, WORDS, (BATCH, SOURCE)) * mask, "attention_mask": mask}
        for row, real in zip(sources["input_ids"], mask.sum(1)):
            command += ["--source", " ".join(map(str, row[:real]))]
    else:
        shape = (BATCH, 8, 2 * ENCODED[name])
        sources = {"input_features": random.standard_normal(shape).astype(np.float32)}
        np.save(folder / "features.npy", sources["input_features"])
        command += ["--input", f"input_features={folder}/features.npy"]
    expected = greedy(folder, sources, prompt, arguments.steps)
    compile_plan(arguments, folder, masked, min(arguments.prompt, 2))
    said = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise RuntimeError(said.stderr.strip())
    got = np.array([text["tokens"] for text in json.loads(said.stdout)["texts"]])
    return int((got != expected).sum()), len(np.unique(expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=", ".join(WITH_ENCODER))
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=1, help="tokens of it, the first of which starts every text")
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", default="--sample logits", help="more options of rondo compile")
    arguments = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}, torch {torch.__version__}, transformers {exported_decoders.t.__version__}; "
          f"{BATCH} texts, {arguments.steps} tokens behind a prompt of {arguments.prompt}\n")
    print("| model | tokens that differ | different tokens |\n|---|---|---|")
    return compare_tokens(arguments.models or WITH_ENCODER, lambda name: compare(arguments, name))


if __name__ == "__main__":
    sys.exit(main())
