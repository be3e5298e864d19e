"""The Open Inference Protocol: results, tensors in JSON and binary, metadata, batching, and an error sentence for every mistake."""
import concurrent.futures
import json
import math
import struct
import time

import served
from served import Plans, Server, binary, floats, pack, rows_result


class V2(Plans):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder(*cls.plans))
        cls.addClassCleanup(cls.server.__exit__)

    def test_says_what_it_is(self):
        self.assertEqual(self.server.get("/v2")[1]["name"], "rondo")
        self.assertEqual(self.server.get("/v2/health/live")[0], 200)
        self.assertEqual(self.server.get("/v2/health/ready")[0], 200)
        self.assertEqual(self.server.get("/v2/models/rows/ready"), (200, {"name": "rows", "ready": True}))
        status, about = self.server.get("/v2/models/rows/versions/1")
        self.assertEqual(status, 200)
        self.assertEqual(about["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 8]}])
        self.assertEqual(about["outputs"], [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}])
        index = self.server.post("/v2/repository/index", {})[1]
        self.assertEqual({model["name"]: model["state"] for model in index}, dict.fromkeys(self.plans, "READY"))

    def test_rows_of_any_number_up_to_the_largest_program(self):
        for rows in (1, 2, 3, 4, 5, 15, 16):
            given = floats("x", rows)
            status, answer = self.server.infer("rows", given, id="a")
            self.assertEqual(status, 200, answer)
            self.assertEqual((answer["id"], answer["model_name"], answer["model_version"]), ("a", "rows", "1"))
            self.assertEqual(answer["outputs"], [{"name": "y", "datatype": "FP32", "shape": [rows, 4], "data": rows_result(given)}])

    def test_equals_a_session(self):
        given = [math.sin(i) for i in range(16 * 8)]
        name = self.work / "x.npy"
        head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + str({"descr": "<f4", "fortran_order": False, "shape": (16, 8)}).encode().ljust(117) + b"\n"
        name.write_bytes(head + pack(given))
        served.run(served.OPTIONS.rondo, "run", self.made["rows"], "--program", "sixteen", "--input", f"x={name}", "--output", self.work / "out", "--format", "npy")
        wanted = (self.work / "out" / "y.npy").read_bytes()[128:]
        body, headers = binary({"inputs": [{"name": "x", "datatype": "FP32", "shape": [16, 8], "parameters": {"binary_data_size": 512}}],
                                "parameters": {"binary_data_output": True}}, pack(given))
        status, sent, answer = self.server.say("POST", "/v2/models/rows/infer", body, headers)
        self.assertEqual(status, 200)
        self.assertEqual(answer[int(sent["Inference-Header-Content-Length"]):], wanted)

    def test_types_in_json_and_binary(self):
        inputs = [{"name": "bool", "datatype": "BOOL", "shape": [3], "data": [True, False, True]},
                  {"name": "f16", "datatype": "FP16", "shape": [3], "data": [0.5, -2, 65504]},
                  {"name": "f64", "datatype": "FP64", "shape": [3], "data": [0.1, 1e300, -0.25]},
                  {"name": "i8", "datatype": "INT8", "shape": [3], "data": [-128, 0, 127]},
                  {"name": "u64", "datatype": "UINT64", "shape": [3], "data": [0, 1, 2**64 - 1]},
                  {"name": "i64", "datatype": "INT64", "shape": [3], "data": [[-2**63], [0], [2**63 - 1]]}]
        status, answer = self.server.infer("types", *inputs)
        self.assertEqual(status, 200, answer)
        data = {output["name"]: output["data"] for output in answer["outputs"]}
        for given in inputs:
            flat = [x[0] if isinstance(x, list) else x for x in given["data"]]
            self.assertEqual(data["same_" + given["name"]], flat)
        # One binary input among JSON inputs, and one binary output.
        inputs[3] = {"name": "i8", "datatype": "INT8", "shape": [3], "parameters": {"binary_data_size": 3}}
        body, headers = binary({"inputs": inputs, "outputs": [{"name": "same_u64"}, {"name": "same_i8", "parameters": {"binary_data": True}}]}, b"\x01\x02\xff")
        status, sent, answer = self.server.say("POST", "/v2/models/types/infer", body, headers)
        length = int(sent["Inference-Header-Content-Length"])
        self.assertEqual(answer[length:], b"\x01\x02\xff")
        self.assertEqual([o["name"] for o in json.loads(answer[:length])["outputs"]], ["same_u64", "same_i8"])

    def test_numbers_that_json_has_not_are_null(self):
        body, headers = binary({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 8], "parameters": {"binary_data_size": 32}}]},
                               pack([math.nan] * 8))
        status, answer = self.server.post("/v2/models/rows/infer", body, headers=headers)
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, [None] * 4))

    def test_mistakes_are_sentences(self):
        x = floats("x", 2)
        zeros = {"bool": "BOOL", "f16": "FP16", "f64": "FP64", "i8": "INT8", "u64": "UINT64", "i64": "INT64"}

        def types(wrong):
            return [wrong] + [{"name": name, "datatype": kind, "shape": [3], "data": [0, 0, 0]} for name, kind in zeros.items() if name != wrong["name"]]
        cases = [
            (404, "no model", "nothing", {"inputs": [x]}),
            (400, 'no list "inputs"', "rows", {}),
            (400, 'no list "inputs"', "rows", {"inputs": 3}),
            (400, 'no "name"', "rows", {"inputs": [3]}),
            (404, 'no input "z"', "rows", {"inputs": [{**x, "name": "z"}]}),
            (400, "given twice", "rows", {"inputs": [x, x]}),
            (400, '"x" is missing', "rows", {"inputs": []}),
            (400, "datatype \"INT32\"; the model has FP32", "rows", {"inputs": [{**x, "datatype": "INT32"}]}),
            (400, "datatype none", "rows", {"inputs": [{"name": "x", "shape": [2, 8], "data": []}]}),
            (400, "the model's is [-1,8]", "rows", {"inputs": [{**x, "shape": [2, 7]}]}),
            (400, "the model's is [-1,8]", "rows", {"inputs": [{**x, "shape": [16]}]}),
            (400, "the model's is [-1,8]", "rows", {"inputs": [{**x, "shape": ["2", 8]}]}),
            (400, "the model's is [-1,8]", "rows", {"inputs": [{**x, "shape": "wide"}]}),
            (400, '"batch" is 17; the buckets of "one" are for 1 to 16', "rows", {"inputs": [floats("x", 17)]}),
            (400, '"batch" is 0', "rows", {"inputs": [{**x, "shape": [0, 8], "data": []}]}),
            (400, '"batch" is 0', "rows", {"inputs": [{**x, "shape": [-1, 8]}]}),
            (400, "the model's is [-1,8]", "rows", {"inputs": [{**x, "shape": [2**70, 8]}]}),
            (400, "the model's is [-1,8]", "rows", {"inputs": [{**x, "shape": [2**63, 8]}]}),
            (400, '"batch" is 1099511627776', "rows", {"inputs": [{**x, "shape": [2**40, 8]}]}),
            (400, "has 15 elements", "rows", {"inputs": [{**x, "data": x["data"][1:]}]}),
            (400, "has 17 elements", "rows", {"inputs": [{**x, "data": x["data"] + [1]}]}),
            (400, '"a" is no FP32', "rows", {"inputs": [{**x, "data": x["data"][1:] + ["a"]}]}),
            (400, "null is no FP32", "rows", {"inputs": [{**x, "data": x["data"][1:] + [None]}]}),
            (400, 'neither "data" nor binary', "rows", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 8]}]}),
            (400, "64 bytes of binary data, of 0", "rows", {"inputs": [{**x, "parameters": {"binary_data_size": 64}}]}),
            (404, 'no output "z"', "rows", {"inputs": [x], "outputs": [{"name": "z"}]}),
            (400, "wanted twice", "rows", {"inputs": [x], "outputs": [{"name": "y"}, {"name": "y"}]}),
            (400, "classification", "rows", {"inputs": [x], "outputs": [{"name": "y", "parameters": {"classification": 1}}]}),
            (400, '"outputs" is no list', "rows", {"inputs": [x], "outputs": {}}),
            (400, '"id" is no text', "rows", {"inputs": [x], "id": 4}),
            (404, "there are: one, four, sixteen", "rows", {"inputs": [x], "parameters": {"program": "two"}}),
            (400, "number of microseconds", "rows", {"inputs": [x], "parameters": {"timeout": "soon"}}),
            (400, "128 is no INT8", "types", {"inputs": types({"name": "i8", "datatype": "INT8", "shape": [3], "data": [128, 0, 0]})}),
            (400, "-1 is no UINT64", "types", {"inputs": types({"name": "u64", "datatype": "UINT64", "shape": [3], "data": [-1, 0, 0]})}),
            (400, "1.5 is no INT64", "types", {"inputs": types({"name": "i64", "datatype": "INT64", "shape": [3], "data": [1.5, 0, 0]})}),
            (400, "2 is no BOOL", "types", {"inputs": types({"name": "bool", "datatype": "BOOL", "shape": [3], "data": [2, 0, 0]})}),
            (400, "index", "table", {"inputs": [{"name": "index", "datatype": "INT64", "shape": [4], "data": [0, 1, 2, 4]}]}),
        ]
        for status, sentence, model, request in cases:
            with self.subTest(sentence):
                got, answer = self.server.post(f"/v2/models/{model}/infer", request)
                self.assertEqual(got, status, answer)
                self.assertIn(sentence, answer["error"])

    def test_bodies_that_make_no_sense(self):
        x = {"name": "x", "datatype": "FP32", "shape": [1, 8], "parameters": {"binary_data_size": 32}}
        head = {"inputs": [x]}
        good, headers = binary(head, pack([0] * 8))
        cases = [
            (b"", {}, "no JSON"), (b"{", {}, "no JSON: it ends too early, after 1 bytes"), (b'{"inputs": [NaN]}', {}, 'no JSON at byte 13: ...{"inputs": [N'), (b"[]", {}, "no JSON object"), (b"\xff\xfe", {}, "no JSON"),
            (b"[" * 100000, {}, "nested deeper"), (b'{"a":' * 50 + b"1" + b"}" * 50, {}, "nested deeper"),
            (good.replace(b"}", b"", 1), {}, "no JSON"), (good[:-1], headers, "32 bytes of binary data, of 31"), (good + b"x", headers, "1 bytes behind the last tensor"),
            (good, {"Inference-Header-Content-Length": "99999"}, "no number up to"),
            (good, {"Inference-Header-Content-Length": "-1"}, "no number up to"), (good, {"Inference-Header-Content-Length": "5x"}, "no number up to"),
        ]
        for body, sent, sentence in cases:
            with self.subTest(body[:20]):
                status, answer = self.server.post("/v2/models/rows/infer", body, headers=sent)
                self.assertEqual(status, 400, answer)
                self.assertIn(sentence, answer["error"])
        self.assertEqual(self.server.post("/v2/models/rows/infer", good, headers={**headers, "Content-Encoding": "gzip"})[0], 415)

    def test_what_is_not_there(self):
        for method, path, status in (("GET", "/", 404), ("GET", "/v2/models", 404), ("GET", "/v2/models/rows/infer", 405),
                                     ("POST", "/v2", 405), ("DELETE", "/v2/models/rows", 405), ("GET", "/v2/models/rows/versions/2", 404),
                                     ("GET", "/v2/models/..%2f..%2fetc", 404), ("POST", "/v2/models/rows/versions/2/infer", 404)):
            got, _, body = self.server.say(method, path, "{}" if method == "POST" else None)
            self.assertEqual(got, status, (method, path, body))
            self.assertIn("error", json.loads(body))

    def test_one_index_out_of_bounds_fails_nobody_else(self):
        """Requests that share a run."""
        def one(row):
            return self.server.infer("table", {"name": "index", "datatype": "INT64", "shape": [1], "data": [row]})
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for row, (status, answer) in zip([0, 1, 2, 9] * 25, pool.map(one, [0, 1, 2, 9] * 25)):
                self.assertEqual(status, 400 if row == 9 else 200, answer)
                if row != 9:
                    self.assertEqual(answer["outputs"][0]["data"], [10 * row, 10 * row + 1])

    def test_rows_that_meet_are_not_joined(self):
        about = self.server.get("/v2/models/mixed")[1]
        self.assertEqual(about["inputs"][0]["shape"], [4, 8])
        given = floats("x", 4)
        data = self.server.infer("mixed", given)[1]["outputs"][0]["data"]
        self.assertEqual(data[:8], [-1.5] * 8)
        self.assertEqual(self.server.infer("mixed", floats("x", 1))[0], 400)

    def test_deadlines(self):
        x = {"name": "x", "datatype": "FP32", "shape": [512, 512], "parameters": {"binary_data_size": 2**20}}
        body, headers = binary({"inputs": [x], "parameters": {"timeout": 20000, "binary_data_output": True}}, bytes(2**20))
        start = time.monotonic()
        status, answer = self.server.post("/v2/models/slow/infer", body, headers=headers)
        self.assertEqual(status, 504, answer)
        self.assertIn("deadline", answer["error"])
        self.assertLess(time.monotonic() - start, 5)

    def test_keeps_a_connection(self):
        connection = self.server.connect()
        for rows in (1, 2, 3):
            self.assertEqual(self.server.infer("rows", floats("x", rows), connection=connection)[0], 200)
        self.assertEqual(self.server.infer("nothing", floats("x", 1), connection=connection)[0], 404)
        self.assertEqual(self.server.infer("rows", floats("x", 1), connection=connection)[0], 200)
        connection.close()


