"""A server's life: limits and back-pressure, versions loaded and removed under load, memory, an orderly end."""
import http.client
import json
import os
import shutil
import socket
import threading
import time

import served
from served import Plans, Server, binary, floats, rows_result

# The number of reloads; the long test sets more.
RELOADS = int(os.environ.get("RONDO_RELOADS", "20"))


def slow_request(server):
    x = {"name": "x", "datatype": "FP32", "shape": [512, 512], "parameters": {"binary_data_size": 2**20}}
    body, headers = binary({"inputs": [x], "parameters": {"binary_data_output": True}}, bytes(2**20))
    return server.say("POST", "/v2/models/slow/infer", body, headers)


class Life(Plans):
    plans = ("rows", "slow", "mixed")

    def wait_for(self, what, seconds=20):
        ends = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.02)

    def test_too_many_requests(self):
        with Server(self.folder("slow"), "--queue", 2) as server:
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(slow_request(server))) for _ in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            statuses = [status for status, _, _ in answers]
            self.assertEqual(set(statuses), {200, 429})
            for status, headers, body in answers:
                if status == 429:
                    self.assertEqual(headers["Retry-After"], "1")
                    self.assertIn("as many requests waiting", json.loads(body)["error"])
            self.assertEqual(server.metric("rondo_serve_refused_total"), statuses.count(429))

    def test_too_many_bytes(self):
        with Server(self.folder("rows"), "--max-held", 1, "--max-body", 64) as server:
            status, headers, body = server.say("POST", "/v2/models/rows/infer", b" " * (2 << 20))
            self.assertEqual((status, headers["Retry-After"]), (503, "1"), body)
            self.assertIn("hold as many bytes", json.loads(body)["error"])
            # JSON takes more memory than its text.
            self.assertEqual(server.say("POST", "/v2/models/rows/infer", b" " * (200 << 10))[0], 503)
            self.wait_for(lambda: server.metric("rondo_serve_held_bytes") == 0)
            self.assertEqual(server.infer("rows", floats("x", 2))[0], 200)

    def load(self, server, seen, stop):
        """Sends requests one after another until `stop`. Collects statuses and versions."""
        connection = server.connect()
        given = floats("x", 2)
        try:
            while not stop.is_set():
                status, answer = server.infer("rows", given, connection=connection)
                good = status == 200 and answer["outputs"][0]["data"] == rows_result(given)
                seen.append((status, good, answer.get("model_version")))
        except (OSError, http.client.HTTPException) as error:
            seen.append((repr(error), False, None))
        connection.close()

    def test_reloads_under_load(self):
        folder = self.folder("rows")
        with Server(folder, "--poll", 0.02, "--sessions", 2) as server:
            seen, stop = [], threading.Event()
            threads = [threading.Thread(target=self.load, args=(server, seen, stop)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for reload in range(1, RELOADS + 1):  # a new version, then another file of it, and so on
                self.put(folder, "rows", version=2 + reload // 2)
                self.wait_for(lambda: server.metric("rondo_serve_loads_total") == reload + 1)  # pylint: disable=cell-var-from-loop
                if reload == 10:
                    before = server.resident()
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual({(status, good) for status, good, _ in seen}, {(200, True)})
            self.assertGreater(len({version for _, _, version in seen}), RELOADS // 4)
            self.assertGreater(len(seen), RELOADS)
            self.assertEqual(server.metric("rondo_serve_failed_loads_total"), 0)
            self.wait_for(lambda: server.metric("rondo_sessions") == 2)
            self.assertLess(server.resident() - before, 32 << 20)
            self.assertEqual(server.end(), 0)

    def test_models_come_and_go(self):
        folder = self.folder()
        with Server(folder, "--poll", 0.02) as server:
            self.assertEqual(server.get("/v2/health/ready")[0], 503)
            self.assertEqual(server.infer("rows", floats("x", 1))[0], 404)
            shutil.copy(self.made["mixed"], folder / ".m")
            (folder / ".m").rename(folder / "mixed.rondo")
            self.wait_for(lambda: server.get("/v2/models/mixed")[0] == 200)
            self.assertEqual(server.get("/v2/health/ready")[0], 200)
            (folder / "mixed.rondo").unlink()
            self.wait_for(lambda: server.get("/v2/models/mixed")[0] == 404)
            # A version that cannot be loaded is reported, and the working one goes on.
            self.put(folder, "rows", version=3)
            self.wait_for(lambda: server.get("/v2/models/rows")[0] == 200)
            (folder / "rows" / "4").mkdir()
            (folder / "rows" / "4" / "model.rondo").write_bytes(b"no plan")
            self.wait_for(lambda: any(model["state"] == "UNAVAILABLE" for model in server.post("/v2/repository/index", {})[1]))
            bad = [model for model in server.post("/v2/repository/index", {})[1] if model["state"] == "UNAVAILABLE"]
            self.assertEqual((bad[0]["name"], bad[0]["version"]), ("rows", "4"))
            self.assertIn("model.rondo", bad[0]["reason"])
            self.assertEqual(server.infer("rows", floats("x", 1))[1]["model_version"], "3")
            self.put(folder, "rows", version=4)
            self.wait_for(lambda: server.infer("rows", floats("x", 1))[1]["model_version"] == "4")
            shutil.rmtree(folder / "rows" / "4")  # back to the version before
            self.wait_for(lambda: server.infer("rows", floats("x", 1))[1]["model_version"] == "3")

    def test_memory_that_plans_state(self):
        folder = self.folder("rows")
        with Server(folder) as server:
            stated = server.metric("rondo_serve_stated_bytes")
        with Server(folder, "--poll", 0.02, "--memory", 1.5 * stated / 1e9) as server:
            self.put(folder, "rows", version=2)
            self.wait_for(lambda: server.metric("rondo_serve_failed_loads_total") == 1)
            reason = [model["reason"] for model in server.post("/v2/repository/index", {})[1]][1]
            self.assertIn("exceeds the limit of", reason)
            self.assertIn("(--memory)", reason)
            self.assertEqual(server.infer("rows", floats("x", 1))[1]["model_version"], "1")
            time.sleep(0.2)
            self.assertEqual(server.metric("rondo_serve_failed_loads_total"), 1)  # the failing version is not tried again
            shutil.rmtree(folder / "rows" / "1")
            self.assertEqual(server.infer("rows", floats("x", 1))[0], 200)

    def test_orderly_end(self):
        with Server(self.folder("slow")) as server:
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(slow_request(server))) for _ in range(4)]
            for thread in threads:
                thread.start()
            self.wait_for(lambda: server.metric("rondo_serve_requests_in_flight") == 5)
            idle = server.connect()
            idle.request("GET", "/v2")
            idle.getresponse().read()
            self.assertEqual(server.end(), 0)
            for thread in threads:
                thread.join()
            self.assertEqual([status for status, _, _ in answers], [200] * 4)
            with self.assertRaises(OSError):
                socket.create_connection(("127.0.0.1", server.port), 1)
            idle.close()

    def test_end_that_takes_too_long(self):
        with Server(self.folder("slow"), "--grace", 0.05) as server:
            threads = [threading.Thread(target=self.ignore, args=(server,)) for _ in range(20)]
            for thread in threads:
                thread.start()
            self.wait_for(lambda: server.metric("rondo_serve_requests_in_flight") > 10)
            self.assertEqual(server.end(), 1)
            self.assertIn("still being answered", server.log)
            for thread in threads:
                thread.join()

    def ignore(self, server):
        try:
            slow_request(server)
        except OSError:
            pass

    def test_wrong_command_lines(self):
        for line, status, sentence in ((["--port", "99999"], 2, "--port"), (["--listen", "here"], 1, '"here" is no IP address'),
                                       (["--max-body", "0"], 2, "--max-body 0"), (["--devices", "x"], 2, "--devices")):
            with self.assertRaisesRegex(AssertionError, sentence):
                served.run(served.OPTIONS.rondo, "serve", self.work, *line)
        with self.assertRaisesRegex(AssertionError, "No such file"):
            served.run(served.OPTIONS.rondo, "serve", self.work / "nowhere")
        with Server(self.folder("rows")) as server:
            with self.assertRaisesRegex(AssertionError, f"cannot listen on 127.0.0.1, port {server.port}"):
                served.run(served.OPTIONS.rondo, "serve", self.folder("rows"), "--port", server.port)


if __name__ == "__main__":
    served.main()
