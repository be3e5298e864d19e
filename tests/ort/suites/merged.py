"""Counts tokens of `rondo generate` that differ from ONNX Runtime's, for Optimum's merged decoders (cases/merged_models.py).

An If chooses between a text's first step and its later ones. Models with an encoder get sources of --batch texts, each shorter than the one before, and
prompts of one token; the others get prompts of --prompt tokens.
"""
import numpy as np
import onnx

import merged_models
from decoder_models import ENCODED, HEADS as ATTENTION_HEADS, HIDDEN, SIZE, WORDS
from peer import arrays_of, cpu_session, folder_for, generated, named, none_of, outputs_of, rondo, shapes, texts_of
from walk import present_of

TAKES = ("steps", "prompt", "batch", "length")
DEFAULTS = {"steps": 64, "batch": 2}
HEADS = ("tokens that differ",)
SOURCE = 9


def declare(parser):
    parser.add_argument("--first", type=int, default=0, help="tokens that the first program reads, without an encoder; else as many as a prompt has")
    parser.add_argument("--sample", action="store_true", help="tokens are drawn on the device")


def cases(arguments):
    return named(arguments, merged_models.ALL)


def greedy(arguments, folder, prompt, given):
    session = cpu_session(folder / "model.onnx")
    past = {port.name: np.zeros((len(prompt), ATTENTION_HEADS, 1, SIZE), np.float32) for port in session.get_inputs() if port.name.startswith("past")}
    tokens, done, said = prompt, 0, []
    for step in range(arguments.steps):
        total = done + tokens.shape[1]
        results = outputs_of(session, given | past | {
            "input_ids": tokens, "use_cache_branch": np.array([step > 0]), "position_ids": np.broadcast_to(np.arange(done, total), tokens.shape),
            "attention_mask": np.ones((len(prompt), total), np.int64)})
        past |= {name: results[present_of(name)] for name in past if step == 0 or ".encoder." not in name}
        tokens, done = results["logits"][:, -1:].argmax(-1), total
        said.append(tokens)
    return np.concatenate(said, 1)


def compare(arguments, name):
    folder = folder_for("merged", name)
    model, encoder, plan = folder / "model.onnx", folder / "encoder.onnx", folder / "plan.rondo"
    onnx.save(merged_models.ALL[name](), model)
    onnx.save(merged_models.encoder(), encoder)
    random, batch = np.random.default_rng(arguments.seed), arguments.batch
    encoded = any(form in name for form in ("bart", "t5", "whisper"))
    prompt = random.integers(0, WORDS, (batch, 1 if encoded else arguments.prompt))
    programs, sizes, words, given = [f"first={model}", f"decode={model}"], {"batch_size": batch}, texts_of("--prompt", prompt), {}
    if "whisper" in name:
        given = {"encoder_hidden_states": random.standard_normal((batch, ENCODED, HIDDEN)).astype(np.float32)}
        sizes["encoder_sequence_length_out"] = ENCODED
        words += arrays_of(folder, given)
    elif encoded:
        ids = [random.integers(0, WORDS, SOURCE - i) for i in range(batch)]
        mask = (np.arange(SOURCE)[None] < np.array([len(i) for i in ids])[:, None]).astype(np.int64)
        padded = np.array([np.pad(i, (0, SOURCE - len(i))) for i in ids])
        hidden = cpu_session(encoder).run(None, {"input_ids": padded, "attention_mask": mask})[0]
        given = {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        programs.insert(0, f"encode={encoder}")
        sizes |= {"encoder_sequence_length": SOURCE, "encoder_sequence_length_out": SOURCE}
        words += texts_of("--source", ids)
    expected = greedy(arguments, folder, prompt, given)
    rondo(arguments, "compile", *programs, "-o", plan, "--cache-length", arguments.length, "--bind", "first:use_cache_branch=false",
          "--bind", "decode:use_cache_branch=true", *shapes(sizes | {"first:sequence_length": arguments.first or prompt.shape[1], "decode:sequence_length": 1}),
          *(["--sample", "logits"] if arguments.sample else []), *arguments.compile.split())
    return none_of(int((generated(arguments, plan, *words) != expected).sum()))
