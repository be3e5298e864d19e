"""The public `openai` client, unchanged: completions, chats by the model's template, streams; a model's own tokenizer.json."""
import json
import os
import signal
import sys
from typing import Literal

import served
from served import LanguagePlans, Server, byte_names

try:
    import jinja2  # noqa: F401
    import llguidance  # noqa: F401
    import openai
    import pydantic
    import tokenizers
except ImportError as error:
    print(f"skipped: {error} (tools/setup --serve)")
    sys.exit(0)

TEMPLATE = ("{% for message in messages %}{% if message['role'] == 'bad' %}{{ raise_exception('the role bad is none') }}{% endif %}"
            "{{ '# ' + message['role'] + ': ' + message['content'] | trim + eos_token }}\n{% endfor %}{% if add_generation_prompt %}{{ 'import' }}{% endif %}")


def byte_tokenizer():
    """A vocabulary for pycoder, whose tokens are bytes, with the names that byte-level tokenizers give them; 'é' is two tokens."""
    names = byte_names()
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={name: byte for byte, name in names.items()}, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    return tokenizer


class OpenAiClient(LanguagePlans):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.folder("pycoder")
        (folder / "pycoder" / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": {"content": "~"}}))
        cls.put(folder, "pycoder", "words")
        byte_tokenizer().save(str(folder / "words" / "tokenizer.json"))
        (folder / "words" / "chat_template.jinja").write_text(TEMPLATE)
        (folder / "words" / "tokenizer_config.json").write_text(json.dumps({"eos_token": "~"}))
        (folder / "words" / "generation_config.json").write_text(json.dumps({"eos_token_id": [ord("\n")]}))
        cls.server = Server(folder, "--python", sys.executable)
        cls.addClassCleanup(cls.server.__exit__)
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="none", max_retries=0)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["pycoder", "words"])

    def test_completions(self):
        for model in ("pycoder", "words"):
            done = self.client.completions.create(model=model, prompt=self.prompt, max_tokens=120, temperature=0, extra_body={"ignore_eos": True})
            self.assertEqual((done.choices[0].text, done.usage.completion_tokens), (self.greedy[32:], 120))
            pieces = list(self.client.completions.create(model=model, prompt=self.prompt, max_tokens=120, temperature=0, stream=True,
                                                         extra_body={"ignore_eos": True}))
            self.assertEqual("".join(piece.choices[0].text for piece in pieces), self.greedy[32:])
        # The end token is not part of the text.
        done = self.client.completions.create(model="words", prompt=self.prompt, max_tokens=120, temperature=0)
        self.assertEqual((done.choices[0].text, done.choices[0].finish_reason), (self.greedy[32:].split("\n")[0], "stop"))

    def test_chats(self):
        messages = [{"role": "system", "content": " be brief "}, {"role": "user", "content": [{"type": "text", "text": "é?"}]}]
        prompt = "# system: be brief~\n# user: é?~\nimport"
        wanted = self.client.completions.create(model="pycoder", prompt=prompt, max_tokens=30, temperature=0).choices[0].text
        for model in ("pycoder", "words"):
            how = {"model": model, "messages": messages, "max_tokens": 30, "temperature": 0, "extra_body": {"ignore_eos": True}}
            done = self.client.chat.completions.create(**how, logprobs=True, top_logprobs=2)
            self.assertEqual((done.choices[0].message.role, done.choices[0].message.content), ("assistant", wanted))
            self.assertEqual(done.usage.prompt_tokens, len(prompt.encode()))
            self.assertEqual("".join(token.token for token in done.choices[0].logprobs.content), wanted)
            self.assertEqual(len(done.choices[0].logprobs.content[3].top_logprobs), 2)
            pieces = list(self.client.chat.completions.create(**how, stream=True, stream_options={"include_usage": True}))
            self.assertEqual("".join(piece.choices[0].delta.content or "" for piece in pieces[:-1]), wanted)
            self.assertEqual((pieces[0].choices[0].delta.role, pieces[-2].choices[0].finish_reason, pieces[-1].usage.completion_tokens),
                             ("assistant", "length", 30))
        # The first byte of `é` waits for the second one, even if none follows.
        forced = {"logit_bias": {"195": 100}, "max_tokens": 3}
        done = self.client.chat.completions.create(model="words", messages=messages, **forced)
        self.assertEqual(set(done.choices[0].message.content), {"\ufffd"})

    def test_structured_output(self):
        """A pydantic class, from which the client makes a schema and into which it reads the answer."""
        class Step(pydantic.BaseModel):
            name: str = pydantic.Field(max_length=4)
            done: bool

        class Plan(pydantic.BaseModel):
            steps: list[Step] = pydantic.Field(min_length=1, max_length=2)
            kind: Literal["short", "long"]

        no_blanks = {"10": -100, "32": -100}
        for model in ("pycoder", "words"):
            for seed in range(3):
                how = {"model": model, "messages": [{"role": "user", "content": "plan"}], "response_format": Plan, "temperature": 1, "seed": seed,
                       "logit_bias": no_blanks}
                done = self.client.chat.completions.parse(**how).choices[0]
                self.assertIsInstance(done.message.parsed, Plan)
                self.assertEqual((done.finish_reason, done.message.parsed), ("stop", Plan.model_validate_json(done.message.content)))
                with self.client.chat.completions.stream(**how) as stream:
                    self.assertEqual(stream.get_final_completion().choices[0].message.parsed, done.message.parsed)

    def test_errors(self):
        with self.assertRaisesRegex(openai.NotFoundError, 'no model \\\\?"none'):
            self.client.completions.create(model="none", prompt="a")
        with self.assertRaisesRegex(openai.BadRequestError, "the role bad is none"):
            self.client.chat.completions.create(model="words", messages=[{"role": "bad", "content": "x"}])
        with self.assertRaisesRegex(openai.BadRequestError, "context of 256"):
            self.client.completions.create(model="words", prompt="a" * 400)

    def test_a_tokenizer_that_dies_is_started_anew(self):
        for child in served.children(self.server.process.pid):
            os.kill(child, signal.SIGKILL)
        done = self.client.completions.create(model="words", prompt=self.prompt, max_tokens=3, temperature=0)
        self.assertEqual(done.choices[0].text, self.greedy[32:35])


if __name__ == "__main__":
    served.main()
