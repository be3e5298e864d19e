"""Models as `optimum-cli export onnx` writes them: decoders, encoders with decoders in both forms, and encoders of texts, images and sounds.

Small checkpoints (cases/optimum_models.py). Decoders with a cache of a fixed length, prompt and --steps tokens of two texts in one session; pairs of an encoder
and a decoder by `rondo generate`, in both forms (decoder_model and decoder_with_past_model; decoder_model_merged); all others by outputs. Exports are kept in build/optimum.

  tools/setup --venv && build/venv/bin/pip install torch 'transformers<4.58' optimum-onnx
"""
import numpy as np
import onnx

import optimum_models as m
from checkpoints import ToolError
from peer import (ROOT, WHOLE, LeftOut, arrays_of, cpu_session, generated, named, numbers, outputs_of, rondo, shapes, texts_of, within)
from rondo_session import Session, run_fitted
from suites.builders import steps_apart
from walk import compile_decoder

TAKES = ("steps", "prompt", "batch", "length")
HEADS = ("apart at most, of the greatest",)
TOLERANCE = 1e-4
# Sizes for the exporters' named dims.
DIMS = {"batch_size": 2, "sequence_length": 9, "text_batch_size": 2, "image_batch_size": 2, "num_channels": 3, "encoder_sequence_length": 9,
        "point_batch_size": 2, "nb_points_per_image": 3, "feature_size": 8,
        "height": 64, "width": 64, "num_samples": 400, "audio_sequence_length": 400}


def cases(arguments):
    return named(arguments, [*m.DECODERS, *m.PAIRS, *m.ENCODERS])


def exported(name):
    """Exports the model of this name with optimum-cli. Returns the folder."""
    folder = ROOT / "build/optimum" / name.replace(" ", "_")
    of = ((m.DECODERS[name], "text-generation-with-past") if name in m.DECODERS else (m.PAIRS[name], m.task_of(name)) if name in m.PAIRS
          else m.ENCODERS[name][::-1])
    try:
        return m.export(name, *of, folder)
    except ToolError as error:
        raise LeftOut(f"not exported: {error}") from error


def inputs_of(path):
    """The ports that are no initializers, with the names or sizes of their dims."""
    graph = onnx.load(path, load_external_data=False).graph
    made = {i.name for i in graph.initializer}
    return [(port, [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim]) for port in graph.input if port.name not in made]


