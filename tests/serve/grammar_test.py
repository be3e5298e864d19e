"""Texts follow schemas, regular expressions and grammars, whatever is drawn and whatever other texts run; a schema that cannot be followed gives an error sentence."""
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import sys
import threading
import time

import served
from served import LanguagePlans, Server, byte_names

try:
    import jsonschema
    import llguidance  # noqa: F401
    import tokenizers
except ImportError as error:
    print(f"skipped: {error} (tools/setup --serve)")
    sys.exit(0)

LETTERS = "abcnostruefl"
# 50 tokens, some of several characters: enough for JSON.
PIECES = [*'{}[]":,-. 0123456789', *LETTERS, "tr", "tru", "true", "fa", "nu", '{"', '":', '",', "10", "00", "[]", "se", "],", "0,", "ab", "cab", "},"]


def small_tokenizer():
    names = byte_names()
    spelt = ["".join(names[byte] for byte in piece.encode()) for piece in PIECES]
    vocabulary = {word: i for i, word in enumerate(spelt)}
    merges = [next((word[:i], word[i:]) for i in range(1, len(word)) if word[:i] in vocabulary and word[i:] in vocabulary) for word in spelt if len(word) > 1]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<end>"])
    assert tokenizer.get_vocab_size() == 50, tokenizer.get_vocab_size()
    return tokenizer


def random_schema(draw, depth=0):
    kind = draw.choice(["boolean", "null", "integer", "enum", "string", "pattern"] + ["array", "object"] * (2 if depth == 0 else depth < 2))
    if kind == "integer":
        least = draw.randrange(-50, 50)
        return {"type": "integer", "minimum": least, "maximum": least + draw.randrange(1, 1000)}
    if kind == "enum":
        return {"enum": ["".join(draw.choices(LETTERS, k=draw.randrange(1, 5))) for _ in range(3)] + [None, 10]}
    if kind == "string":
        return {"type": "string", "maxLength": draw.randrange(0, 5)}
    if kind == "pattern":
        return {"type": "string", "pattern": f"^{random_regex(draw)}$"}
    if kind == "array":
        least = draw.randrange(0, 2)
        return {"type": "array", "items": random_schema(draw, depth + 1), "minItems": least, "maxItems": least + 2}
    if kind == "object":
        names = draw.sample(LETTERS, draw.randrange(1, 4))
        return {"type": "object", "properties": {name: random_schema(draw, depth + 1) for name in names}, "required": draw.sample(names, draw.randrange(len(names) + 1)),
                "additionalProperties": False}
    return {"type": kind}


def random_regex(draw):
    parts = []
    for _ in range(draw.randrange(1, 4)):
        part = draw.choice(["[abc]", "[0-9]", "(true|false|null)", "(a|ab|cab)", "10", "[^a-z]"])
        parts.append(part + draw.choice(["", "?", "{2}", "{1,3}"]))
    return "".join(parts)


