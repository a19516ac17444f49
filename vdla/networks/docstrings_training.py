# SPDX-License-Identifier: Apache-2.0
"""Trains the decoder `docstrings` with PyTorch: `python -m vdla.networks.docstrings_training`.

It takes about a quarter of an hour on a core of its own, and prints the perplexity of the held-out
text; `--write` stores weights, tokens and that text beside this file. It runs in an environment of
its own, `pip install torch numpy tokenizers`, with the project's root as PYTHONPATH. Equal seeds
give equal weights up to the rounding of the machine's matrix products, so the stored ones are part
of the sources.
"""

from __future__ import annotations

import argparse
import io
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional

from vdla.networks.docstrings_text import documents, is_held_out
from vdla.networks.llama_shape import DOCSTRINGS, END, LlamaShape
from vdla.support.atomic import write_bytes

WEIGHTS, TOKENS = "docstrings_weights.npz", "docstrings_tokens.json"
BATCH, STEPS, WARMUP = 16, 700, 40
RATE, DECAY = 4e-3, 0.1


class DecoderBlock(nn.Module):  # type: ignore[misc, unused-ignore]  # torch has an environment of its own
    """One layer: attention and SwiGLU, each behind RMSNorm and added to what it reads."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        width, keys = shape.width, shape.key_heads * shape.head
        self.shape = shape
        self.attention_norm, self.feed_norm = (nn.RMSNorm(width, eps=shape.epsilon) for _ in range(2))
        self.query, self.output = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(width, keys, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, shape.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[batch, tokens, width] to the same."""
        shape, normal = self.shape, self.attention_norm(x)
        query = self._turned(self.query(normal), shape.heads, cos, sin)
        key = self._turned(self.key(normal), shape.key_heads, cos, sin)
        value = self._split(self.value(normal), shape.key_heads)
        key, value = (part.repeat_interleave(shape.heads // shape.key_heads, 1) for part in (key, value))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(seen.transpose(1, 2).flatten(2))
        normal = self.feed_norm(x)
        return x + self.down(functional.silu(self.gate(normal)) * self.up(normal))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(2, (heads, -1)).transpose(1, 2)

    def _turned(self, x: Tensor, heads: int, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = self._split(x, heads).chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Decoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """Scores of the token after each; the embedding has the weights of the last product."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.words, shape.width)
        self.blocks = nn.ModuleList(DecoderBlock(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, eps=shape.epsilon)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                residual = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * shape.layers) if residual else 0.02)

    def forward(self, words: Tensor) -> Tensor:
        """[batch, tokens] to [batch, tokens, words]."""
        cos, sin = (torch.from_numpy(table[: words.shape[1]]) for table in self.shape.rotation())
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x, cos, sin)
        return functional.linear(self.norm(x), self.embedding.weight)


def train_tokens(texts: Sequence[str], words: int) -> Tokenizer:
    """Byte-pair tokens; the first, END, stands between documents."""
    tokens = Tokenizer(models.BPE())
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=words, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokens.train_from_iterator(texts, trainer)
    tokens.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, 0)])
    return tokens


def stream(tokens: Tokenizer, texts: Sequence[str]) -> Tensor:
    """All documents as one row of tokens, with END before each."""
    ids = [number for row in tokens.encode_batch(list(texts)) for number in row.ids]
    return torch.tensor(ids)


def train(shape: LlamaShape, data: Tensor, held_out: Tensor, steps: int, seed: int) -> Decoder:
    """A trained decoder; prints the loss now and then."""
    torch.manual_seed(seed)
    decoder, begin = Decoder(shape), time.monotonic()
    matrices = [weight for weight in decoder.blocks.parameters() if weight.ndim == 2]
    others = [decoder.embedding.weight, *(weight for weight in decoder.parameters() if weight.ndim == 1)]
    optimisers = (
        torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=RATE, betas=(0.9, 0.98), weight_decay=0.0),
    )
    for step in range(steps):
        rate = RATE * min((step + 1) / WARMUP, 0.01 + 0.495 * (1 + math.cos(math.pi * step / steps)))
        for group in (group for optimiser in optimisers for group in optimiser.param_groups):
            group["lr"] = rate
        starts = torch.randint(len(data) - shape.positions - 1, (BATCH,))
        rows = torch.stack([data[at : at + shape.positions + 1] for at in starts])
        loss = mean_loss(decoder, rows)
        decoder.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        for optimiser in optimisers:
            optimiser.step()
        if step % 100 == 99:
            unseen, seconds = held_out_loss(decoder, held_out), time.monotonic() - begin
            print(f"step {step + 1}: loss {loss:.3f}, held out {unseen:.3f}, {seconds:.0f} s", flush=True)
    return decoder


def mean_loss(decoder: Decoder, rows: Tensor) -> Tensor:
    """The mean cross entropy of each row's next tokens."""
    return functional.cross_entropy(decoder(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def held_out_loss(decoder: Decoder, data: Tensor, rows: int = 16) -> float:
    """The mean cross entropy of the first rows of the held-out text."""
    size = decoder.shape.positions
    whole = torch.stack([data[at * size : at * size + size + 1] for at in range(min(rows, (len(data) - 1) // size))])
    with torch.no_grad():
        return float(np.mean([float(mean_loss(decoder, row[None])) for row in whole]))


def stored_weights(decoder: Decoder) -> dict[str, Any]:
    """All arrays by name, in float16."""
    return {name: weight.detach().numpy().astype(np.float16) for name, weight in decoder.named_parameters()}


def main(words: Sequence[str] | None = None) -> None:
    """Train, print the perplexity, store what was trained on request."""
    parser = argparse.ArgumentParser(description="Train the decoder of documentation strings.")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pages", type=Path, default=Path("docs"), help="folder of the project's pages")
    parser.add_argument("--write", action="store_true", help=f"store {WEIGHTS} and {TOKENS}")
    arguments = parser.parse_args(words)
    texts = documents(arguments.pages)
    known = [text for text in texts if not is_held_out(text)]
    unknown = [text for text in texts if is_held_out(text)]
    tokens = train_tokens(known, DOCSTRINGS.words)
    data, held_out = stream(tokens, known), stream(tokens, unknown)
    print(f"{len(texts)} documents, {sum(map(len, known))} characters, {len(data)} tokens, {len(held_out)} held out")
    decoder = train(DOCSTRINGS, data, held_out, arguments.steps, arguments.seed)
    print(f"perplexity of the held-out text: {math.exp(held_out_loss(decoder, held_out, 1000)):.2f}")
    if arguments.write:
        stored, folder = io.BytesIO(), Path(__file__).parent
        np.savez_compressed(stored, allow_pickle=False, **stored_weights(decoder))
        write_bytes(folder / WEIGHTS, stored.getvalue())
        write_bytes(folder / TOKENS, tokens.to_str().encode())


if __name__ == "__main__":
    main()
