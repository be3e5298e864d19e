"""Models that compute with the number of cached positions (cases/length_models.py): the results are the same at every number, or the model is refused.

A prompt, --steps tokens and another text run in one session over a cache of a fixed length. Anything except equal results or a refusal
with one sentence is an error of Rondo. Cases are selected by the beginning of their names: 'mask: a branch', 'shapes:'.
"""
import numpy as np
import onnx

import length_models
from decoder_models import WORDS
from peer import cpu_session, folder_for, off, within
from rondo_session import Session
from walk import Growing, compile_decoder, inputs_at, walk

TAKES = ("steps", "prompt", "batch", "length")
DEFAULTS = {"steps": 16, "length": 32}
HEADS = ("apart at most, of the greatest, or refused",)
COUNTS = {"the same": 0, "refused": 0, "neither": 0}


def declare(parser):
    parser.add_argument("--tolerance", type=float, default=1e-4)


def cases(arguments):
    return [name for name in length_models.ALL if any(name.startswith(start) for start in arguments.cases or [""])]


def compare(arguments, name):
    folder = folder_for("lengths", name)
    path, plan = folder / "model.onnx", folder / "plan.rondo"
    onnx.save(length_models.ALL[name](), path)
    peer = cpu_session(path)  # made first, because ONNX Runtime refuses some models
    try:
        compile_decoder(arguments, path, plan)
        session, random = Session(arguments.binaries.parent / "lib", plan), np.random.default_rng(1)
        worst = max(text(arguments, Growing(peer, arguments.batch), session, random) for _ in range(2))
        session.close()
    except RuntimeError as error:
        said = str(error).strip().splitlines()
        refused = len(said) == 1 and ("--cache-length" in said[0] or "only a run knows" in said[0])
        COUNTS["refused" if refused else "neither"] += 1
        return f"{'refused' if refused else 'failed'}: {' '.join(said)}", None if refused else str(error)
    COUNTS["the same" if worst <= arguments.tolerance else "neither"] += 1
    return within(worst, arguments.tolerance)


def text(arguments, growing, session, random):
    def inputs(_, tokens, done):
        total = done + tokens.shape[1]
        bias = random.standard_normal((arguments.batch, 1, tokens.shape[1], arguments.length)).astype(np.float32)
        return inputs_at(arguments, tokens, done) | {
            "attention_bias": bias, "seqlens_k": np.full(arguments.batch, total - 1, np.int32), "total_sequence_length": np.array(total, np.int32)}

    apart, size = 0.0, 0.0
    for _, expected, got in walk(arguments, growing, session, random.integers(0, WORDS, (arguments.batch, arguments.prompt)), inputs):
        apart, size = max(apart, off(got["logits"], expected["logits"])), max(size, float(np.abs(expected["logits"]).max()))
        if "shown" in expected:  # 0 after the last real position
            shown = np.where(np.isfinite(expected["shown"]), expected["shown"], 0)
            shown = np.pad(shown, [(0, 0)] * (shown.ndim - 1) + [(0, arguments.length - shown.shape[-1])])
            apart = max(apart, off(np.where(np.isfinite(got["shown"]), got["shown"], 0), shown))
    return apart / size


def finish():
    return "\n" + ", ".join(f"{count} {what}" for what, count in COUNTS.items())