class Grammars(LanguagePlans):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.folder("pycoder", "builder1", "builder4")
        for name in ("builder1", "builder4"):
            small_tokenizer().save(str(folder / name / "tokenizer.json"))
            (folder / name / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))
        cls.server = Server(folder, "--python", sys.executable)
        cls.addClassCleanup(cls.server.__exit__)

    def complete(self, model, prompt, server=None, **how):
        status, answer = (server or self.server).post("/v1/completions", {"model": model, "prompt": prompt, **how})
        self.assertEqual(status, 200, answer)
        return answer

    def said(self, *job, **how):
        choice = self.complete(*job, **how)["choices"][0]
        return choice["text"], choice["finish_reason"]

    def test_texts_follow_whatever_is_drawn(self):
        """40 random schemas and regular expressions, beside texts without one, which are the same as alone."""
        draw = random.Random(7)
        jobs = []
        for i in range(80):
            job = {"prompt": [draw.randrange(49) for _ in range(draw.randrange(1, 20))], "max_tokens": 100, "temperature": draw.choice([0, 0.7, 1, 5]),
                   "seed": draw.randrange(2**40), "top_p": draw.choice([1, 0.5]), "min_p": draw.choice([0, 0.2]), "frequency_penalty": draw.choice([0, 2])}
            if i % 4 == 0:
                job["structured_outputs"] = {"regex": random_regex(draw)}
            elif i % 4 == 1:
                schema = {**random_schema(draw), "x-guidance": {"whitespace_flexible": False}}
                job["response_format"] = {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}
            else:
                job["max_tokens"] = draw.randrange(1, 60)
            jobs.append(job)
        alone = [self.said("builder1", **job) for job in jobs]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda job: self.said("builder4", **job), jobs))
        self.assertEqual(alone, together)
        for job, (text, reason) in zip(jobs, together):
            with self.subTest(job, text=text):
                if "structured_outputs" in job:
                    self.assertRegex(text, re.compile(f"^({job['structured_outputs']['regex']})\\Z"))
                elif "response_format" in job:
                    jsonschema.validate(json.loads(text), job["response_format"]["json_schema"]["schema"])
                if job["max_tokens"] == 100:
                    self.assertEqual(reason, "stop")

    def test_texts_of_bytes(self):
        """Without a tokenizer and an end token, a text ends with its grammar, and strings consist of whole characters."""
        draw = random.Random(8)
        for i in range(12):
            schema = {"type": "array", "items": {"anyOf": [random_schema(draw, 1), {"type": "string", "maxLength": 6}]}, "minItems": 2, "maxItems": 2,
                      "x-guidance": {"whitespace_flexible": False}}
            text, reason = self.said("pycoder", "x = ", max_tokens=250, temperature=draw.choice([0, 1, 20]), seed=i,
                                     response_format={"type": "json_schema", "json_schema": {"schema": schema}})
            with self.subTest(schema, text=text):
                jsonschema.validate(json.loads(text), schema)
                self.assertEqual(reason, "stop")
        text, reason = self.said("pycoder", "x = ", max_tokens=250, temperature=0, logit_bias={"32": -100, "10": -100}, response_format={"type": "json_object"})
        self.assertEqual((json.loads(text), reason), ({}, "stop"))

    def test_kinds(self):
        cases = [({"choice": ["yes", "no", "née"]}, "(yes|no|née)"), ({"regex": "[0-9]{3}"}, "[0-9]{3}"), ({"regex": ""}, ""),
                 ({"grammar": 'start: "a" ("b" | "c")~2'}, "a[bc][bc]"), ({"grammar": 'root ::= "a" x x\nx ::= "b" | "c"'}, "a[bc][bc]"),
                 ({"json": {"enum": [7, "é"]}}, '(7|"é")'), ({"json": '{"const": [true]}'}, r"\[\s*true\s*\]")]
        for seed, (how, wanted) in enumerate(cases):
            answer = self.complete("pycoder", "a", max_tokens=100, temperature=2, seed=seed, n=3, structured_outputs=how, logprobs=1)
            for choice in answer["choices"]:
                self.assertRegex(choice["text"], re.compile(f"^({wanted})\\Z"))
                self.assertEqual(choice["finish_reason"], "stop")
                self.assertLessEqual(max(choice["logprobs"]["token_logprobs"], default=0), 0)
        # A schema's properties come in its own order.
        names = ["z", "b", "y", "a"]
        schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in names}, "required": names, "additionalProperties": False}
        for how in ({"structured_outputs": {"json": schema}}, {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}}):
            self.assertEqual(list(json.loads(self.said("pycoder", "a", max_tokens=200, temperature=0, logit_bias={"32": -100, "10": -100}, **how)[0])), names)
        # Type "text" asks for no format.
        free = self.said("pycoder", "import", max_tokens=9, temperature=0)
        self.assertEqual(self.said("pycoder", "import", max_tokens=9, temperature=0, response_format={"type": "text"}), free)

    def test_ends(self):
        """The model may end a text only where the grammar allows it; ignore_eos does not change that."""
        for more in ({}, {"ignore_eos": True}):
            how = {"temperature": 1, "logit_bias": {"49": 100}, "max_tokens": 60, **more}
            self.assertEqual(self.said("builder1", [1], structured_outputs={"regex": "aba*"}, **how), ("ab", "stop"))
            self.assertEqual(self.said("builder1", [1], structured_outputs={"regex": "[ab]{7}"}, **how)[1], "stop")
        # Stop texts and the limit of tokens end texts as they do without a grammar.
        self.assertEqual(self.said("builder1", [1], structured_outputs={"regex": "aaab{9}a"}, max_tokens=50, stop="bbb"), ("aaa", "stop"))
        self.assertEqual(self.said("builder1", [1], structured_outputs={"regex": "(c1){30}"}, max_tokens=5), ("c1c1c", "length"))
        self.assertEqual(self.said("builder1", [1], structured_outputs={"regex": "c1c1c"}, max_tokens=5), ("c1c1c", "stop"))

    def test_what_cannot_be_followed_is_a_sentence(self):
        def schema(value):
            return {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": value}}}
        def structured(**how):
            return {"structured_outputs": how}
        cases = [
            (schema({"type": "objec"}), "objec"), (schema({"not": {"type": "integer"}}), '"not"'), (schema({"type": "array", "uniqueItems": True}), '"uniqueItems"'),
            (schema([1]), "schema"), (structured(regex="(a"), "unclosed group"), (structured(regex="(?=a)b"), "look-ahead"), (structured(grammar="start: b"), "b"),
            (structured(grammar=3), '"grammar" in "structured_outputs" is no text'), (structured(choice=[]), '"choice" in "structured_outputs" is no list'),
            (structured(choice=["a", 1]), '"choice" in "structured_outputs" is no list'), (structured(regex="a", json={}), '"regex"'), (structured(), "has none of"),
            (structured(regex="a" * (1 << 20 | 1)), "1048577 bytes; 1048576 is the limit"), ({**schema({}), **structured(regex="a")}, "one is possible"),
            ({"response_format": "json"}, 'no "type"'), ({"response_format": {"type": "xml"}}, 'the type "xml"'),
            ({"response_format": {"type": "json_schema"}}, 'no "json_schema" with a "schema"'), ({"guided_regex": "a"}, '"guided_regex" is not supported'),
        ]
        for how, sentence in cases:
            with self.subTest(str(how)[:100]):
                status, answer = self.server.post("/v1/completions", {"model": "pycoder", "prompt": "a", **how})
                self.assertEqual((status, answer["error"]["type"]), (400, "invalid_request_error"), answer)
                self.assertIn(sentence, answer["error"]["message"])
        # The model has no token for this text.
        status, answer = self.server.post("/v1/completions", {"model": "builder1", "prompt": [1], **structured(regex="aZ")})
        self.assertEqual(status, 400)
        self.assertIn("no token of the model goes on in the grammar", answer["error"]["message"])
        bare = self.work / "bare_python"
        bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
        bare.chmod(0o755)
        with Server(self.folder("pycoder"), "--python", bare) as server:
            status, answer = server.post("/v1/completions", {"model": "pycoder", "prompt": "a", **structured(regex="a")})
            self.assertEqual(status, 400)
            self.assertIn("Python's llguidance is missing, which grammars need (tools/setup --serve)", answer["error"]["message"])
            self.complete("pycoder", "a", server=server)

    def test_a_process_that_dies_ends_its_texts_alone(self):
        """Unfinished texts with grammars get status 503; other texts go on, and so do later ones."""
        with Server(self.folder("builder4"), "--python", sys.executable) as server:  # its tokens are bytes here
            long = {"prompt": [1], "max_tokens": 100, "structured_outputs": {"regex": "[01]{90,}"}}
            free = {"prompt": [2], "max_tokens": 100, "temperature": 1, "seed": 3}
            wanted = self.complete("builder4", server=server, **free)["choices"]
            self.complete("builder4", server=server, **long)
            lost, over = [], threading.Event()
            def ask(how, keep):
                while not over.is_set():
                    keep(server.post("/v1/completions", {"model": "builder4", **how}))
            answers = {"long": [], "free": []}
            threads = [threading.Thread(target=ask, args=(how, answers[name].append)) for name, how in (("long", long), ("long", long), ("free", free))]
            for thread in threads:
                thread.start()
            ends = time.monotonic() + 30
            while not any(status == 503 for status, _ in answers["long"]) and time.monotonic() < ends:
                for child in served.children(server.process.pid):
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.05)
            over.set()
            for thread in threads:
                thread.join()
            lost = [answer["error"] for status, answer in answers["long"] if status != 200]
            self.assertTrue(lost)
            for error in lost:
                self.assertEqual(error["type"], "server_error")
                self.assertIn("process", error["message"])
            for status, answer in answers["free"]:
                self.assertEqual((status, answer["choices"]), (200, wanted))
            self.assertRegex(self.complete("builder4", server=server, **long)["choices"][0]["text"], "^[01]{90,}$")


if __name__ == "__main__":
    served.main()
