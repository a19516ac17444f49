# SPDX-License-Identifier: Apache-2.0
"""Attention of a token, or of a chunk of them, over a cache that stays in DRAM, as one program:
keys and values get into their places, then all places are attended. docs/adr/0061 says why the
cache lies so.

A cache lies as weights. Keys are weights of the scores, whose outputs are places, so that a key is
one row of entries. Values are weights of the results, whose inputs are places: a value is a column
of entries, which no STORE writes, so that values are kept in rows too, and the entries of the last
`lanes` places are made of them anew.

On a machine with a batch, a token is the first row of each entry, and a STORE writes all of them:
so keys are kept in rows as well. A chunk has one token there.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.layer_programs.attention_sizes import AttentionSizes
from vdla.compiler.layer_programs.cached_chunk import ChunkInstructions
from vdla.compiler.layer_programs.cached_token import TokenInstructions
from vdla.compiler.layer_programs.layer_program import LayerProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAttention(AttentionSizes):
    """Attention of `heads` queries of `size` elements over keys and values of `kv_heads` heads.

    Scores of `places` places are products of queries and keys times `score`, in 8 bits; where there
    is no key, the product is -16256 times the lanes, `masks` times. A share is what
    `definitions.row_softmax` says, with the exponent `factor` of a step of scores, in 254 steps;
    results are products of shares and values times `result`, plus `zero_point`, from `low` to
    `high`. A token attends the places up to its own, whether it comes alone or with others:
    `tokens` is their number, which divides the lanes or is a multiple of them, as does its first
    place. Programs of several places or tokens may share a cache.

    Raises:
        LayerError: the machine has no extension softmax or transpose, or a size does not fit it.
    """

    def program(self) -> LayerProgram:
        """The program, with the inputs `query`, `key` and `value`, each [heads, size], behind the
        tokens of a chunk, and the resident tensors `keys`, `rows` and `values`, and `keys_by_rows`
        on a machine with a batch.
        """
        return (TokenInstructions if self.tokens == 1 else ChunkInstructions)(self).program()
