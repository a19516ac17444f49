# SPDX-License-Identifier: Apache-2.0
"""The hash of the lemmas: of their code, whatever is said of it, in every version of Python."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from vdla.compiler.certificates import lemmas

CODE = b'X = 1\n\n\ndef f(a):\n    return (a, "s")\n'


def words(code: bytes) -> list[str]:
    return list(lemmas.code_of(BytesIO(code).readline))


@pytest.mark.parametrize("code", [
    b'"""Lemmas."""\n\n' + CODE,
    CODE.replace(b"X = 1", b"X = 1  # of an operand"),
    CODE.replace(b"    return", b'    """A pair."""\n    # of two\n    return'),
    CODE.replace(b'(a, "s")', b'(\n        a,\n        "s"\n    )'),
])  # fmt: skip
def test_what_documents_lemmas_does_not_change_their_hash(code: bytes) -> None:
    assert words(code) == words(CODE)


@pytest.mark.parametrize("change", [(b"1", b"2"), (b'"s"', b'"t"'), (b"a)", b"b)"), (b"return", b"yield")])
def test_other_code_changes_it(change: tuple[bytes, bytes]) -> None:
    assert words(CODE.replace(*change)) != words(CODE)


def test_the_hash_is_of_this_file_in_words_that_all_versions_have() -> None:
    assert len(lemmas.lemmas_digest()) == 64
    text = Path(lemmas.__file__).read_text(encoding="utf-8")
    assert ' f"' not in text and '(f"' not in text  # whose words differ from Python 3.12 on
