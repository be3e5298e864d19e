"""Decoders quantised statically by ONNX Runtime's own tool: distances between steps, and the number of equal ones.

Models of cases/decoder_models.py in the forms of cases/quantised_statically.py, with a cache of a fixed length, against ONNX Runtime, whose operators are
each what its definition says (without fusion). Prompt and --steps tokens of two texts in one session. Each cell: how far logits are apart at most, of the
greatest; and how many steps are the same (to 1e-5). Where results differ, a float fell next to a half, and was rounded to the next
number of 8 or 16 bits; what is cached keeps that. That nothing else tells the two apart is compared to the bit: the second text in a
session with a longer cache that holds nothing yet gives the same logits as behind the first text. Needs no torch.

  build/venv/bin/python tests/ort/run quantised_decoders gpt2 opt --kinds 'QDQ, u8 s8' --batch 2 --prompt 7 --pads 2
"""
import logging

import numpy as np
import onnx
import onnxruntime as ort

import decoder_models
import quantised_statically
from peer import LeftOut, cpu_session, folder_for, off, slug
from rondo_session import Session, run_fitted
from walk import Growing, compile_decoder, inputs_at, walk

TAKES = ("steps", "prompt", "batch", "length")
ALL = decoder_models.ALL | {f"{name}, masks of {least:g}": lambda f=f, least=least: f(least=least) for least in (-1e4, -30) for name, f in
                            (("optimum", decoder_models.optimum), ("opt", decoder_models.opt), ("neox", decoder_models.neox))}
MODELS = ["optimum", "optimum, masks of -30", "gpt2", "opt", "opt, masks of -30", "neox", "neox, masks of -10000", "gpt2, MultiHeadAttention",
          "gpt2, Attention", "Attention of opset 23", "whisper"]
TOLERANCE = 0.1  # a few 8-bit steps through two layers of random weights


def declare(parser):
    parser.add_argument("--kinds", nargs="*", default=[kind for kind in quantised_statically.ALL if "percentiles" not in kind])
    parser.add_argument("--pads", type=int, default=0, help="how many tokens of the first text are padding, on the left")


def columns(arguments):
    """Columns are models; rows are forms."""
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(3)
    unknown = [name for name in arguments.cases if name not in ALL]
    if unknown:
        arguments.parser.error(f"no model is called {', '.join(map(repr, unknown))}; there are: {'; '.join(ALL)}")
    return arguments.cases or MODELS


def cases(arguments):
    return arguments.kinds


def feeds_of(model):
    """Inputs for calibration: prompts and steps, with few and many cached positions."""
    ports = [(p.name, [d.dim_param or d.dim_value for d in p.type.tensor_type.shape.dim]) for p in model.graph.input]

    def feed(past, rows, random):
        sizes, given = {"batch_size": 1, "past_sequence_length": past, "sequence_length": rows, "past_sequence_length + sequence_length": past + rows}, {}
        for name, dims in ports:
            shape = [sizes[d] if isinstance(d, str) else d for d in dims]
            if name == "input_ids":
                given[name] = random.integers(0, decoder_models.WORDS, shape)
            elif name == "attention_mask":
                given[name] = np.ones(shape, np.int64)
            elif name == "position_ids":
                given[name] = np.broadcast_to(np.arange(past, past + shape[-1]), shape).copy()
            else:
                given[name] = random.standard_normal(shape).astype(np.float32)
        return given

    def feeds():
        random = np.random.default_rng(9)
        return [feed(past, rows, random) for past, rows in ((0, 5), (1, 1), (20, 1), (8, 7))]

    return feeds


def compare(arguments, kind, name):
    folder = folder_for("quantised_decoders", name)
    path, out = folder / "model.onnx", folder / f"{slug(kind)}.onnx"
    model, longer = ALL[name](), arguments.length + 31
    onnx.save(model, path)
    try:
        quantised_statically.ALL[kind](path, out, feeds_of(model))
    except Exception as error:  # whatever the tool says
        raise LeftOut(f"not made: {type(error).__name__}: {str(error)[:80]}") from error

    def inputs(_, tokens, done, length=None):
        given = inputs_at(arguments, tokens, done, length)
        given["attention_mask"][0, :arguments.pads] = 0
        return given

    peer, random, steps, libraries = cpu_session(out, optimised=False), np.random.default_rng(arguments.seed), [], arguments.binaries.parent / "lib"
    plans = [out.with_suffix(f".{length}.rondo") for length in (arguments.length, longer)]
    for plan, length in zip(plans, (arguments.length, longer)):
        compile_decoder(arguments, out, plan, length=length)
    session = Session(libraries, plans[0])
    for _ in range(2):
        growing, runs, apart, size = Growing(peer, arguments.batch), [], [], 0.0
        for tokens, expected, got in walk(arguments, growing, session, random.integers(0, decoder_models.WORDS, (arguments.batch, arguments.prompt)),
                                          inputs):
            expected, size = expected["logits"], max(size, float(np.nanmax(np.abs(expected["logits"]))))
            seen = np.ones_like(expected, bool)  # padding attends to no position
            seen[0, :0 if runs else arguments.pads] = False
            apart.append(off(np.where(seen, got["logits"], 0), np.where(seen, expected, 0)))
            runs.append((tokens, got["logits"]))
        steps += [one / size for one in apart]
    session.close()
    session, done = Session(libraries, plans[1]), 0
    for step, (tokens, before) in enumerate(runs):
        fresh = run_fitted(session, "decode" if step else "prefill", inputs(arguments, tokens, done, longer) | growing.encoded)["logits"]
        if not np.array_equal(before, fresh, equal_nan=True):
            raise RuntimeError("what a text gives depends on what is behind it in the cache")
        done += tokens.shape[1]
    session.close()
    worst = max(steps)
    return f"{worst:.1e}, {np.mean(np.array(steps) <= 1e-5):.0%}", None if worst <= TOLERANCE else f"{worst:.1e} apart, more than {TOLERANCE:g}"
