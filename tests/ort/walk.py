"""Decoders step by step: ONNX Runtime's caches grow, a plan's have a fixed length and stay in place."""
import numpy as np

from peer import off, rondo, shapes
from rondo_session import run_fitted

GROWN = ("attention_mask", "attention_bias")  # their last axis is positions; in a plan it covers the whole cache
TYPES = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(uint8)": np.uint8}


def is_cache(port):
    return port.name.startswith(("past", "input.past")) and len(port.shape) >= 3


def present_of(past):
    """The output name for a cache's input name."""
    if past.startswith("input."):
        return past.replace("input.", "output.")
    return past.replace("past_key_values", "present").replace("past", "present")


class Growing:
    """Runs ONNX Runtime and feeds each `present` back as `past`. `sizes`: of named dimensions. In other shapes the first dimension is the
    batch, and the last but one is positions: none at first, or `encoded` for an encoder's caches, which are random."""

    def __init__(self, session, batch, sizes=None, encoded=0):
        self.session = session
        self.ports = {port.name: port for port in session.get_inputs()}
        self.outputs = [port.name for port in session.get_outputs()]
        self.past, self.encoded = {}, {}
        known = {"batch_size": batch, "past_sequence_length": 0} | (sizes or {})
        random = np.random.default_rng(3)
        for name, port in self.ports.items():
            of_encoder = "encoder" in name and len(port.shape) >= 3
            if not is_cache(port) and not of_encoder:
                continue
            positions = encoded if of_encoder else 0
            shape = [int(d) if str(d).isdigit() else known[d] if d in known else positions if axis == len(port.shape) - 2 and axis > 0 else batch
                     for axis, d in enumerate(port.shape)]
            if of_encoder:
                self.encoded[name] = random.standard_normal(shape).astype(np.float32)
            else:
                self.past[name] = np.zeros(shape, TYPES[port.type])

    def run(self, inputs):
        given = {name: array for name, array in inputs.items() if name in self.ports}
        results = dict(zip(self.outputs, self.session.run(None, given | self.encoded | self.past)))
        self.past = {name: results.get(present_of(name), old) for name, old in self.past.items()}
        return results


def compile_decoder(arguments, path, plan, *more, prompt=None, length=None):
    """A prefill of `prompt` tokens and steps of one, over one cache."""
    rondo(arguments, "compile", f"prefill={path}", f"decode={path}", "-o", plan, "--cache-length", length or arguments.length,
          *shapes({"batch_size": arguments.batch, "prefill:sequence_length": prompt or arguments.prompt, "decode:sequence_length": 1}),
          *more, *arguments.compile.split())


def inputs_at(arguments, tokens, done, length=None):
    """The inputs of a run of `tokens` after `done` others, with a mask over all positions of the cache."""
    total = done + tokens.shape[1]
    mask = np.zeros((len(tokens), length or arguments.length), np.int64)
    mask[:, :total] = 1
    return {"input_ids": tokens, "attention_mask": mask, "position_ids": np.broadcast_to(np.arange(done, total), tokens.shape),
            "past_sequence_length": np.array([done], np.int64)}


def walk(arguments, growing, session, tokens, inputs=inputs_at, encode=lambda given: given, words=None):
    """Runs the prompt `tokens` and then --steps more, chosen by ONNX Runtime's logits, through both. Yields for each run its tokens, ONNX
    Runtime's outputs and the plan's outputs, by name. `encode`: makes a plan's inputs from ONNX Runtime's."""
    done = 0
    for step in range(arguments.steps + 1):
        total = done + tokens.shape[1]
        fixed = inputs(arguments, tokens, done)
        expected = growing.run({name: array[..., :total] if name in GROWN else array for name, array in fixed.items()})
        got = run_fitted(session, "decode" if step else "prefill", encode(fixed | growing.encoded))
        yield tokens, expected, got
        logits = expected["logits" if "logits" in expected else "hidden_states"]
        tokens, done = logits[:, -1:, :words].argmax(-1), total


def logits_apart(pairs):
    """For each step, the largest difference of logits, relative to the largest logit of any step."""
    apart, size = [], 0.0
    for _, expected, got in pairs:
        apart.append(off(got["logits"], expected["logits"]))
        size = max(size, float(np.nanmax(np.abs(expected["logits"]))))
    return [step / size for step in apart]


def greedy(arguments, growing, tokens):
    """ONNX Runtime's continuation of the prompt: [texts, steps]."""
    done, said = 0, []
    for _ in range(arguments.steps):
        total = done + tokens.shape[1]
        tokens, done = growing.run(inputs_at(arguments, tokens, done, total))["logits"][:, -1:].argmax(-1), total
        said.append(tokens)
    return np.concatenate(said, 1)
