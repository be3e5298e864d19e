"""Encoders with decoders (T5, BART, Marian, Whisper) as Optimum exports them, by `rondo generate`: tokens that differ.

Small models from transformers (cases/exported_decoders.py): an encoder, a decoder's first step and its other steps are three files. Sources of two texts, the first
shorter; tokens are compared with ONNX Runtime's greedy ones.

  tools/setup --venv && build/venv/bin/pip install torch transformers onnxscript
"""
import numpy as np
import torch

import exported_decoders
from exported_decoders import ENCODED, HEADS as ATTENTION_HEADS, LAYERS, SIZE, WITH_ENCODER, WORDS
from peer import arrays_of, cpu_session, folder_for, generated, named, outputs_of, rondo, shapes, texts_of

TAKES = ("steps", "prompt", "length")
DEFAULTS = {"steps": 64, "prompt": 1, "compile": "--sample logits"}
HEADS = ("tokens that differ", "different tokens")
BATCH, SOURCE, START = 2, 9, 1
KINDS = [f"{layer}.{kind}.{part}" for layer in range(LAYERS) for kind in ("decoder", "encoder") for part in ("key", "value")]
OWN = [kind for kind in KINDS if "decoder" in kind]


def cases(arguments):
    return named(arguments, WITH_ENCODER)


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
    """The caches hold the encoder's output; of the input in its place only the shape is used."""

    def __init__(self, model, masked):
        super().__init__()
        self.decoder, self.masked = exported_decoders._WithEncoder(model), masked

    def forward(self, input_ids, *rest):
        mask, past = (rest[0], rest[1:]) if self.masked else (None, rest)
        hidden = past[2].new_zeros(past[2].shape[0], past[2].shape[2], ATTENTION_HEADS * SIZE)
        return self.decoder(input_ids, hidden, *past, mask=mask)


def write(module, path, inputs, outputs, with_names):
    """`inputs`: (name, example, dims that vary); the first `with_names` have names in Python. `outputs`: names and dims. For whisper, the
    tracing exporter fixes the lengths that it saw."""
    names = {"input_names": [name for name, _, _ in inputs], "output_names": [name for name, _ in outputs]}
    tensors, dims = tuple(tensor for _, tensor, _ in inputs), [varying for _, _, varying in inputs]
    if "whisper" in str(path):
        varying = (*dims[:with_names], tuple(dims[with_names:])) if dims[with_names:] else tuple(dims)
        torch.onnx.export(module.eval(), tensors, path, dynamic_shapes=varying, opset_version=18, dynamo=True, verbose=False,
                          external_data=False, **names)
        return
    axes = {name: varying for name, _, varying in inputs} | dict(outputs)
    torch.onnx.export(module.eval(), tensors, path, dynamic_axes=axes, opset_version=17, dynamo=False, **names)


def export(name, folder):
    torch.manual_seed(3)
    model = WITH_ENCODER[name]().eval()
    for parameter in model.parameters():  # so that tokens do not just repeat
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
          [ids, ("encoder_hidden_states", torch.randn(2, length, ATTENTION_HEADS * SIZE), hidden_dims), *their_mask],
          [("logits", rows), *((f"present.{kind}", dims(kind, "sequence_length")) for kind in KINDS)], 3)
    past = [(f"past_key_values.{kind}", torch.randn(2, ATTENTION_HEADS, 5 if "decoder" in kind else length, SIZE),
             dims(kind, "past_sequence_length")) for kind in KINDS]
    both = "past_sequence_length + sequence_length"
    write(Next(model, masked), folder / "decode.onnx", [ids, *their_mask, *past],
          [("logits", rows), *((f"present.{kind}", dims(kind, both)) for kind in OWN)], 1)


def greedy(folder, sources, prompt, steps):
    """ONNX Runtime's tokens after the prompt: [batch, steps]."""
    encoder, first, decode = (cpu_session(folder / f"{name}.onnx") for name in ("encoder", "first", "decode"))
    arrays = sources | {"encoder_hidden_states": outputs_of(encoder, sources)["last_hidden_state"], "input_ids": prompt,
                        "encoder_attention_mask": sources.get("attention_mask")}
    tokens, session = [], first
    for _ in range(steps):
        out = outputs_of(session, arrays)
        arrays |= {name.replace("present", "past_key_values"): array for name, array in out.items()}
        tokens.append(out["logits"][:, -1:].argmax(-1))
        arrays["input_ids"], session = tokens[-1], decode
    return np.concatenate(tokens, 1)


def compare(arguments, name):
    folder = folder_for("encoders", name)
    if not (folder / "decode.onnx").exists():
        export(name, folder)
    random, masked, plan = np.random.default_rng(arguments.seed), name != "whisper", folder / "plan.rondo"
    prompt = np.concatenate([np.full((BATCH, 1), START), random.integers(0, WORDS, (BATCH, arguments.prompt - 1))], 1)
    words = ["--start", START, *(texts_of("--prompt", prompt[:, 1:]) if arguments.prompt > 1 else [])]
    if masked:
        mask = (np.arange(SOURCE) < np.array([[SOURCE - 3], [SOURCE]])).astype(np.int64)
        sources = {"input_ids": random.integers(0, WORDS, (BATCH, SOURCE)) * mask, "attention_mask": mask}
        words += texts_of("--source", [row[:real] for row, real in zip(sources["input_ids"], mask.sum(1))])
    else:
        sources = {"input_features": random.standard_normal((BATCH, 8, 2 * ENCODED[name])).astype(np.float32)}
        words += arrays_of(folder, sources)
    expected = greedy(folder, sources, prompt, arguments.steps)
    sizes = {"batch_size": BATCH, "first:sequence_length": min(arguments.prompt, 2), "decode:sequence_length": 1}
    rondo(arguments, "compile", *(f"{program}={folder / file}.onnx" for program, file in (("first", "first"), ("decode", "decode"), ("encode", "encoder"))),
          "-o", plan, "--cache-length", arguments.length, *shapes(sizes | ({"encoder_sequence_length": SOURCE} if masked else {})),
          *arguments.compile.split())
    differ = int((generated(arguments, plan, *words) != expected).sum())
    return [str(differ), str(len(np.unique(expected)))], f"{differ} tokens are not ONNX Runtime's" if differ else None
