"""Runs plans in a Triton server with the backend of tools/triton; see README.md."""
import argparse
import http.client
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PARSER = argparse.ArgumentParser()
for option in ("--rondo", "--backend", "--models", "--source"):
    PARSER.add_argument(option, required=True, type=pathlib.Path)
OPTIONS, REST = PARSER.parse_known_args()
SERVER = next(OPTIONS.source.glob("build/venv/lib/python3*/site-packages/pytriton/tritonserver/bin/tritonserver"), None)

# {model: (its plan, its config.pbtxt after the backend's name, part of the server's refusal)}.
REFUSED = {
    "too_large": ("rows", "max_batch_size: 17", "max_batch_size is 17; the plan takes 16 at most"),
    "no_batches": ("mixed", "max_batch_size: 4", "the plan takes no batches: compile the model with --shape"),
    "other_dims": ("rows", 'max_batch_size: 4 input [{name: "x" data_type: TYPE_FP32 dims: [9]}]',
                   "the input \"x\" has the dims [9]; the plan's is [8]"),
    "other_type": ("rows", 'max_batch_size: 4 input [{name: "x" data_type: TYPE_INT32 dims: [8]}]',
                   "the input \"x\" has the data_type \"TYPE_INT32\"; the plan's is \"TYPE_FP32\""),
    "other_name": ("rows", 'max_batch_size: 4 output [{name: "z" data_type: TYPE_FP32 dims: [4]}]', 'the plan has no output "z"'),
    "two_programs": ("two", "", "the plan has the programs first, second: config.pbtxt says by the parameter"),
    "no_program": ("two", 'parameters {key: "program" value {string_value: "third"}}', "and says third"),
    "threads": ("rows", 'parameters {key: "threads" value {string_value: "many"}}', 'the parameter threads is "many"'),
    "driver": ("rows", 'parameters {key: "driver" value {string_value: "fpga"}}', "neither host nor cuda"),
    "unsigned": ("rows", 'parameters {key: "key" value {string_value: "KEYS/ours.pub"}}', "model.rondo: it is not signed"),
    "no_plan": (None, "", "model.rondo"),
}


