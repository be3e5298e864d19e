"""Decoders of two layers in the forms of exporters, with a cache of a fixed length: prefill and steps, or tokens.

Models of cases/decoder_models.py and cases/builder_models.py (24 families as onnxruntime-genai's builder writes them); or --drawn N of the
builder's form, of sizes and options drawn at random. The prompt and then --steps tokens go through both; a second text follows in the same session,
with the first one's rows still behind it. A cell has the greatest difference of logits, relative to the greatest logit.

With --generate, `rondo generate` continues the prompt by tokens that are drawn on the device (--sample), through a prefill of 4 tokens, and a
cell has the number of tokens that differ from ONNX Runtime's greedy ones.

  build/venv/bin/python tests/ort/run decoders --generate
  build/venv/bin/python tests/ort/run decoders --drawn 60 --seed 100 --batch 3 --prompt 7
  build/venv/bin/python tests/ort/run decoders --type f16 --keep-io-types
"""
import copy
import pathlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers import float16

import builder_models
import decoder_models
from peer import LeftOut, arrays_of, cpu_session, folder_for, generated, named, none_of, outputs_of, texts_of, within
from rondo_session import Session
from walk import Growing, compile_decoder, greedy, inputs_at, logits_apart, walk

TAKES = ("steps", "prompt", "batch", "length")
DEFAULTS = {"steps": 64}
HEADS = ("apart at most, or tokens that differ",)
ALL = decoder_models.ALL | builder_models.ALL
EMBEDDED = np.random.default_rng(5).standard_normal((decoder_models.WORDS, builder_models.HIDDEN)).astype(np.float32)
BEYOND_F16 = {"optimum, angles worked out of the length"}  # the base of the angles exceeds f16
NARROW = {"f16": (TensorProto.FLOAT16, np.float16), "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16)}
TOLERANCE = {"f32": 1e-4, "f16": 1e-2, "bf16": 6e-2}


def declare(parser):
    parser.add_argument("--drawn", type=int, default=0, metavar="N", help="instead of cases: N of the builder's form, drawn from --seed on")
    parser.add_argument("--type", choices=list(TOLERANCE), default="f32",
                        help="what is f32 in the models becomes this; ONNX Runtime has the same numbers in f32")
    parser.add_argument("--keep-io-types", action="store_true",
                        help="with --type f16: converted by ONNX Runtime's own converter, which leaves ports and caches f32")
    parser.add_argument("--tolerance", type=float, help="by default 1e-4; of nine steps in ten, for f16 1e-2, for bf16 6e-2")
    parser.add_argument("--generate", action="store_true", help="compare the tokens of `rondo generate`")
    parser.add_argument("--write-case", type=pathlib.Path, metavar="FOLDER",
                        help="only write a decode step of the one case named (of the builder's form) for rondo test")


def cases(arguments):
    if arguments.generate and arguments.type != "f32":
        arguments.parser.error("--generate compares tokens, which in narrower types may be others: leave --type out")
    if arguments.keep_io_types and arguments.type != "f16":
        arguments.parser.error("--keep-io-types is of a converter to f16: give --type f16")
    if arguments.drawn:
        families = {f"drawn {seed}": builder_models.drawn(seed) for seed in range(arguments.seed, arguments.seed + arguments.drawn)}
        for family in families.values():
            if arguments.type != "f32" and family["experts"]:  # rounding may change a token's experts, so choose all
                family["experts"] = (family["experts"][0], *family["experts"][0::2])
        ALL.update((name, lambda f=f: builder_models.Builder(f).build()) for name, f in families.items())
        arguments.cases = list(families)
    names = named(arguments, ALL)
    if arguments.write_case:
        for name in names[:1]:
            write_case(arguments.write_case, name)
        return []
    return names


def narrowed(model, kind):
    """Returns the model with every f32 as `kind`, and a model with the same numbers in f32 for the expected results."""
    wide, narrow = copy.deepcopy(model), copy.deepcopy(model)
    number, dtype = NARROW[kind]

    def tensor(wide_one, narrow_one):
        if wide_one.data_type != TensorProto.FLOAT:
            return
        with np.errstate(over="ignore"):  # the masks' lowest f32
            array = numpy_helper.to_array(wide_one).astype(dtype)
        wide_one.CopyFrom(numpy_helper.from_array(array.astype(np.float32), wide_one.name))
        narrow_one.CopyFrom(helper.make_tensor(wide_one.name, number, array.shape, array.tobytes(), raw=True))

    def graph(wide_one, narrow_one):
        for pair in zip(wide_one.initializer, narrow_one.initializer):
            tensor(*pair)
        for port in (*narrow_one.input, *narrow_one.output, *narrow_one.value_info):
            if port.type.tensor_type.elem_type == TensorProto.FLOAT:
                port.type.tensor_type.elem_type = number
        for w, n in zip(wide_one.node, narrow_one.node):
            for a, b in zip(w.attribute, n.attribute):
                if a.name in ("to", "dtype") and a.i == TensorProto.FLOAT:
                    b.i = number
                if a.HasField("t"):
                    tensor(a.t, b.t)
                if a.HasField("g"):
                    graph(a.g, b.g)

    graph(wide.graph, narrow.graph)
    return narrow, wide


def converted(model, path):
    """The model from ONNX Runtime's converter to f16 with f32 ports: casts stand between the ports and the rest."""
    narrow = float16.convert_float_to_float16(copy.deepcopy(model), keep_io_types=True, disable_shape_infer=True)
    onnx.save(narrow, path)
    try:
        cpu_session(path)
    except Exception:  # the exceptions have no common base class
        raise LeftOut("left out: ONNX Runtime refuses what its converter makes") from None
    return narrow


def growing_of(arguments, path):
    return Growing(cpu_session(path), arguments.batch, {"past_sliding_length": decoder_models.SLIDING})


def as_bits(given):
    return {name: array.astype(ml_dtypes.bfloat16).view(np.uint16) if array.dtype == np.float32 else array for name, array in given.items()}


def with_embedded(arguments, tokens, done):
    """For models whose caller looks up the embeddings."""
    return inputs_at(arguments, tokens, done) | {"inputs_embeds": EMBEDDED[tokens]}


def compare(arguments, name):
    if arguments.generate:
        return none_of(tokens_that_differ(arguments, name))
    folder, model = folder_for("decoders", name), ALL[name]()
    peer = model
    if arguments.type == "f16" and name in BEYOND_F16:
        raise LeftOut("left out: f16 does not hold its numbers")
    if arguments.type != "f32":
        model, peer = narrowed(model, arguments.type)
    if arguments.keep_io_types:
        model = converted(peer, folder / "model.onnx")
    onnx.save(model, folder / "model.onnx")
    onnx.save(peer, folder / "peer.onnx")
    compile_decoder(arguments, folder / "model.onnx", folder / "plan.rondo")
    session, random, steps = Session(arguments.binaries.parent / "lib", folder / "plan.rondo"), np.random.default_rng(arguments.seed), []
    for _ in range(2):
        tokens = random.integers(0, decoder_models.WORDS, (arguments.batch, arguments.prompt))
        growing = growing_of(arguments, folder / "peer.onnx")
        steps += logits_apart(walk(arguments, growing, session, tokens, with_embedded if "inputs_embeds" in growing.ports else inputs_at,
                                   as_bits if arguments.type == "bf16" else dict))
    session.close()
    # With random weights some steps are wrong in any narrow type: ONNX Runtime's own f16 is as far from f32 there.
    worst = max(steps) if arguments.type == "f32" or not np.isfinite(steps).all() else float(np.quantile(steps, 0.9))
    return within(worst, arguments.tolerance or TOLERANCE[arguments.type])


def tokens_that_differ(arguments, name):
    folder = folder_for("decoders", name)
    path, plan = folder / "model.onnx", folder / "drawn.rondo"
    onnx.save(ALL[name](), path)
    prompt = np.random.default_rng(arguments.seed).integers(0, decoder_models.WORDS, (arguments.batch, arguments.prompt))
    growing = growing_of(arguments, path)
    if "inputs_embeds" in growing.ports:
        raise LeftOut("left out: its input is embeddings, no tokens")
    expected = greedy(arguments, growing, prompt)
    compile_decoder(arguments, path, plan, "--sample", "logits", prompt=4)
    got = generated(arguments, plan, *texts_of("--prompt", prompt), *arrays_of(folder, growing.encoded))
    return int((got != expected).sum())


def write_case(folder, name, filled=9, length=16):
    """A decode step over a cache of a fixed length as a case for `rondo test`."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(ALL[name](), folder / "model.onnx")
    session, random = cpu_session(folder / "model.onnx"), np.random.default_rng(1)
    inputs = {"input_ids": np.array([[7]], np.int64), "attention_mask": (np.arange(length) <= filled).astype(np.int64)[None]}
    for port in session.get_inputs():
        if port.name.startswith("past"):
            inputs[port.name] = random.standard_normal((1, port.shape[1], length, port.shape[3])).astype(np.float32)
            inputs[port.name][:, :, filled:] = 0  # later positions are unspecified, so make them equal
    for kind, arrays in (("input", inputs), ("output", outputs_of(session, inputs))):
        for i, (port, array) in enumerate(arrays.items()):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array, port).SerializeToString())