def sequences(batch, sequence, shift=0.0):
    """An input of the models `sequences` and `meeting`, and their outputs without a mean over the batch."""
    data = [shift + (i * 7 % 11) - 5 for i in range(batch * sequence * 2)]
    mean = [sum(data[(b * sequence + s) * 2 + d] for s in range(sequence)) / sequence for b in range(batch) for d in range(2)]
    return {"name": "x", "datatype": "FP32", "shape": [batch, sequence, 2], "data": data}, [max(x, 0) for x in data], mean


class Buckets(Plans):
    """Plans compiled with several sizes of two dimensions: requests of any size up to the largest."""

    plans = ("sequences", "meeting")

    def check(self, server, batch, sequence, shift=0.0):
        given, relu, mean = sequences(batch, sequence, shift)
        status, answer = server.infer("sequences", given)
        self.assertEqual(status, 200, answer)
        y, means = answer["outputs"]
        self.assertEqual((y["shape"], y["data"]), ([batch, sequence, 2], relu))
        self.assertEqual(means["shape"], [batch, 1, 2])
        for one, other in zip(means["data"], mean):
            self.assertAlmostEqual(one, other, places=5)

    def test_true_shapes_in_and_out(self):
        with Server(self.folder("sequences")) as server:
            about = server.get("/v2/models/sequences")[1]
            self.assertEqual(about["inputs"][0]["shape"], [-1, -1, 2])
            self.assertEqual([output["shape"] for output in about["outputs"]], [[-1, -1, 2], [-1, 1, 2]])
            self.assertEqual(about["rondo"]["programs"][0]["most"], {"batch": 16, "sequence": 16})
            self.assertEqual(len(about["rondo"]["programs"][0]["names"]), 9)
            for batch, sequence in ((1, 1), (1, 4), (3, 5), (5, 16), (16, 16), (2, 7)):
                self.check(server, batch, sequence)
            for shape, sentence in (((17, 4), '"batch" is 17; the buckets of "main" are for 1 to 16'), ((1, 17), '"sequence" is 17')):
                status, answer = server.infer("sequences", sequences(*shape)[0])
                self.assertEqual(status, 400)
                self.assertIn(sentence, answer["error"])

    def test_requests_of_one_length_share_runs(self):
        with Server(self.folder("sequences"), "--batch-delay", 20) as server:
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                list(pool.map(lambda i: self.check(server, 1 + i % 2, 3 + i % 3, float(i)), range(120)))
            joined, runs = server.metric("rondo_serve_joined_total"), server.metric("rondo_serve_runs_total")
            self.assertEqual(joined + runs, 120)
            self.assertGreater(joined, 30)

    def test_rows_that_meet_are_padded_and_not_joined(self):
        with Server(self.folder("meeting"), "--batch-delay", 20) as server:
            def one(i):
                given, _, own = sequences(3, 5, float(i))
                answer = server.infer("meeting", given)[1]["outputs"][1]["data"]
                return max(abs(a - (own[k] - sum(own[k % 2::2]) / 3)) for k, a in enumerate(answer))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertLess(max(pool.map(one, range(24))), 1e-4)
            self.assertEqual(server.metric("rondo_serve_joined_total"), 0)


class Joining(Plans):
    plans = ("rows",)

    def test_requests_share_runs(self):
        with Server(self.folder("rows"), "--batch-delay", 20) as server:
            def one(i):
                given = floats("x", 1 + i % 3, shift=float(i))
                status, answer = server.infer("rows", given)
                return status, answer["outputs"][0]["data"] == rows_result(given)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for status, right in pool.map(one, range(160)):
                    self.assertEqual((status, right), (200, True))
            joined, runs = server.metric("rondo_serve_joined_total"), server.metric("rondo_serve_runs_total")
            self.assertEqual(joined + runs, 160)
            self.assertGreater(joined, runs)
            self.assertEqual(server.metric("rondo_serve_requests_total", 'status="2xx"'), 160)
            self.assertEqual(server.metric("rondo_serve_held_bytes"), 0)

    def test_no_batching(self):
        with Server(self.folder("rows"), "--no-batching") as server:
            self.assertEqual(server.infer("rows", floats("x", 1), parameters={"program": "one"})[0], 200)
            self.assertEqual(server.infer("rows", floats("x", 3), parameters={"program": "four"})[0], 400)
            self.assertIn("several programs", server.infer("rows", floats("x", 1))[1]["error"])


if __name__ == "__main__":
    served.main()
