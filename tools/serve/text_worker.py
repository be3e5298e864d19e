"""Tokens to text and back, chat templates and grammars, for one language model of `rondo serve`, which runs this as a process of its own.

A request is a line of JSON on standard input, its answer one on standard output, followed by as many bytes as its member "bytes" says:
{"error": sentence} where it cannot be done. The tokenizer is PyPI's `tokenizers`, templates are rendered by Jinja2 in its sandbox, as
transformers does, and grammars are followed by PyPI's `llguidance`.
"""
import ctypes
import datetime
import json
import os
import pathlib
import sys

ANSWERS = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # output printed by libraries must not be taken for an answer
FOLDER = pathlib.Path(sys.argv[1] or os.devnull)  # a plan without its own folder has none of these files


class Wrong(Exception):
    """An error whose message goes to the asker."""


def read_json(name):
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def text_of(token):
    """The text of a token in a configuration: a string, or an object with one."""
    return token.get("content") if isinstance(token, dict) else token


class Model:
    def __init__(self):
        self.tokenizer, self.streams, self.template, self.grammars = None, {}, None, None
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
        if isinstance(source, list):  # several named templates
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
        """The complete text of each of `streams`: [name, tokens, whether it ends]."""
        from tokenizers.decoders import DecodeStream
        texts = []
        for name, tokens, ends in request["streams"]:
            stream = self.streams.setdefault(name, [DecodeStream(skip_special_tokens=True), []])
            text = ""
            for token in tokens:
                piece = stream[0].step(self.tokenizer, token) or ""
                stream[1] = [] if piece else stream[1] + [token]
                text += piece
            if ends:  # give out the bytes of an incomplete character, because no more will come
                text += self.tokenizer.decode(stream[1]) if stream[1] else ""
                del self.streams[name]
            texts.append(text)
        return {"texts": texts}

    def names(self, request):
        return {"texts": [self.tokenizer.decode([token], skip_special_tokens=False) for token in request["ids"]]}

    def grammar(self, request):
        """Whether texts of a model with `words` tokens can follow `grammar`."""
        if self.grammars is None:
            self.grammars = Grammars(self, request["words"])
        self.grammars.compiled(*request["grammar"])
        return {}

    def follow(self, request):
        if self.grammars is None:
            self.grammars = Grammars(self, request["words"])
        return self.grammars.follow(request["texts"], request["gone"])


class ByteTokens:
    """A tokenizer for tokens that are bytes, in llguidance's form; `end` may be one more token after them."""

    def __init__(self, words, end):
        self.eos_token_id, self.bos_token_id, self.special_token_ids = end, None, [end]
        self.tokens = [bytes([byte]) for byte in range(words)] + [b"<end>"] * (end == words)

    def __call__(self, text):
        return list(text.encode() if isinstance(text, str) else text)


class Grammars:
    """The tokens that may come next in texts that follow a grammar. Each text has a matcher, which knows its tokens so far."""

    MOST = 64  # compiled grammars to keep

    def __init__(self, model, words):
        try:
            import llguidance
        except ImportError as error:
            raise Wrong("Python's llguidance is missing, which grammars need (tools/setup --serve)") from error
        # llguidance requires an end token. If the model has none, this is a token that is never drawn.
        ends = sorted(end for end in model.ends if end < words) or [words]
        if model.tokenizer is not None:
            model.tokenizer.no_padding()
            model.tokenizer.no_truncation()
            self.tokens = llguidance.LLTokenizer(model.tokenizer.to_str(), n_vocab=max(words, ends[-1] + 1), eos_token=ends)
        elif words <= 256:
            self.tokens = llguidance.LLTokenizer(llguidance.TokenizerWrapper(ByteTokens(words, ends[-1])), eos_token=ends)
        else:
            raise Wrong("grammars are of text, and the model's tokens are numbers: put its tokenizer.json into its folder")
        self.library, self.executor = llguidance, llguidance.LLExecutor()
        self.words, self.every_word = words, (1 << words) - 1
        self.known, self.texts = {}, {}

    def compiled(self, kind, text):
        """`kind`: a kind of llguidance's grammar_from."""
        matcher = self.known.pop((kind, text), None)
        if matcher is None:
            matcher = self.library.LLMatcher(self.tokens, self.library.grammar_from(kind, text), log_level=0)
            if matcher.is_error():
                raise Wrong(f"texts cannot follow the {kind.replace('json_', 'JSON ')}: {self.error_of(matcher)}")
        self.known[kind, text] = matcher  # the most recently used is last
        if len(self.known) > self.MOST:
            del self.known[next(iter(self.known))]
        return matcher

    @staticmethod
    def error_of(matcher):
        return matcher.get_error().split("\n<")[0]  # llguidance's internal state follows

    def follow(self, texts, gone):
        """`texts`: [name, the grammar if the text begins, new tokens]. Gives {} for each, with its mask in the tail, or the reason why it has none."""
        for name in gone:
            self.texts.pop(name, None)
        matchers = []
        for name, grammar, tokens in texts:
            if grammar is not None:
                self.texts[name] = self.compiled(*grammar).deep_copy()
            matchers.append(self.texts.get(name))
            if matchers[-1] is not None:
                matchers[-1].consume_tokens(tokens)
        masks = self.masks([matcher for matcher in matchers if matcher is not None and not matcher.is_stopped()])
        answers, tail = [], []
        for matcher in matchers:
            mask = masks.get(id(matcher))
            if matcher is None:
                answers.append({"lost": True})
            elif matcher.is_error():
                answers.append({"error": f"no token of the model goes on in the grammar: {self.error_of(matcher)}"})
            elif mask is None:
                answers.append({"complete": True})
            else:
                answers.append({})
                tail.append(mask)
        return {"texts": answers, "tail": b"".join(tail)}

    def masks(self, matchers):
        """Masks by id, without texts that are complete: no token of the model can follow those."""
        if not matchers:
            return {}
        size, kept = (self.tokens.vocab_size + 31) // 32 * 4, (self.words + 31) // 32 * 4
        memory = ctypes.create_string_buffer(size * len(matchers))
        self.executor.unsafe_compute_mask_ptr([(matcher, i) for i, matcher in enumerate(matchers)], ctypes.addressof(memory), size, len(matchers))
        rows = memory.raw
        masks = {id(matcher): rows[i * size:i * size + kept] for i, matcher in enumerate(matchers)}
        return {name: mask for name, mask in masks.items() if int.from_bytes(mask, "little") & self.every_word}


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
        except BaseException as error:  # pylint: disable=broad-except  # the tokenizer's panics are not Exceptions
            answer = {"error": " ".join(str(error).split()) or type(error).__name__}
        tail = answer.pop("tail", b"")
        if tail:
            answer["bytes"] = len(tail)
        ANSWERS.write(json.dumps(answer).encode() + b"\n" + tail)
        ANSWERS.flush()


if __name__ == "__main__":
    main()
