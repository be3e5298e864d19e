"""OpenAI's interface: texts equal the model's, whenever others join and leave; streams, stops and seeds; an error sentence for every mistake."""
import concurrent.futures
import http.client
import json
import math
import random
import shutil
import threading
import time

import served
from served import LanguagePlans, Server, run


def events(response):
    """The objects of a stream of server-sent events, up to [DONE]."""
    for line in response:
        if not line.strip():
            continue
        assert line.startswith(b"data: "), line
        if line == b"data: [DONE]\n":
            return
        yield json.loads(line[6:])
    raise AssertionError("the stream has no [DONE]")


class Language(LanguagePlans):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls.folder(*cls.made), "--sessions", 2)
        cls.addClassCleanup(cls.server.__exit__)

    def complete(self, prompt, server=None, **more):
        body = {"model": "pycoder", "prompt": prompt, "temperature": 0, **more}
        status, answer = (server or self.server).post("/v1/completions", body)
        self.assertEqual(status, 200, answer)
        return answer

    def text(self, prompt, **more):
        return self.complete(prompt, **more)["choices"][0]["text"]

    def stream(self, body, path="/v1/completions"):
        connection = self.server.connect()
        connection.request("POST", path, json.dumps({**body, "stream": True}))
        response = connection.getresponse()
        self.assertEqual((response.status, response.headers["Content-Type"]), (200, "text/event-stream"))
        yield from events(response)
        connection.close()

    def test_says_what_the_model_says(self):
        answer = self.complete(self.prompt, max_tokens=120)
        choice = answer["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"], choice["logprobs"]), (self.greedy[32:], "length", None))
        self.assertEqual(answer["usage"], {"prompt_tokens": 32, "completion_tokens": 120, "total_tokens": 152})
        self.assertEqual(self.text([ord(c) for c in self.prompt], max_tokens=120), self.greedy[32:])
        # Prompts longer than a chunk, and prompts that fill one.
        for length in (1, 63, 64, 65, 100, 129):
            self.assertEqual(self.text(self.greedy[:length], max_tokens=4), self.text(self.greedy[:length], max_tokens=4, model="sampled"))
        self.assertEqual(self.text(self.greedy[:100], max_tokens=20), self.greedy[100:120])

    def test_streams(self):
        body = {"model": "pycoder", "prompt": self.prompt, "temperature": 0, "max_tokens": 120, "stream_options": {"include_usage": True}}
        said = list(self.stream(body))
        self.assertEqual("".join(event["choices"][0]["text"] for event in said[:-1]), self.greedy[32:])
        self.assertEqual(said[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual((said[-1]["choices"], said[-1]["usage"]["completion_tokens"]), ([], 120))
        self.assertGreater(len(said), 100)

    def test_draws_as_on_the_device(self):
        for seed, temperature, top_k, top_p in ((7, 0.8, 40, 1), (8, 1.3, 0, 0.9), (2**63 - 1, 1, 5, 0.5)):
            wanted = run(served.OPTIONS.rondo, "generate", self.made["sampled"], "--prompt", self.prompt, "--max-tokens", 100, "--temperature", temperature,
                         "--top-k", top_k, "--top-p", top_p, "--seed", seed, "--raw", "--no-echo")
            got = self.text(self.prompt, max_tokens=100, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
            self.assertEqual(got, wanted[:100])

    def test_several_texts(self):
        answer = self.complete(["import os", "class A"], n=2, max_tokens=8, temperature=1, seed=5)
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        for i, prompt in enumerate(["import os"] * 2 + ["class A"] * 2):
            self.assertEqual(answer["choices"][i]["text"], self.text(prompt, max_tokens=8, temperature=1, seed=5 + i))
        self.assertEqual(answer["usage"]["completion_tokens"], 32)
        one, other = (self.text("x = ", max_tokens=40, temperature=1) for _ in range(2))
        self.assertNotEqual(one, other)  # without a seed, each text is different

    def test_stops(self):
        whole = self.greedy[32:]
        for stop in (whole[50:54], whole[20], whole[60:90]):
            at = whole.find(stop)
            answer = self.complete(self.prompt, max_tokens=120, stop=[stop, "never this"])
            self.assertEqual((answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]), (whole[:at], "stop"))
            said = list(self.stream({"model": "pycoder", "prompt": self.prompt, "temperature": 0, "max_tokens": 120, "stop": stop}))
            self.assertEqual("".join(event["choices"][0]["text"] for event in said), whole[:at])
        # A text that begins like a stop text but is none.
        self.assertEqual(self.text(self.prompt, max_tokens=120, stop=whole[110:120] + "~"), whole)

    def test_log_probabilities(self):
        choice = self.complete(self.prompt, max_tokens=10, logprobs=5)["choices"][0]
        told = choice["logprobs"]
        self.assertEqual("".join(told["tokens"]), choice["text"])
        self.assertEqual(told["text_offset"], list(range(10)))
        for token, chance, likeliest in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"]):
            self.assertEqual(len(likeliest), 5)
            self.assertEqual(max(likeliest, key=likeliest.get), token)
            self.assertEqual(likeliest[token], chance)
            self.assertLessEqual(sum(map(math.exp, likeliest.values())), 1.0001)
        # Log probabilities are the model's own, whatever changes the drawing.
        biased = self.complete(self.prompt, max_tokens=1, logprobs=1, logit_bias={str(ord("Z")): 100})["choices"][0]
        self.assertEqual(biased["text"], "Z")
        self.assertLess(biased["logprobs"]["token_logprobs"][0], -1)
        self.assertEqual(biased["logprobs"]["top_logprobs"][0], {told["tokens"][0]: told["token_logprobs"][0]})
        said = list(self.stream({"model": "pycoder", "prompt": self.prompt, "temperature": 0, "max_tokens": 10, "logprobs": 0}))
        self.assertEqual([event["choices"][0]["logprobs"]["token_logprobs"][0] for event in said[:-1]], told["token_logprobs"])

    def test_what_is_drawn_from(self):
        greedy = self.text(self.prompt, max_tokens=30)
        for only_one in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1}):
            self.assertEqual(self.text(self.prompt, max_tokens=30, temperature=1, **only_one), greedy)
        self.assertNotEqual(self.text(self.prompt, max_tokens=30, temperature=5, seed=1), greedy)
        banned = self.text(self.prompt, max_tokens=60, logit_bias={str(ord(" ")): -100})
        self.assertNotIn(" ", banned)
        # Penalties: without them the space is often the likeliest.
        def most_common(**how):
            text = self.text("def f(x):\n    ", max_tokens=100, **how)
            return max(map(text.count, set(text)))
        plain = most_common()
        for penalty in ({"frequency_penalty": 2}, {"presence_penalty": 2}, {"repetition_penalty": 1.5}):
            self.assertLess(most_common(**penalty), plain, penalty)
        self.assertEqual(most_common(frequency_penalty=0, presence_penalty=0, repetition_penalty=1), plain)

    def test_texts_join_and_leave(self):
        """Each text is the same as alone, whatever texts run beside it."""
        draw = random.Random(3)
        jobs = []
        for _ in range(64):
            prompt = [draw.randrange(50) for _ in range(draw.choice([1, 2, 5, 15, 16, 17, 40, 70]))]
            jobs.append({"prompt": prompt, "max_tokens": draw.randrange(1, 50), "temperature": draw.choice([0, 1]), "seed": draw.randrange(2**40)})
        alone = [self.complete(**job, model="builder1") for job in jobs]
        with Server(self.folder("builder4")) as server:
            def one(job):
                time.sleep(draw.random() * 0.05)
                return self.complete(**job, model="builder4", server=server)
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                together = list(pool.map(one, jobs))
            tokens, runs = server.metric("rondo_serve_tokens_total"), server.metric("rondo_serve_runs_total")
        for job, a, b in zip(jobs, alone, together):
            self.assertEqual((a["choices"], a["usage"]), (b["choices"], b["usage"]), job)
        self.assertEqual(tokens, sum(answer["usage"]["completion_tokens"] for answer in alone))
        self.assertLess(runs, tokens)  # a run gives several tokens

    def test_a_client_that_leaves_frees_its_slot(self):
        with Server(self.folder("pycoder")) as server:
            for streams in (True, False):
                for _ in range(4):
                    connection = server.connect()
                    connection.request("POST", "/v1/completions", json.dumps({"model": "pycoder", "prompt": "a", "max_tokens": 250, "stream": streams}))
                    if streams:
                        connection.getresponse().read(10)
                    connection.close()
                    connection.sock = None
            before = server.metric("rondo_serve_tokens_total")
            self.complete("b", server=server, max_tokens=1)
            self.assertLess(server.metric("rondo_serve_tokens_total") - before, 4 * 250)
            ends = time.monotonic() + 10
            while server.metric("rondo_serve_held_bytes") > 0:
                self.assertLess(time.monotonic(), ends)

    def test_back_pressure_and_deadlines(self):
        with Server(self.folder("pycoder"), "--queue", 1, "--answer-within", 0.1) as server:
            def one(_):
                return server.post("/v1/completions", {"model": "pycoder", "prompt": "a" * 100, "max_tokens": 150})
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(one, range(24)))
            statuses = {status for status, _ in answers}
            self.assertLessEqual(statuses, {200, 429, 504})
            self.assertIn(429, statuses)
            message = next(answer["error"] for status, answer in answers if status == 429)
            self.assertIn("as many texts waiting", message["message"])
            self.assertEqual(message["type"], "rate_limit_error")
            self.assertEqual(self.complete("a", server=server, max_tokens=1)["usage"]["completion_tokens"], 1)

    def test_reloads_while_texts_go_on(self):
        folder = self.folder("pycoder")
        with Server(folder, "--poll", 0.02) as server:
            failed, stop = [], threading.Event()
            def load():
                while not stop.is_set():
                    try:
                        text = self.complete(self.prompt, server=server, max_tokens=20)["choices"][0]["text"]
                        if text != self.greedy[32:52]:
                            failed.append(text)
                    except (AssertionError, OSError, http.client.HTTPException) as error:
                        failed.append(error)
            threads = [threading.Thread(target=load) for _ in range(3)]
            for thread in threads:
                thread.start()
            for version in range(2, 10):
                self.put(folder, "pycoder", version=version)
                ends = time.monotonic() + 20
                while server.metric("rondo_serve_loads_total") < version:
                    self.assertLess(time.monotonic(), ends)
                    time.sleep(0.02)
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(failed, [])
            self.assertEqual(server.end(), 0)

    def test_mistakes_are_sentences(self):
        chat = {"messages": [{"role": "user", "content": "x"}]}
        cases = [
            ({"model": None}, 400, '"model" is missing'), ({"model": "none"}, 404, 'no model "none"'), ({"prompt": None}, 400, '"prompt" is missing'),
            ({"prompt": 4}, 400, "no text"), ({"prompt": []}, 400, "no text"), ({"prompt": [1, "a"]}, 400, "token"), ({"prompt": ["a", [1]]}, 400, "texts and tokens"),
            ({"prompt": [1.5]}, 400, "token"), ({"prompt": [256]}, 400, "the token 256; the model knows 256"), ({"prompt": ""}, 400, "at least one"),
            ({"prompt": "a" * 300}, 400, "exceed the model's context of 256"), ({"max_tokens": 300}, 400, "exceed the model's context of 256"),
            ({"max_tokens": 0}, 400, '"max_tokens" is 0'), ({"max_tokens": "many"}, 400, '"max_tokens"'), ({"temperature": -1}, 400, '"temperature" is -1'),
            ({"temperature": "hot"}, 400, '"temperature"'), ({"top_p": 2}, 400, '"top_p" is 2, no number from 0 to 1'), ({"top_k": 1.5}, 400, '"top_k"'),
            ({"n": 0}, 400, '"n" is 0'), ({"n": 100, "prompt": ["a", "b"]}, 400, "200 texts"), ({"seed": "x"}, 400, '"seed"'),
            ({"stop": 5}, 400, '"stop"'), ({"stop": ""}, 400, '"stop"'), ({"stop": ["a"] * 17}, 400, "17 texts"), ({"stream": "yes"}, 400, '"stream"'),
            ({"logit_bias": []}, 400, '"logit_bias"'), ({"logit_bias": {"a": 1}}, 400, '"logit_bias"'), ({"logit_bias": {"1": 1000}}, 400, '"logit_bias"'),
            ({"logprobs": 21}, 400, '"logprobs" is 21'), ({"echo": True}, 400, '"echo" is not supported'), ({"best_of": 2}, 400, '"best_of"'),
        ]
        for change, status, sentence in cases:
            with self.subTest(change):
                got, answer = self.server.post("/v1/completions", {"model": "pycoder", "prompt": "a", **change})
                self.assertEqual(got, status, answer)
                self.assertIn(sentence, answer["error"]["message"])
        cases = [
            (chat, 400, "no chat template"), ({"messages": []}, 400, '"messages" is missing'), ({"messages": [3]}, 400, '"role"'),
            ({"messages": [{"role": "user"}]}, 400, '"content"'), ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "no text"),
            ({**chat, "tools": [{}]}, 400, '"tools" is not supported'), ({**chat, "response_format": {"type": "xml"}}, 400, 'the type "xml"'),
        ]
        for body, status, sentence in cases:
            with self.subTest(body):
                got, answer = self.server.post("/v1/chat/completions", {"model": "pycoder", **body})
                self.assertEqual(got, status, answer)
                self.assertIn(sentence, answer["error"]["message"])
        self.assertEqual(self.server.post("/v1/completions", "{")[0], 400)
        self.assertEqual(self.server.get("/v1/completions")[0], 405)
        self.assertEqual(self.server.get("/v1/nothing")[0], 404)
        self.assertEqual([model["id"] for model in self.server.get("/v1/models")[1]["data"]], sorted(self.made))
        self.assertEqual(self.server.get("/v1/models/pycoder")[1]["id"], "pycoder")
        self.assertEqual(self.server.get("/v1/models/none")[0], 404)
        self.assertIn("/v1/completions", self.server.infer("pycoder")[1]["error"])
        self.assertEqual(self.server.get("/v2/models/pycoder")[0], 200)

    def test_texts_that_cannot_be_read(self):
        folder = self.folder()
        (folder / "m").mkdir()
        shutil.copy(self.made["pycoder"], folder / "m" / "model.rondo")
        (folder / "m" / "tokenizer_config.json").write_text("{")
        with Server(folder) as server:
            model = server.post("/v2/repository/index", {})[1][0]
            self.assertEqual(model["state"], "UNAVAILABLE")
            self.assertIn(str(folder / "m"), model["reason"])
        (folder / "m" / "tokenizer_config.json").write_text("{}")
        with Server(folder, "--python", "/no/python") as server:
            self.assertIn("/no/python", server.post("/v2/repository/index", {})[1][0]["reason"])


if __name__ == "__main__":
    served.main()
