"""The Open Inference Protocol over gRPC works with Triton's public client, unchanged."""
import re
import sys
import threading
import unittest

import served
from served import Plans, Server

try:
    import numpy
    import tritonclient.grpc
    from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
    from tritonclient.utils import InferenceServerException, np_to_triton_dtype
except ImportError as error:
    print(f"skipped: {error} (tools/setup --grpc)")
    sys.exit(0)

X = numpy.arange(24, dtype=numpy.float32).reshape(3, 8)
W = (numpy.arange(8)[:, None] + numpy.arange(4)[None] / 4).astype(numpy.float32)


def given(name, array):
    tensor = InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array)
    return tensor


class Grpc(Plans):
    plans = ("rows", "types")

    def setUp(self):
        self.server = self.enterContext(Server(self.folder(*self.plans), "--grpc-port", 0))
        self.address = re.search(r"gRPC on (\S+)", self.server.process.stdout.readline())[1]
        self.client = InferenceServerClient(self.address)
        self.addCleanup(self.client.close)

    def test_health_and_metadata(self):
        client = self.client
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("rows"))
        self.assertFalse(client.is_model_ready("none"))
        with self.assertRaisesRegex(InferenceServerException, "no model's name"):
            client.get_model_metadata("rows/ready")
        self.assertEqual(client.get_server_metadata().name, "rondo")
        metadata = client.get_model_metadata("rows", "1")
        self.assertEqual(list(metadata.inputs[0].shape), [-1, 8])
        self.assertEqual(list(metadata.versions), ["1"])

    def test_runs(self):
        result = self.client.infer("rows", [given("x", X)], outputs=[InferRequestedOutput("y")], request_id="7", timeout=10_000_000)
        numpy.testing.assert_array_equal(result.as_numpy("y"), X @ W)
        self.assertEqual(result.get_response().id, "7")
        self.assertEqual(result.get_response().model_version, "1")
        result = self.client.infer("rows", [given("x", X)], model_version="1")
        numpy.testing.assert_array_equal(result.as_numpy("y"), X @ W)

    def test_contents_as_numbers(self):
        request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="rows")
        tensor = request.inputs.add(name="x", datatype="FP32", shape=[3, 8])
        tensor.contents.fp32_contents.extend(X.ravel().tolist())
        answer = self.client._client_stub.ModelInfer(request)
        numpy.testing.assert_array_equal(numpy.frombuffer(answer.raw_output_contents[0], numpy.float32).reshape(3, 4), X @ W)

    def test_types(self):
        arrays = {"bool": numpy.array([1, 0, 1], bool), "f16": numpy.array([1, 2.5, -3], numpy.float16), "f64": numpy.array([1e300, 0, 1]),
                  "i8": numpy.array([-128, 0, 127], numpy.int8), "u64": numpy.array([2**64 - 1, 0, 1], numpy.uint64),
                  "i64": numpy.array([-2**63, 0, 1], numpy.int64)}
        result = self.client.infer("types", [given(name, array) for name, array in arrays.items()])
        for name, array in arrays.items():
            numpy.testing.assert_array_equal(result.as_numpy(f"same_{name}"), array)

    def test_many_at_once(self):
        answers, all_there = [], threading.Event()

        def take(result, error):
            answers.append(error if error is not None else result.as_numpy("y"))
            if len(answers) == 100:
                all_there.set()

        for _ in range(100):
            self.client.async_infer("rows", [given("x", X)], take)
        self.assertTrue(all_there.wait(60))
        for answer in answers:
            numpy.testing.assert_array_equal(answer, X @ W)

    def refused(self, status, says, *args, **more):
        with self.assertRaisesRegex(InferenceServerException, says) as raised:
            self.client.infer(*args, **more)
        self.assertEqual(raised.exception.status(), f"StatusCode.{status}")

    def test_what_is_wrong(self):
        self.refused("NOT_FOUND", 'no model "none"', "none", [given("x", X)])
        self.refused("NOT_FOUND", 'no input "z"', "rows", [given("z", X)])
        self.refused("NOT_FOUND", 'no output "z"', "rows", [given("x", X)], outputs=[InferRequestedOutput("z")])
        self.refused("INVALID_ARGUMENT", "datatype", "rows", [given("x", X.astype(numpy.float64))])
        self.refused("INVALID_ARGUMENT", "the shape", "rows", [given("x", X[:, :7].copy())])
        self.refused("INVALID_ARGUMENT", "is missing", "rows", [])
        cut = given("x", X)
        cut._raw_content = cut._raw_content[:-4]
        self.refused("INVALID_ARGUMENT", "its shape needs 96", "rows", [cut])
        request = tritonclient.grpc.service_pb2.ModelInferRequest(model_name="types")
        tensor = request.inputs.add(name="i8", datatype="INT8", shape=[3])
        tensor.contents.int_contents.extend([1, 128, 2])
        with self.assertRaisesRegex(Exception, "contents are no INT8"):
            self.client._client_stub.ModelInfer(request)
        self.refused("RESOURCE_EXHAUSTED", "larger than max", "rows", [given("x", numpy.zeros((3 << 20, 8), numpy.float32))])
        numpy.testing.assert_array_equal(self.client.infer("rows", [given("x", X)]).as_numpy("y"), X @ W)

    def test_an_orderly_end(self):
        self.client.infer("rows", [given("x", X)])
        self.assertEqual(self.server.end(), 0)
        self.refused("UNAVAILABLE", "", "rows", [given("x", X)])


class AloneOnItsPort(Plans):
    plans = ("rows",)

    def test_a_port_in_use(self):
        with Server(self.folder(*self.plans)) as server:
            with self.assertRaisesRegex(AssertionError, "gRPC cannot listen on 127.0.0.1"):
                Server(self.folder(*self.plans), "--grpc-port", server.port)


if __name__ == "__main__":
    served.main()
