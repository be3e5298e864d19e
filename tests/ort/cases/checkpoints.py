"""Shared by small checkpoints of transformers with random weights, and the tools that users run on them."""
import os
import runpy
import sys
import traceback

import tokenizers
import torch
import transformers as t

os.environ["HF_HUB_OFFLINE"] = "1"


class ToolError(Exception):
    """A tool failed to make its model."""


def run_module(module, words, log):
    """Runs `python -m MODULE WORDS...` in a process that has already loaded torch. Its output goes to the file `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        with open(log, "w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.argv = [module, *(str(word) for word in words)]
            try:
                runpy.run_module(module, run_name="__main__", alter_sys=True)
                code = 0
            except SystemExit as end:
                code = end.code or 0
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    if os.waitpid(pid, 0)[1] != 0:
        said = [line for line in log.read_text(encoding="utf-8").splitlines() if "Error" in line] or ["no word"]
        raise ToolError(said[-1].strip()[:200])


def random_weights(model):
    """Scales weights so that the model's results differ between inputs."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=1.2 * (parameter.numel() / parameter.shape[0]) ** -0.5)
            else:
                parameter += 0.1 * torch.randn_like(parameter)


def write_tokenizer(folder, words):
    """A tokenizer with `words` words; the first three are <pad>, <s> and </s>."""
    numbers = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, words)}
    one = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<pad>"))
    one.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    t.PreTrainedTokenizerFast(tokenizer_object=one, pad_token="<pad>", bos_token="<s>", eos_token="</s>").save_pretrained(folder)
