"""compile --token-loop: rondo generate gives the same tokens as one step at a time, and the loop ends when the texts do."""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--rondo", required=True)
PARSER.add_argument("--data", required=True, type=pathlib.Path)
OPTIONS, REST = PARSER.parse_known_args()


def rondo(*line, status=0):
    done = subprocess.run([OPTIONS.rondo, *map(str, line)], capture_output=True, text=True, check=False)
    assert done.returncode == status, (line, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def write_npy(path, values, shape):
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}q", *values))
    return path


def read_npy(path):
    data = path.read_bytes()
    data = data[10 + struct.unpack("<H", data[8:10])[0]:]
    return list(struct.unpack(f"<{len(data) // 8}q", data))


class TokenLoop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name)
        cls.pycoder = [f"{name}={OPTIONS.data}/pycoder/{file}.onnx" for name, file in (("prefill", "prefill64"), ("decode", "decode"))]
        model = OPTIONS.data / "open_shapes/builder_decode/model.onnx"
        cls.builder = [f"prefill={model}", f"decode={model}", "--cache-length", 128, "--shape", "batch_size=3", "--shape", "prefill:sequence_length=16",
                       "--shape", "decode:sequence_length=1"]
        cls.plans = {"pycoder": cls.compile("one", *cls.pycoder), "builder": cls.compile("one_builder", *cls.builder)}
        cls.loops = {
            "pycoder": cls.compile("several", *cls.pycoder, f"several={OPTIONS.data}/pycoder/decode.onnx", "--token-loop", "several=5"),
            "builder": cls.compile("several_builder", *cls.builder, f"several={model}", "--shape", "several:sequence_length=1", "--token-loop", "several=4"),
        }

    @classmethod
    def compile(cls, name, *line):
        plan = cls.work / f"{name}.rondo"
        rondo("compile", *line, "--sample", "logits", "-o", plan, "--check-passes", "-q")
        return plan

    def both(self, model, *line):
        """Expects the same texts from both plans, and returns them."""
        one, several = (json.loads(rondo("generate", plan[model], *line, "--json"))["texts"] for plan in (self.plans, self.loops))
        self.assertEqual(one, several, line)
        return one

    def test_says_the_same(self):
        draw = random.Random(1)
        greedy = (OPTIONS.data / "pycoder/greedy.bytes").read_bytes().decode("latin-1")
        for seed in range(20):
            most = draw.randrange(1, 60)
            how = ["--prompt", greedy[:draw.randrange(1, 140)], "--max-tokens", most, "--seed", seed, "--temperature", draw.choice([0, 0.7, 1.4]), "--top-k",
                   draw.choice([0, 30]), "--top-p", draw.choice([1, 0.8])]
            tokens = self.both("pycoder", *how)[0]["tokens"]
            self.assertEqual(len(tokens), most)
            # A stop in the middle, by one token and by two.
            at = draw.randrange(most)
            self.assertEqual(self.both("pycoder", *how, "--stop", tokens[at], "--stop", 255)[0]["ended_by"], "stop")
            stop = bytes(tokens[at:at + 2])
            if stop.isascii() and b"\\0" not in stop and stop.strip():
                self.both("pycoder", *how, "--stop-text", stop.decode())

    def test_up_to_the_end_of_the_caches(self):
        prompt = (OPTIONS.data / "pycoder/greedy.bytes").read_bytes().decode("latin-1")[:150]
        self.assertEqual(len(self.both("pycoder", "--prompt", prompt, "--max-tokens", 107)[0]["tokens"]), 107)

    def test_batches(self):
        """Prompts of different lengths; texts that end at different tokens."""
        draw = random.Random(2)
        for seed in range(8):
            prompts = [" ".join(str(draw.randrange(50)) for _ in range(draw.randrange(1, 20))) for _ in range(3)]
            how = ["--ids", *[word for prompt in prompts for word in ("--prompt", prompt)], "--max-tokens", 30, "--temperature", 1, "--seed", seed]
            tokens = [text["tokens"] for text in self.both("builder", *how)]
            self.both("builder", *how, *[word for text in tokens for word in ("--stop", text[draw.randrange(len(text))])])

    def run_loop(self, rounds, stops, ended):
        values = {"loop_rounds": ([rounds], [1]), "loop_stops": (stops + [-1] * (8 - len(stops)), [8]), "loop_ended": ([ended], [1, 1]), "positions": ([0], [1]),
                  "last_tokens": ([105], [1, 1])}
        inputs = [word for name, value in values.items() for word in ("--input", f"{name}={write_npy(self.work / (name + '.npy'), *value)}")]
        rondo("run", self.loops["pycoder"], "--program", "several", *inputs, "--output", self.work / "out")
        tokens, count, draws, last = (read_npy(self.work / f"out/{name}.npy") for name in ("loop_tokens", "loop_count", "draws_out", "next_tokens"))
        self.assertEqual((draws[1], last[0]), (count[0], tokens[count[0] - 1]))  # the state after that many steps
        return tokens, count[0]

    def test_ends_early(self):
        whole, count = self.run_loop(5, [], 0)
        self.assertEqual(count, 5)
        for rounds in range(1, 5):
            tokens, count = self.run_loop(rounds, [], 0)
            self.assertEqual((tokens[:rounds], count), (whole[:rounds], rounds))
        first = whole.index(whole[2])
        tokens, count = self.run_loop(5, [254, whole[2]], 0)
        self.assertEqual((tokens[:first + 1], count), (whole[:first + 1], first + 1))
        self.assertEqual(self.run_loop(5, [], 1)[1], 1)

    def test_rounds_after_the_end_compute_nothing(self):
        steps = rondo("inspect", self.loops["pycoder"], "--steps", "--wide").split("Program several: steps")[1].splitlines()
        for kernel, layers in (("_attention", 6), ("_swiglu", 6)):
            found = [line for line in steps if kernel in line.split("#")[0]]
            self.assertEqual((len(found), sum(f"{kernel} if #" in line for line in found)), (5 * layers, 4 * layers))

    def test_memory_is_as_the_plan_says(self):
        for plan in self.loops.values():
            rondo("run", plan, "--program", "several", "--verify")
            rondo("check", plan)

    def test_what_cannot_loop_is_a_sentence(self):
        several = f"several={OPTIONS.data}/pycoder/decode.onnx"
        sample = ["--sample", "logits"]
        for line, sentence, status in (
            (["--token-loop", "prefill=4", *sample], '"prefill": token_loop: the program reads no token that it draws', 1),
            ([several, "--token-loop", "several=4"], '"several": token_loop: the program reads no token that it draws', 1),
            ([several, "--token-loop", "other=4", *sample], "not of the form PROGRAM=K", 2),
            ([several, "--token-loop", "several=1", *sample], "2 to 64 rounds", 2),
        ):
            self.assertIn(sentence, rondo("compile", *self.pycoder, *line, "-o", self.work / "x.rondo", status=status))


if __name__ == "__main__":
    unittest.main(argv=["token_loop_test", *REST])