def example(port, shape, random):
    """Values for an input of this name."""
    kind = port.type.tensor_type.elem_type
    if "mask" in port.name and "bool_masked_pos" != port.name:
        mask = np.ones(shape, np.int64)
        if len(shape) == 2 and shape[0] > 1 and shape[1] > 3:
            mask[0, -2:] = 0
        return mask.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    if kind in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        if "position" in port.name:
            return np.broadcast_to(np.arange(shape[-1]), shape).copy()
        if "bbox" in port.name:
            return np.sort(random.integers(0, 60, shape), -1)
        return random.integers(*((0, 2) if "token_type" in port.name or "labels" in port.name else (3, m.WORDS)), shape)
    if kind == onnx.TensorProto.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    return random.standard_normal(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


def outputs_apart(arguments, path, peer_path, sizes, optimised=True):
    """The largest difference of outputs, relative to the largest value of each."""
    ports, random, words = inputs_of(path), np.random.default_rng(arguments.seed), {}
    for port, dims in ports:
        for d in dims:
            if isinstance(d, str):
                words[d] = sizes.get(d, DIMS.get(d))
                if words[d] is None:
                    raise RuntimeError(f"no size is known of {d!r} of input {port.name!r}")
    plan, peer, worst = path.with_suffix(".rondo"), cpu_session(peer_path, 1, WHOLE, optimised), 0.0
    wide = {port.name for port in peer.get_inputs() if port.type == "tensor(float)"}  # with the peer's types
    session = None
    for _ in range(2):
        given = {port.name: example(port, [words.get(d, d) for d in dims], random) for port, dims in ports}
        expected = outputs_of(peer, {name: array.astype(np.float32) if name in wide else array for name, array in given.items()})
        if session is None:
            rondo(arguments, "compile", path, "-o", plan, *arguments.compile.split(), *shapes(words))
            session = Session(arguments.binaries.parent / "lib", plan)
        got = run_fitted(session, "main", given)
        worst = max(worst, *(apart(name, np.asarray(array), got[name]) for name, array in expected.items()))
    session.close()
    return worst


def apart(name, a, b):
    if a.shape != b.shape:
        raise RuntimeError(f"output {name!r} is {b.shape}, ONNX Runtime's {a.shape}")
    if a.dtype.kind != "f":
        return float((a != b).mean()) if a.size else 0.0
    b = numbers(b)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        raise RuntimeError(f"output {name!r}: not the same numbers are NaN")
    same = (a == b) | np.isnan(a)
    distance = np.where(same, 0, np.abs(np.where(same, 0, a) - np.where(same, 0, b)))
    return float(distance.max(initial=0) / np.abs(a[np.isfinite(a)]).max(initial=1e-30))


def decoder_apart(arguments, path, peer, optimised=True):
    plan = path.with_suffix(".rondo")
    compile_decoder(arguments, path, plan)
    session = Session(arguments.binaries.parent / "lib", plan)
    worst = max(steps_apart(arguments, session, peer, m.WORDS, m.HIDDEN, optimised))
    session.close()
    return worst


def source(encoder, random):
    """The input of a pair's encoder: two texts, the first shorter, or numbers."""
    sizes = DIMS | {"encoder_sequence_length": 9, "height": 32, "width": 32}
    given = {port.name: example(port, [sizes.get(d, d) for d in dims], random) for port, dims in inputs_of(encoder)}
    if "input_ids" in given and "attention_mask" in given:
        given["attention_mask"][:] = 1
        given["attention_mask"][0, 6:] = 0
        given["input_ids"] *= given["attention_mask"]
    return given


def greedy(folder, given, start, steps):
    """Returns ONNX Runtime's tokens from decoder_model and decoder_with_past_model, and the length of the encoder's output."""
    encoder, session, rest = (cpu_session(folder / f"{name}.onnx") for name in ("encoder_model", "decoder_model", "decoder_with_past_model"))
    out, tokens = outputs_of(encoder, given), []
    arrays = {"encoder_hidden_states": out["last_hidden_state"], "encoder_attention_mask": given.get("attention_mask")}
    arrays |= {name: array for name, array in out.items() if "attention_mask" in name}
    arrays["input_ids"] = arrays["decoder_input_ids"] = np.full((2, 1), start)
    for _ in range(steps):
        out = outputs_of(session, arrays)
        arrays |= {name.replace("present", "past_key_values"): array for name, array in out.items()}
        tokens.append(out["logits"][:, -1:].argmax(-1))
        arrays["input_ids"] = arrays["decoder_input_ids"] = tokens[-1]
        session = rest
    return np.concatenate(tokens, 1), arrays["encoder_hidden_states"].shape[1]


def pair(arguments, made, start, merged):
    """The number of tokens from `rondo generate` that differ from ONNX Runtime's."""
    encoder, plan = made / "encoder_model.onnx", made / "plan.rondo"
    given = source(encoder, np.random.default_rng(arguments.seed))
    expected, encoded = greedy(made, given, start, arguments.steps)
    first, rest = ("decoder_model_merged",) * 2 if merged else ("decoder_model", "decoder_with_past_model")
    programs = [f"encode={encoder}", f"first={made / first}.onnx", f"decode={made / rest}.onnx"]
    if merged:
        programs += ["--bind", "first:use_cache_branch=false", "--bind", "decode:use_cache_branch=true"]
    sizes = {f"encode:{d}": n for port, dims in inputs_of(encoder) for d, n in zip(dims, given[port.name].shape) if isinstance(d, str)}
    for path in made.glob("decoder_*.onnx"):
        for d in {d for _, dims in inputs_of(path) for d in dims if isinstance(d, str) and "past" not in d}:
            size = {"batch_size": 2, "decoder_sequence_length": 1}.get(d, encoded)
            sizes |= {f"first:{d}": size, f"decode:{d}": size}
    mask = given.get("attention_mask")
    if mask is not None and mask.shape[1] != encoded:  # the mask is for the encoder's input, but has the name of the output's mask
        sizes |= {f"{program}:encoder_attention_mask": "x".join(map(str, mask.shape)) for program in ("first", "decode")}
    rondo(arguments, "compile", *programs, "-o", plan, "--cache-length", arguments.length, *shapes(sizes), "--sample", "logits",
          *arguments.compile.split())
    words = (texts_of("--source", [row[:real] for row, real in zip(given["input_ids"], mask.sum(1))]) if "input_ids" in given
             else arrays_of(made, given))
    return int((generated(arguments, plan, "--start", start, *words) != expected).sum())


def compare(arguments, name):
    made = exported(name)
    if name in m.DECODERS:
        return within(decoder_apart(arguments, made / "model.onnx", made / "model.onnx"), TOLERANCE)
    if name in m.PAIRS:
        differ = [pair(arguments, made, 0 if "t5" in name else 1, merged) for merged in (False, True)]
        text = f"tokens that differ: {differ[0]}, merged: {differ[1]}"
        return text, text if any(differ) else None
    worst = [outputs_apart(arguments, path, path, m.SIZES.get(name, {})) for path in sorted(made.glob("*.onnx"))]
    return ", ".join(f"{one:.1e}" for one in worst), None if max(worst) <= TOLERANCE else f"{max(worst):.1e} apart, more than {TOLERANCE:g}"
