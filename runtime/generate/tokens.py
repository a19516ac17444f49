# SPDX-License-Identifier: Apache-2.0
"""`Tokens`: text as a model's tokens and back, by a file of the package `tokenizers`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from vdla.runtime.generate.errors import GenerateError

_ENDS = ("<|end|>", "</s>", "<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>", "<eos>")
_PADDING = 128  # words of models are often multiples of it


class Tokens:
    """A tokenizer by its file, or by the content of one; `ends` are the tokens that end a text."""

    def __init__(self, source: str | PathLike[str] | bytes, name: str = "tokens") -> None:
        if find_spec("tokenizers") is None:
            raise GenerateError(
                'generate: the package tokenizers must be installed for text, got none (pip install "vdla[text]")'
            )
        from tokenizers import Tokenizer

        where = name if isinstance(source, bytes) else fspath(source)
        if not isinstance(source, bytes) and not Path(source).exists():
            raise GenerateError(f"generate: {where}: no such file")
        self.content = source if isinstance(source, bytes) else Path(source).read_bytes()
        try:
            self._tokenizer: Any = Tokenizer.from_buffer(self.content)
        except Exception as error:  # the package raises no class of its own
            raise GenerateError(f"generate: {where} must be a file of tokenizers, got {error}") from None
        self.name = Path(where).name
        ids = [self._tokenizer.token_to_id(token) for token in _ENDS]
        self.ends = frozenset(number for number in ids if number is not None)

    @property
    def count(self) -> int:
        """The number of tokens."""
        return int(self._tokenizer.get_vocab_size())

    def require(self, model: str, words: int) -> None:
        """GenerateError for a tokenizer of another model; models may pad the number of words."""
        if not words - _PADDING < self.count <= words:
            rule = f"generate: {self.name} must have the {words} tokens of {model}"
            raise GenerateError(f"{rule}, got a tokenizer of {self.count}")

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that the model expects before it."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        return str(self._tokenizer.decode(list(tokens)))
