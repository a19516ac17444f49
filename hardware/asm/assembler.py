# SPDX-License-Identifier: Apache-2.0
"""The assembler: from text to a program. docs/assembly.md describes the language.

Directives may stand in any order: instructions are read after them, since the plug-ins of the
machine have mnemonics of their own. An error in the text names line and column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from vdla.hardware.asm.disassembler import NOT_PRINTED, TOKENS, defaults, neighbours
from vdla.hardware.asm.lines import AsmError, Line, Word, choice, integer, lines, unquote
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.isa import (
    UOP_FORMAT,
    Field,
    Format,
    Instruction,
    InstructionSet,
    IsaError,
    MicroOp,
    Unit,
    encode,
    encode_uops,
    instruction_bytes,
    isa_of,
    mnemonic_of,
    unit_of,
)
from vdla.hardware.program import ROLES, UOPS, Program, ProgramError, ProgramTensor
from vdla.hardware.program.tensor import CONSTANT_BITS, UOP

DIRECTIVES = (".program", ".config", ".tensor", ".data", ".uop", ".source", ".word")
NO_INSTRUCTION = "assemble: text must have an instruction, got none"
TENSOR_KEYS = ("role", "dtype", "shape", "layout", "nbytes", "whole")


@dataclass(frozen=True, slots=True)
class _Row:
    """An instruction as written, or its bytes, with the name of its tensor and its source line."""

    word: Word
    content: Instruction | bytes
    tensor: str | None
    source: int


@dataclass(slots=True)
class _Text:
    """The parsed text."""

    name: str = "program"
    config: Word | None = None
    config_values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, tuple[Word, dict[str, Word]]] = field(default_factory=dict)
    data: dict[str, tuple[Word, bytearray]] = field(default_factory=dict)
    uops: list[tuple[Word, MicroOp]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)  # of instructions and .word
    rows: list[_Row] = field(default_factory=list)


# --- directives ----------------------------------------------------------------------------------


def _only(line: Line, count: int, usage: str) -> None:
    if len(line) != count:
        raise line[0].error(f"{line[0].text} must be written as {usage}, got {len(line) - 1} words after it")


def _read_config(text: _Text, line: Line) -> None:
    if len(line) < 2:
        raise line[0].error(".config must be followed by preset=NAME or fields, got nothing")
    text.config = line[0]
    for word in line[1:]:
        if word.key == "preset":
            text.config_values = _preset(word).to_dict()
        elif word.key == "extension":
            text.config_values.setdefault("extensions", []).append(unquote(word, word.value or ""))
        elif word.key == "stage":
            text.config_values["stage"] = unquote(word, word.value or "")
        elif word.key.startswith("dram."):
            dram = text.config_values.setdefault("dram", {})
            dram[word.key.removeprefix("dram.")] = integer(word, word.key, word.value)
        else:
            text.config_values[word.key] = _config_value(word)


def _preset(word: Word) -> Config:
    try:
        return Config.preset(word.value or "")
    except ConfigError as error:
        raise word.error(str(error)) from None


def _config_value(word: Word) -> Any:  # noqa: ANN401  fields of Config have several types
    if word.key == "name":
        return unquote(word, word.value or "")
    if word.key == "clock_mhz":
        return _decimal(word)
    return integer(word, word.key, word.value)


def _decimal(word: Word) -> float:
    try:
        value = float(word.value or "")
        return int(value) if value.is_integer() else value
    except ValueError:
        raise word.error(f"{word.key} must be a number, got {word.value}") from None


def _read_tensor(text: _Text, line: Line) -> None:
    if len(line) < 2:
        raise line[0].error(".tensor must be followed by a name, got nothing")
    keys: dict[str, Word] = {}
    for word in line[2:]:
        keys[choice(word, "key of .tensor", word.key, TENSOR_KEYS)] = word
    for key, choices in (("role", ROLES), ("dtype", (*CONSTANT_BITS, UOP))):
        if key not in keys:
            raise line[1].error(f"{key} of {line[1].text} must be one of {', '.join(choices)}, got nothing")
    if line[1].text in text.tensors:
        raise line[1].error(f"names of tensors must differ, got {line[1].text} twice")
    text.tensors[line[1].text] = (line[1], keys)


def _hex(word: Word) -> bytes:
    try:
        return bytes.fromhex(word.text)
    except ValueError:
        raise word.error(f"data must be pairs of hex digits, got {word.text}") from None


def _read_data(text: _Text, line: Line) -> None:
    _only(line, 3, ".data NAME HEX")
    text.data.setdefault(line[1].text, (line[1], bytearray()))[1].extend(_hex(line[2]))


def _read_uop(text: _Text, line: Line) -> None:
    values: dict[str, int] = {}
    for word in line[1:]:
        name = choice(word, "field of a micro-op", word.key, [f.name for f in UOP_FORMAT])
        values[name] = 1 if word.value is None else integer(word, name, word.value)
    text.uops.append((line[0], MicroOp(**values)))


def _read_word(text: _Text, line: Line) -> None:
    if len(line) < 2:
        raise line[0].error(".word must be followed by hex digits, got nothing")
    tensor = None
    for word in line[2:]:
        if not word.text.startswith("@"):
            choice(word, "key of .word", word.key, ("tensor",))
            tensor = word.value
    text.rows.append(_Row(line[1], _hex(line[1]), tensor, _source(line)))


def _source(line: Line) -> int:
    """The number after @; -1 without one."""
    return next((integer(word, "source line", word.text[1:]) for word in line if word.text.startswith("@")), -1)


# --- instructions --------------------------------------------------------------------------------


def _read_instruction(isa: InstructionSet, text: _Text, line: Line) -> None:
    head = line[0]
    mnemonics = [mnemonic_of(cls) for cls in isa.classes]
    encoding = isa.format_named(choice(head, "instruction or directive", head.text, (*mnemonics, *DIRECTIVES)))
    assert encoding is not None, "a directive is not among the lines of instructions"
    cls = encoding.cls
    optional = defaults(cls)
    required = [field for field in encoding.fields if field.name not in optional]
    if len(line) - 1 < len(required):
        raise head.error(f"{head.text} must be followed by {required[0].name}, got nothing")
    values: dict[str, Any] = {f.name: _field_value(w, f, w.text) for f, w in zip(required, line[1:], strict=False)}
    rest = [word for word in line[1 + len(required) :] if not word.text.startswith("@")]
    tensor = _read_fields(encoding, rest, values)
    values.update(_tokens(unit_of(cls(**values)), [word for word in rest if word.key in TOKENS]))
    text.rows.append(_Row(head, cls(**values), tensor, _source(line)))


def _read_fields(encoding: Format, words: Line | list[Word], values: dict[str, Any]) -> str | None:
    """Set fields in `values`; returns the name of the tensor that `dram` is relative to."""
    optional, tensor = defaults(encoding.cls), None
    fields = {f.name: f for f in encoding.fields if f.name in optional and f.name not in NOT_PRINTED - {"dram"}}
    for word in words:
        name = choice(word, f"field of {mnemonic_of(encoding.cls)}", word.key, (*fields, *TOKENS))
        if name in values:
            raise word.error(f"{name} must be given once, got {word.text}")
        if name == "dram":
            tensor, values[name] = _dram(word)
        elif name not in TOKENS:
            values[name] = _field_value(word, fields[name], word.value)
    return tensor


def _field_value(word: Word, spec: Field, value: str | None) -> int:
    if spec.enum is None:
        return integer(word, spec.name, value)
    return spec.enum[choice(word, spec.name, value, [m.name.lower() for m in spec.enum]).upper()]


def _dram(word: Word) -> tuple[str | None, int]:
    name, plus, offset = (word.value or "").partition("+")
    if not plus and name[:1].isdigit():
        return None, integer(word, "dram", name)
    return name, integer(word, "dram", offset) if plus else 0


def _tokens(unit: Unit, words: list[Word]) -> dict[str, int]:
    tokens: dict[str, int] = {}
    for word in words:
        names = {u: n for u, n in zip(neighbours(unit), TOKENS[word.key], strict=True) if u is not None}
        for unit_name in (word.value or "").split(","):
            tokens[names[choice(word, f"{word.key} of {unit.name.lower()}", unit_name, names)]] = 1
    return tokens


# --- the whole -----------------------------------------------------------------------------------


def _read(text: str) -> _Text:
    """The directives of the text, and the lines of its instructions."""
    result = _Text()
    readers = {".config": _read_config, ".tensor": _read_tensor, ".data": _read_data, ".uop": _read_uop}
    for line in lines(text):
        head = line[0].text
        if head in (".program", ".source"):
            _only(line, 2, f'{head} "TEXT"')
            _read_string(result, head, line[1])
        elif head in readers:
            readers[head](result, line)
        else:
            result.lines.append(line)
    return result


def instruction_lines(source: str) -> tuple[int, ...]:
    """The line of each instruction in a text, from 1; AsmError for a wrong directive."""
    return tuple(line[0].line for line in _read(source).lines)


def _read_instructions(config: Config, text: _Text) -> None:
    for line in text.lines:
        if line[0].text == ".word":
            _read_word(text, line)
        else:
            _read_instruction(isa_of(config), text, line)


def _read_string(text: _Text, head: str, word: Word) -> None:
    value = unquote(word, word.text)
    if head == ".program":
        text.name = value
    else:
        text.sources.append(value)


def _config(text: _Text) -> Config:
    if text.config is None and not text.lines:
        raise AsmError(NO_INSTRUCTION)
    if text.config is None:
        raise AsmError("assemble: text must name its machine by .config, got none (for example .config preset=pynq_z1)")
    try:
        return Config.from_dict(text.config_values)
    except ConfigError as error:
        raise text.config.error(str(error)) from None


def _uop_data(config: Config, text: _Text) -> bytes:
    try:
        return encode_uops(config, [uop for _, uop in text.uops]).tobytes()
    except IsaError:
        for word, uop in text.uops:
            _encode_one(word, lambda uop=uop: encode_uops(config, [uop]))
        raise


def _encode_one(word: Word, encoder: Any) -> Any:  # noqa: ANN401  the type of the encoder
    try:
        return encoder()
    except IsaError as error:
        raise word.error(error.problem) from None


def _shape(word: Word | None) -> tuple[int, ...]:
    if word is None or word.value == "scalar":
        return ()
    return tuple(integer(word, "shape", extent) for extent in (word.value or "").split("x"))


def _tensor(name: str, word: Word, keys: dict[str, Word], data: bytes | None) -> ProgramTensor:
    texts = ("role", "dtype", "layout", "whole")
    strings = {key: unquote(keys[key], keys[key].value or "") for key in texts if key in keys}
    shape = _shape(keys.get("shape"))
    nbytes = _nbytes(keys, strings["dtype"], shape, data)
    try:
        return ProgramTensor(name=name, shape=shape, nbytes=nbytes, data=data, **{"layout": "", **strings})
    except ProgramError as error:
        raise word.error(str(error)) from None


def _nbytes(keys: dict[str, Word], dtype: str, shape: tuple[int, ...], data: bytes | None) -> int:
    """Bytes of a tensor: as given, else from dtype and shape, else the length of its data."""
    if "nbytes" in keys:
        return integer(keys["nbytes"], "nbytes", keys["nbytes"].value)
    if dtype in CONSTANT_BITS:
        return prod(shape) * CONSTANT_BITS[dtype] // 8
    return 0 if data is None else len(data)


def _tensors(config: Config, text: _Text) -> tuple[ProgramTensor, ...]:
    data = {name: bytes(content) for name, (_, content) in text.data.items()}
    if text.uops:
        data[UOPS] = _uop_data(config, text)
    for name, (word, _) in text.data.items():
        if name not in text.tensors:
            raise word.error(f".data must name {_declared(text.tensors)}, got {name}")
    tensors = [_tensor(name, word, keys, data.get(name)) for name, (word, keys) in text.tensors.items()]
    if text.uops and UOPS not in text.tensors:
        tensors.append(
            ProgramTensor(
                name=UOPS,
                role="constant",
                shape=(len(text.uops),),
                dtype="uop",
                layout="",
                nbytes=len(data[UOPS]),
                data=data[UOPS],
            )
        )
    return tuple(tensors)


def _words(config: Config, text: _Text) -> np.ndarray[Any, np.dtype[np.uint8]]:
    width = instruction_bytes(config)
    words = np.zeros((len(text.rows), width), np.uint8)
    values = [(i, row.content) for i, row in enumerate(text.rows) if not isinstance(row.content, bytes)]
    try:
        words[[i for i, _ in values]] = encode(config, [value for _, value in values])
    except IsaError:
        for i, value in values:
            _encode_one(text.rows[i].word, lambda value=value: encode(config, [value]))
        raise
    for i, row in enumerate(text.rows):
        if isinstance(row.content, bytes):
            words[i] = _raw(row.word, row.content, width)
    return words


def _raw(word: Word, content: bytes, width: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    if len(content) != width:
        raise word.error(f".word must have {width} bytes, got {len(content)}")
    return np.frombuffer(content, np.uint8)


def _declared(tensors: Iterable[str]) -> str:
    """The names that a reference to a tensor may have."""
    return f"one of {', '.join(tensors)}" if tensors else "a tensor declared by .tensor"


def _tensor_index(row: _Row, names: list[str]) -> int:
    if row.tensor is None:
        return -1
    if row.tensor not in names:
        raise row.word.error(f"dram must name {_declared(names)}, got {row.tensor}")
    return names.index(row.tensor)


def _source_index(row: _Row, count: int) -> int:
    if not -1 <= row.source < count:
        raise row.word.error(f"source line must be one of the {count} given by .source, got {row.source}")
    return row.source


def assemble(source: str, file: str | None = None) -> Program:
    """The program of the text.

    With the name of its `file`, an instruction without `@` has `file:line: text` as its source
    line, which findings of the verifier show.

    Raises:
        AsmError: the text is invalid; the message names line and column.
    """
    if not isinstance(source, str):
        raise AsmError(f"assemble: source must be text, got {type(source).__name__}")
    text = _read(source)
    config = _config(text)
    _read_instructions(config, text)
    tensors = _tensors(config, text)
    if not text.rows:
        raise AsmError(NO_INSTRUCTION)
    names = [tensor.name for tensor in tensors]
    source_of = [_source_index(row, len(text.sources)) for row in text.rows]
    if file is not None and not text.sources:  # the text of a compiled program names the lines of its schedule
        _locate(text, source, file, source_of)
    try:
        return Program(
            config=config,
            name=text.name,
            words=_words(config, text),
            tensors=tensors,
            tensor_of=np.array([_tensor_index(row, names) for row in text.rows], np.int32),
            source_lines=tuple(text.sources),
            source_of=np.array(source_of, np.int32),
        )
    except ProgramError as error:
        raise AsmError(str(error)) from None


def _locate(text: _Text, source: str, file: str, source_of: list[int]) -> None:
    """Make its line of the text the source line of every instruction."""
    written = source.splitlines()
    for index, row in enumerate(text.rows):
        source_of[index] = index
        text.sources.append(f"{file}:{row.word.line}: {written[row.word.line - 1].strip()}")
