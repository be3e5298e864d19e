"""Public clients work unchanged."""
import sys
import unittest

import served
from served import Plans, Server

try:
    import numpy
    import tritonclient.http
except ImportError as error:
    print(f"skipped: {error} (tools/setup --serve)")
    sys.exit(0)


class Triton(Plans):
    plans = ("rows", "types")

    def test_as_its_examples_do(self):
        with Server(self.folder(*self.plans)) as server:
            client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=4)
            self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("rows"))
            self.assertEqual(client.get_server_metadata()["name"], "rondo")
            self.assertEqual(client.get_model_metadata("rows", "1")["inputs"][0]["shape"], [-1, 8])
            self.assertEqual(len(client.get_model_repository_index()), 2)
            x = numpy.arange(24, dtype=numpy.float32).reshape(3, 8)
            w = (numpy.arange(8)[:, None] + numpy.arange(4)[None] / 4).astype(numpy.float32)
            for binary in (True, False):
                given = tritonclient.http.InferInput("x", [3, 8], "FP32")
                given.set_data_from_numpy(x, binary_data=binary)
                wanted = [tritonclient.http.InferRequestedOutput("y", binary_data=binary)]
                result = client.infer("rows", [given], outputs=wanted, request_id="7", timeout=10_000_000)
                numpy.testing.assert_array_equal(result.as_numpy("y"), x @ w)
                self.assertEqual(result.get_response()["id"], "7")
            result = client.infer("rows", [given])  # binary by default
            numpy.testing.assert_array_equal(result.as_numpy("y"), x @ w)
            pending = [client.async_infer("rows", [given]) for _ in range(20)]
            for one in pending:
                numpy.testing.assert_array_equal(one.get_result().as_numpy("y"), x @ w)
            with self.assertRaisesRegex(tritonclient.http.InferenceServerException, 'no model "none"'):
                client.infer("none", [given])
            client.close()

    def test_types(self):
        with Server(self.folder(*self.plans)) as server:
            client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.port}")
            arrays = {"bool": numpy.array([1, 0, 1], bool), "f16": numpy.array([1, 2.5, -3], numpy.float16), "f64": numpy.array([1e300, 0, 1]),
                      "i8": numpy.array([-128, 0, 127], numpy.int8), "u64": numpy.array([2**64 - 1, 0, 1], numpy.uint64),
                      "i64": numpy.array([-2**63, 0, 1], numpy.int64)}
            inputs = []
            for name, array in arrays.items():
                inputs.append(tritonclient.http.InferInput(name, [3], tritonclient.utils.np_to_triton_dtype(array.dtype)))
                inputs[-1].set_data_from_numpy(array)
            result = client.infer("types", inputs)
            for name, array in arrays.items():
                numpy.testing.assert_array_equal(result.as_numpy(f"same_{name}"), array)
            client.close()


if __name__ == "__main__":
    served.main()