def run(*line):
    done = subprocess.run([str(word) for word in line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{line}: {done.stdout}")


def rows_result(row):
    """The result of the model `rows` for a row."""
    return [sum(x * (i + j / 4) for i, x in enumerate(row)) for j in range(4)]


class Triton(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="rondo_triton_"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        (cls.work / "backends/rondo").mkdir(parents=True)
        shutil.copy(OPTIONS.backend, cls.work / "backends/rondo")
        run(OPTIONS.models, cls.work)
        run(OPTIONS.rondo, "sign", "--new-key", cls.work / "ours")
        cls.compile("rows", f"{cls.work}/rows.onnx", "--shape", "N=1,4,16")
        cls.compile("mixed", f"{cls.work}/mixed.onnx")
        cls.compile("two", f"first={cls.work}/rows.onnx", f"second={cls.work}/rows.onnx", "--shape", "first:N=2", "--shape", "second:N=3")
        for name, (plan, config, _) in REFUSED.items():
            cls.put(name, plan, config.replace("KEYS", str(cls.work)))
        cls.put("rows", "rows", "")
        cls.put("mixed", "mixed", "")
        cls.put("second", "two", 'parameters {key: "program" value {string_value: "second"}}')
        cls.put("pair", "rows", "instance_group [{count: 2 kind: KIND_CPU}]")
        cls.put("alone", "rows", 'max_batch_size: 0 input [{name: "x" data_type: TYPE_FP32 dims: [-1, 8]}]')
        cls.put("signed", "rows", f'parameters {{key: "key" value {{string_value: "{cls.work}/ours.pub"}}}}')
        run(OPTIONS.rondo, "sign", cls.work / "repository/signed/1/model.rondo", "--key", cls.work / "ours")
        cls.start()

    @classmethod
    def compile(cls, name, *words):
        run(OPTIONS.rondo, "compile", *words, "-o", cls.work / f"{name}.rondo")

    @classmethod
    def put(cls, name, plan, config):
        folder = cls.work / "repository" / name / "1"
        folder.mkdir(parents=True)
        if plan:
            shutil.copy(cls.work / f"{plan}.rondo", folder / "model.rondo")
        (folder.parent / "config.pbtxt").write_text(f'backend: "rondo"\n{config}\n')

    @classmethod
    def start(cls):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            cls.port = free.getsockname()[1]
        cls.log = cls.work / "log"
        with cls.log.open("w") as log:
            cls.server = subprocess.Popen(
                [SERVER, f"--model-repository={cls.work}/repository", f"--backend-directory={cls.work}/backends", "--exit-on-error=false",
                 "--http-address=127.0.0.1", f"--http-port={cls.port}", "--allow-grpc=false", "--allow-metrics=false"],
                stdout=log, stderr=subprocess.STDOUT)
        cls.addClassCleanup(lambda: cls.server.poll() is None and cls.server.kill())
        ends = time.monotonic() + 60
        while not cls.listens():
            if cls.server.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"the server does not start: {cls.log.read_text()}")
            time.sleep(0.1)

    @classmethod
    def listens(cls):
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", cls.port)) == 0

    def say(self, method, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, json.dumps(value) if value is not None else None)
        response = connection.getresponse()
        answer = response.status, json.loads(response.read() or b"{}")
        connection.close()
        return answer

    def infer(self, model, rows, **more):
        x = {"name": "x", "datatype": "FP32", "shape": [len(rows), 8], "data": [value for row in rows for value in row]}
        return self.say("POST", f"/v2/models/{model}/infer", {"inputs": [x], **more})

    def check(self, model, rows, **more):
        status, answer = self.infer(model, rows, **more)
        self.assertEqual(status, 200, answer)
        output, = answer["outputs"]
        self.assertEqual((output["name"], output["shape"]), ("y", [len(rows), 4]))
        self.assertEqual(output["data"], [value for row in rows for value in rows_result(row)])

    @staticmethod
    def rows(count, seed=0):
        draw = random.Random(seed)
        return [[float(draw.randrange(16)) for _ in range(8)] for _ in range(count)]

    def test_configurations_are_completed_from_the_plan(self):
        config = self.say("GET", "/v2/models/rows/config")[1]
        self.assertEqual(config["max_batch_size"], 16)
        self.assertIn("dynamic_batching", config)
        for port, name, dims in (("input", "x", [8]), ("output", "y", [4])):
            described, = config[port]
            self.assertEqual((described["name"], described["data_type"], described["dims"]), (name, "TYPE_FP32", dims))
        config = self.say("GET", "/v2/models/mixed/config")[1]
        self.assertEqual(config["max_batch_size"], 0)
        self.assertNotIn("dynamic_batching", config)

    def test_results(self):
        for model in ("rows", "pair", "alone", "signed"):
            for count in (1, 3, 16):
                self.check(model, self.rows(count))
        self.check("second", self.rows(3))
        self.check("rows", self.rows(2), outputs=[{"name": "y"}])

    def test_requests_share_runs(self):
        """Many requests at the same time each get the same result as alone."""
        failures = []

        def client(seed):
            try:
                for i in range(8):
                    self.check("rows", self.rows(1 + (seed + i) % 5, seed * 100 + i))
            except AssertionError as error:
                failures.append(error)

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        statistics = self.say("GET", "/v2/models/rows/stats")[1]["model_stats"][0]
        self.assertLess(statistics["execution_count"], statistics["inference_stats"]["success"]["count"])

    def test_mistakes_of_requests(self):
        for model, rows, words in (("rows", 17, "batch"), ("alone", 17, "17"), ("second", 2, r"\[2,8\]|\[3,8\]")):
            status, answer = self.infer(model, self.rows(rows))
            self.assertEqual(status, 400, answer)
            self.assertRegex(answer["error"], words)

    def test_mistakes_of_configurations(self):
        index = {model["name"]: model for model in self.say("POST", "/v2/repository/index", {})[1]}
        for name, (_, _, words) in REFUSED.items():
            self.assertEqual(index[name]["state"], "UNAVAILABLE", name)
            self.assertIn(words, index[name]["reason"], name)

    def test_zz_end(self):
        """Runs last, because tests run in the order of their names: the server unloads all models and ends."""
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(60), 0, self.log.read_text())
        for model in ("rows", "mixed", "pair"):
            self.assertIn(f"successfully unloaded '{model}' version 1", self.log.read_text())


if __name__ == "__main__":
    if SERVER is None:
        sys.exit("skipped: there is no Triton server: tools/setup --triton")
    unittest.main(argv=[sys.argv[0], *REST])
