"""Shared by the server's tests: plans that are compiled once, a server for a test, and a client of plain sockets and http.client."""
import argparse
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--rondo", required=True)
PARSER.add_argument("--models", required=True, help="the program that writes the models")
PARSER.add_argument("--source", required=True, type=pathlib.Path)
OPTIONS = None


def main(more=()):
    """Runs the calling module's tests with CMake's arguments."""
    global OPTIONS
    for name, values in more:
        PARSER.add_argument(name, **values)
    OPTIONS, rest = PARSER.parse_known_args()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])


def run(*line):
    done = subprocess.run([str(word) for word in line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{line}: {done.stdout}")
    return done.stdout


class Server:
    """`rondo serve` on a folder of plans; it ends with the `with` block."""

    def __init__(self, folder, *options):
        self.process = subprocess.Popen([OPTIONS.rondo, "serve", str(folder), "--port", "0", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found is None:
            raise AssertionError(f"the server did not start: {line}{self.process.communicate()[1]}")
        self.port = int(found[1])
        self.log = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.log += self.process.communicate()[1]

    def end(self, timeout=30):
        """Sends SIGTERM and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.log += self.process.communicate(timeout=timeout)[1]
        return self.process.returncode

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def say(self, method, path, body=None, headers=None, connection=None):
        """Makes one request. Returns (status, headers, body)."""
        own = connection or self.connect()
        own.request(method, path, body, headers or {})
        response = own.getresponse()
        answer = response.status, response.headers, response.read()
        if connection is None:
            own.close()
        return answer

    def get(self, path):
        status, _, body = self.say("GET", path)
        return status, json.loads(body)

    def post(self, path, value, connection=None, headers=None):
        status, _, body = self.say("POST", path, value if isinstance(value, (str, bytes)) else json.dumps(value), headers, connection)
        return status, json.loads(body)

    def infer(self, model, *inputs, connection=None, **more):
        return self.post(f"/v2/models/{model}/infer", {"inputs": list(inputs), **more}, connection)

    def metric(self, name, label=""):
        for line in self.say("GET", "/metrics")[2].decode().splitlines():
            if line.startswith(name) and label in line and line[len(name)] in " {":
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name} {label}")

    def resident(self):
        """The server's memory in bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def children(process):
    """The server's child processes."""
    return [int(word) for task in pathlib.Path(f"/proc/{process}/task").iterdir() for word in (task / "children").read_text().split()]


def byte_names():
    """The names of bytes in byte-level tokenizers: the byte itself if it is printable, otherwise a character from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def floats(name, rows, width=8, shift=0.0):
    """An input of the model `rows` as JSON: row r counts up from r + shift."""
    data = [r + shift + i for r in range(rows) for i in range(width)]
    return {"name": name, "datatype": "FP32", "shape": [rows, width], "data": data}


def rows_result(tensor, first=0):
    """The exact result of the model `rows`: multiples of a quarter."""
    width = tensor["shape"][1]
    out = []
    for r in range(tensor["shape"][0]):
        row = tensor["data"][r * width:(r + 1) * width]
        out += [sum(x * (i + j / 4) for i, x in enumerate(row)) for j in range(4)]
    return out[first:]


def binary(head, *tensors):
    """A body of JSON followed by binary tensors, with its headers."""
    text = json.dumps(head).encode()
    return text + b"".join(tensors), {"Inference-Header-Content-Length": str(len(text))}


def pack(values, form="f"):
    return struct.pack(f"<{len(values)}{form}", *values)


class Plans(unittest.TestCase):
    """Tests with their own folder, and with plans compiled once for all."""

    plans = ("rows", "mixed", "table", "types", "slow")

    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="rondo_serve_"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        run(OPTIONS.models, cls.work)
        cls.made = {name: cls.compile(name) for name in cls.plans}

    @classmethod
    def compile(cls, name):
        plan = cls.work / f"{name}.rondo"
        model = cls.work / f"{name}.onnx"
        if name == "rows":  # with a program for each of three sizes
            line = [f"{part}={model}" for part in ("one", "four", "sixteen")]
            shapes = [f"one:N=1", "four:N=4", "sixteen:N=16"]
            run(OPTIONS.rondo, "compile", *line, "-o", plan, *[word for shape in shapes for word in ("--shape", shape)])
        else:
            buckets = ["--shape", "batch=1,4,16", "--shape", "sequence=4..16"] if name in ("sequences", "meeting") else []
            run(OPTIONS.rondo, "compile", model, "-o", plan, *buckets)
        return plan

    @classmethod
    def folder(cls, *names):
        """A folder for this test with these models."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=cls.work))
        for name in names:
            cls.put(folder, name)
        return folder

    @classmethod
    def put(cls, folder, name, model=None, version=1):
        """Puts a plan into place as that version of a model, by renaming."""
        place = folder / (model or name) / str(version)
        place.mkdir(parents=True, exist_ok=True)
        coming = folder / f".{name}"
        shutil.copy(cls.made[name], coming)
        coming.rename(place / "model.rondo")


class LanguagePlans(Plans):
    """The same for plans that continue texts: pycoder, and a decoder with one and with four texts of independent lengths."""

    plans = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        data = OPTIONS.source / "tests/data"
        cls.greedy = (data / "pycoder/greedy.bytes").read_bytes().decode("latin-1")
        cls.prompt = cls.greedy[:32]
        programs = [f"{name}={data}/pycoder/{file}.onnx" for name, file in (("prefill", "prefill64"), ("decode", "decode"))]
        cls.made = {"pycoder": cls.work / "pycoder.rondo", "sampled": cls.work / "sampled.rondo"}
        run(OPTIONS.rondo, "compile", *programs, "-o", cls.made["pycoder"])
        run(OPTIONS.rondo, "compile", *programs, "-o", cls.made["sampled"], "--sample", "logits")
        model = data / "open_shapes/builder_decode/model.onnx"
        for texts in (1, 4):
            cls.made[f"builder{texts}"] = cls.work / f"builder{texts}.rondo"
            run(OPTIONS.rondo, "compile", f"prefill={model}", f"decode={model}", "-o", cls.made[f"builder{texts}"], "--cache-length", 128,
                "--shape", f"batch_size={texts}", "--shape", "prefill:sequence_length=16", "--shape", "decode:sequence_length=1")
