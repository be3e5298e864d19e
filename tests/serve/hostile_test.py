"""Clients that are slow, silent, broken or wrong do not hold up others, and leave nothing behind."""
import resource
import select
import socket
import time

import served
from served import Plans, Server, floats, rows_result


def limit_descriptors(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count)), hard))


def answer_of(client):
    """Everything that the server sends until it closes."""
    said = b""
    try:
        while piece := client.recv(65536):
            said += piece
    except OSError:
        pass
    return said


HEAD = b"POST /v2/models/rows/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
# The first bytes of the clients; most of them then send nothing more, or only slowly.
BEGINNINGS = [
    b"", b"P", b"POST /v2/models/rows/infer HTTP/1.1\r\n", b"POST /v2/models/rows/infer HTTP/1.1\r\nContent-Le",
    HEAD % 1000, HEAD % 1000 + b'{"inputs"', HEAD % 60000000, HEAD % 60000000 + b"x" * 5000,
    b"GET /metrics HTTP/1.1\r\n\r\n" * 20, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100,
]


class Hostile(Plans):
    plans = ("rows", "slow")

    def check(self, server, rows=3):
        start = time.monotonic()
        given = floats("x", rows)
        status, answer = server.infer("rows", given)
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, rows_result(given)))
        return time.monotonic() - start

    def test_a_thousand_slow_clients(self):
        limit_descriptors(2048)
        with Server(self.folder("rows"), "--client-within", 6) as server:
            self.check(server)
            before = server.resident()
            clients = []
            for i in range(1000):
                client = server.socket()
                client.setblocking(False)
                client.send(BEGINNINGS[i % len(BEGINNINGS)])
                clients.append(client)
            longest = max(self.check(server) for _ in range(50))
            self.assertLess(longest, 5)
            self.assertLess(server.resident() - before, 200 << 20)
            # They send a byte now and then, which does not extend a time limit.
            ends = time.monotonic() + 12
            alive = set(clients)
            while time.monotonic() < ends and len(alive) > 200:
                for client in list(alive):
                    try:
                        client.send(b"z")
                    except OSError:
                        alive.discard(client)
                longest = max(longest, self.check(server))
                time.sleep(0.2)
            self.assertLess(longest, 5)
            # The remaining clients have sent nothing yet, or have asked and do not read.
            self.assertLess(len(alive), 300)
            for client in clients:
                client.close()
            self.wait_for(lambda: server.metric("rondo_serve_connections") == 1)
            self.assertEqual(server.metric("rondo_serve_held_bytes"), 0)
            self.assertGreater(server.metric("rondo_serve_clients_timed_out_total"), 300)
            self.check(server)
            self.assertEqual(server.end(), 0)

    def wait_for(self, what, seconds=20):
        ends = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), ends)
            time.sleep(0.05)

    def test_clients_that_leave(self):
        with Server(self.folder("rows", "slow")) as server:
            body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[512,512],"parameters":{"binary_data_size":1048576}}]}'
            whole = (b"POST /v2/models/slow/infer HTTP/1.1\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" %
                     (len(body), len(body) + 2**20) + body + bytes(2**20))
            for cut in (10, 80, 200, 5000, len(whole) - 1, len(whole)):
                for _ in range(10):
                    client = server.socket()
                    client.sendall(whole[:cut])
                    if cut % 2:  # by a reset
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                    client.close()
            self.check(server)
            self.wait_for(lambda: server.metric("rondo_serve_held_bytes") == 0)
            # Requests of clients that left while they waited were not computed.
            self.assertLess(server.metric("rondo_serve_runs_total", 'model="slow"'), 10)

    def test_what_is_not_http(self):
        with Server(self.folder("rows"), "--max-body", 1) as server:
            cases = [
                (b"HELLO\r\n\r\n", b"400"), (b"GET / HTTP/9.9\r\n\r\n", b"400"), (b"GET  HTTP/1.1\r\n\r\n", b"400"),
                (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10000 + b"\r\n", b"431"),
                (b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n", b"431"),
                (b"POST /v2 HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"), (b"POST /v2 HTTP/1.1\r\nContent-Length: 5, 6\r\n\r\n", b"400"),
                (HEAD % (2**20 + 1), b"413"), (HEAD % 10**18, b"413"),
                (b"POST /v2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"411"),
                (b"POST /v2/models/rows/infer HTTP/1.1\r\nContent-Length: 5\r\n\r\n{}xyz", b"400"),
            ]
            for sent, status in cases:
                with self.subTest(sent[:60]):
                    client = server.socket()
                    client.sendall(sent)
                    ready, _, _ = select.select([client], [], [], 10)
                    self.assertTrue(ready)
                    said = client.recv(65536)
                    self.assertIn(b"HTTP/1.1 " + status, said)
                    self.assertIn(b'"error"', said)
                    client.close()
            # Several requests at once are answered one after another.
            client = server.socket()
            client.sendall(b"GET /v2/health/live HTTP/1.1\r\n\r\n" * 5 + b"GET /v2/health/live HTTP/1.1\r\nConnection: close\r\n\r\n")
            self.assertEqual(answer_of(client).count(b'{"live":true}'), 6)
            client.close()
            client = server.socket()
            client.sendall(b"POST /v2/models/rows/infer HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
            self.assertIn(b"100 Continue", client.recv(4096))
            client.sendall(b"{}")
            self.assertIn(b"HTTP/1.1 400", client.recv(4096))
            client.close()
            status, headers, body = server.say("HEAD", "/v2")
            self.assertEqual((status, body), (200, b""))
            self.assertGreater(int(headers["Content-Length"]), 50)
            self.check(server)

    def test_too_many_connections(self):
        with Server(self.folder("rows"), "--max-connections", 10) as server:
            clients = [server.socket() for _ in range(10)]
            time.sleep(0.2)
            extra = server.socket()
            said = answer_of(extra)
            self.assertIn(b"HTTP/1.1 503", said)
            self.assertIn(b"Retry-After: 1", said)
            extra.close()
            clients.pop().close()
            self.wait_for(lambda: self.answers(server))
            for client in clients:
                client.close()

    def answers(self, server):
        try:
            return server.infer("rows", floats("x", 1))[0] == 200
        except OSError:
            return False


if __name__ == "__main__":
    served.main()
