"""Tokens to text and back, and chat templates, for one language model of `rondo serve`, which runs this as a process of its own.

A request is a line of JSON on standard input, its answer one on standard output: {"error": sentence} where it cannot be done. The
tokenizer is PyPI's `tokenizers`, templates are rendered by Jinja2 in its sandbox, as transformers does.
"""
import datetime
import json
import os
import pathlib
import sys

ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # what libraries print is no answer
FOLDER = pathlib.Path(sys.argv[1])


class Wrong(Exception):
    """A sentence for whoever asked."""


def read_json(name):
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def text_of(token):
    """Configurations have tokens as text, or as an object with it."""
    return token.get("content") if isinstance(token, dict) else token


class Model:
    def __init__(self):
        self.tokenizer, self.streams, self.template = None, {}, None
        config, generation = read_json("tokenizer_config.json"), read_json("generation_config.json")
        if (FOLDER / "tokenizer.json").exists():
            try:
                from tokenizers import Tokenizer
            except ImportError as error:
                raise Wrong("Python's tokenizers is missing (tools/setup --serve)") from error
            self.tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
        self.special = {name: text_of(config[name]) for name in ("bos_token", "eos_token", "pad_token", "unk_token") if config.get(name)}
        ends = generation.get("eos_token_id", [])
        self.ends = set(ends if isinstance(ends, list) else [ends])
        if self.tokenizer is not None and "eos_token" in self.special:
            self.ends.add(self.tokenizer.token_to_id(self.special["eos_token"]))
        self.ends.discard(None)
        source = config.get("chat_template")
        if isinstance(source, list):  # several, by name
            source = next((one["template"] for one in source if one["name"] == "default"), None)
        if (FOLDER / "chat_template.jinja").exists():
            source = (FOLDER / "chat_template.jinja").read_text(encoding="utf-8")
        if source:
            self.template = self.compile(source)

    @staticmethod
    def compile(source):
        try:
            from jinja2.ext import loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError as error:
            raise Wrong("Python's jinja2 is missing, which chat templates need (tools/setup --serve)") from error

        def fail(sentence):
            raise Wrong(str(sentence))

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
        environment.globals["raise_exception"] = fail
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        return environment.from_string(source)

    def about(self, _):
        return {"ends": sorted(self.ends), "tokenizer": self.tokenizer is not None, "chat": self.template is not None}

    def encode(self, request):
        return {"ids": self.tokenizer.encode(request["text"], add_special_tokens=request["special"]).ids}

    def chat(self, request):
        return {"text": self.template.render(messages=request["messages"], add_generation_prompt=True, **self.special)}

    def decode(self, request):
        """`streams`: [name, tokens, whether it ends]; the text that is settled of each."""
        from tokenizers.decoders import DecodeStream
        texts = []
        for name, tokens, ends in request["streams"]:
            stream = self.streams.setdefault(name, [DecodeStream(skip_special_tokens=True), []])
            text = ""
            for token in tokens:
                piece = stream[0].step(self.tokenizer, token) or ""
                stream[1] = [] if piece else stream[1] + [token]
                text += piece
            if ends:  # bytes of a character of which nobody will see the rest
                text += self.tokenizer.decode(stream[1]) if stream[1] else ""
                del self.streams[name]
            texts.append(text)
        return {"texts": texts}

    def names(self, request):
        return {"texts": [self.tokenizer.decode([token], skip_special_tokens=False) for token in request["ids"]]}


def main():
    model = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if model is None:
                model = Model()
            answer = getattr(model, request["do"])(request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # pylint: disable=broad-except  # the tokenizer's panics are no Exception
            answer = {"error": " ".join(str(error).split()) or type(error).__name__}
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()


if __name__ == "__main__":
    main()
