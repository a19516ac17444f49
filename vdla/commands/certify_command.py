# SPDX-License-Identifier: Apache-2.0
"""`vdla certify`: proves that a program computes its tensor expression, for all inputs."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.console import progress
from vdla.commands.files import write_json
from vdla.commands.kept_certificate import PRIME, VERSION, KeptCertificate
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.named_operators import (
    definition_of,
    definitions,
    expression_of_file,
    from_settings,
    from_workload,
    layer_names,
    refuse_shape,
    templates,
)
from vdla.commands.options import add_options
from vdla.commands.program_file import is_compiled_network
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.compiler.certificates.certify import Certificate
    from vdla.compiler.certificates.network_certificate import NetworkCertificate
    from vdla.compiler.map import MappedOperator
    from vdla.compiler.operators.vdla import Operator
    from vdla.hardware.config import Config
    from vdla.runtime.executor.model import Model
    from vdla.simulator.verify import Verdict

EXAMPLES = """\
  vdla certify C6                    a layer of ResNet-18
  vdla certify dense --shape rows=4 in_features=64 out_features=16
  vdla certify my.py:attention --preset ultra96   a function of yours that
                                     returns the tensor of its result
  vdla certify C6 --program c6.vdla  a program file that must compute C6
  vdla certify c6.vdla               what the file says that it computes, if it
                                     was certified when it was compiled
  vdla certify net.vdla              every program of a compiled network, from
                                     vdla compile MODEL.onnx --expressions
"""

_FILES = (".vdla", ".s")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The operator or program, the machine."""
    text = "a template, a definition, a layer such as C6, FILE.py:NAME, a program file or a compiled network"
    add_options(parser, {"operator OPERATOR": text}, _names)
    add_options(
        parser,
        {
            "--shape KEY=N...": "the options of a template or a definition",
            "--threads N = 2": "at most N virtual threads (default 2)",
            "--program FILE": "a program that must compute the operator, in place of the compiled one",
            "--seed SEED = 0": "seed of the random elements (default 0)",
            "--certificate FILE": "a certificate that --json FILE wrote, to check again, with its seed",
            "--json": "write JSON to FILE, or to standard output in place of text",
        },
    )
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Certify, or verify what says no operator; exit code 1 where either does not hold."""
    from vdla.commands.program_file import read_program
    from vdla.compiler.certificates.certify import certify
    from vdla.simulator.verify import verify

    kept = None if arguments.certificate is None else KeptCertificate.read(arguments.certificate)
    if kept is not None:
        if arguments.seed:
            raise CommandError(f"certify: --seed must be left out with --certificate, got {arguments.seed}")
        arguments.seed = kept.seed
    if Path(arguments.operator).suffix in _FILES:
        return _verified(arguments, kept)
    with progress(f"certify {arguments.operator}") as show:
        show("compiling", 0, 3)
        operator = _operator(arguments, machine(arguments))
        program = read_program(arguments.program) if arguments.program else operator.program
        show("verifying", 1, 3)
        verdict = verify(program)
        show("certifying", 2, 3)
        certificate = certify(operator, seed=arguments.seed, program=program) if verdict.ok else None
    document = _document(verdict, certificate)
    if kept is not None:
        kept.require_same(document)
    if not write_json(arguments.json, document):
        print(verdict)
        if certificate is not None:
            print(certificate)
    return OK if certificate is not None and certificate.holds else FINDING


def _verified(arguments: argparse.Namespace, kept: KeptCertificate | None) -> int:
    """Verify a program file, and prove its certificate again; certify a compiled network."""
    from vdla.commands.program_certificate import proven_again, said
    from vdla.commands.program_file import read_program
    from vdla.simulator.verify import verify

    if arguments.program:
        rule = "the operator must be a name or FILE.py:NAME with --program"
        raise CommandError(f"certify: {rule}, got the file {arguments.operator}")
    refuse_shape("certify", arguments.operator, arguments.shape, "a program file")
    if is_compiled_network(Path(arguments.operator)):
        return _network(arguments, kept)
    if kept is not None:
        rule = "--certificate must be left out for a program file, which has its own"
        raise CommandError(f"certify {arguments.operator}: {rule}, got {kept.path}")
    program = read_program(Path(arguments.operator))
    verdict = verify(program)
    proven = verdict.ok and program.certificate is not None
    certificate = proven_again(program, arguments.operator) if proven else None
    if not write_json(arguments.json, _document(verdict, certificate)):
        print(verdict)
        if certificate is not None:
            print(said(program, certificate))
        elif verdict.ok:
            how = f"vdla certify OPERATOR --program {arguments.operator}"
            print(f"not certified: this program file does not say what it must compute ({how})")
    return OK if verdict.ok else FINDING


def _network(arguments: argparse.Namespace, kept: KeptCertificate | None) -> int:
    """Certify the programs of a compiled network, which loading it has verified."""
    from vdla.compiler.certificates.network_certificate import certify_network
    from vdla.runtime.executor.model import Model

    with progress(f"certify {arguments.operator}") as show:
        show("verifying", 0, 1)
        model = Model.load(arguments.operator)
        has_programs = bool(model.artifact.programs)
        certificate = certify_network(model, arguments.seed, show) if model.expressions or not has_programs else None
    document = _network_document(model, certificate)
    if kept is not None:
        kept.require_same(document)
    if not write_json(arguments.json, document):
        count = len(model.artifact.programs)
        print(f"network {model.name}: {count} {'program' if count == 1 else 'programs'} verified")
        if certificate is not None:
            print(certificate)
        else:
            how = f"vdla compile MODEL.onnx --expressions -o {arguments.operator}"
            print(f"not certified: the file does not keep what its programs must compute ({how})")
    return OK if certificate is None or certificate.holds else FINDING


def _network_document(model: Model, certificate: NetworkCertificate | None) -> dict[str, Any]:
    """The verdicts as JSON-compatible values."""
    document: dict[str, Any] = {"network": model.name, "verified": True, "certified": False}
    if certificate is None:
        return document
    regions = [asdict(region) | {"verdict": region.verdict.value} for region in certificate.regions]
    return document | _made(certificate) | {"regions": regions}


def _operator(arguments: argparse.Namespace, config: Config) -> Operator | MappedOperator:
    """The operator that the arguments name."""
    from vdla.compiler.operators.workloads import workload

    name = arguments.operator
    if ".py" in name:
        refuse_shape("certify", name, arguments.shape, "a function of a file")
        return _mapped(*expression_of_file("certify", name), config, arguments.threads)
    if name.upper() in layer_names():
        refuse_shape("certify", name, arguments.shape)
        return from_workload(workload(name), config, arguments.threads)
    if name in templates():
        return from_settings("certify", name, config, arguments.shape, arguments.threads)
    if name not in definitions():
        rule = f"operator must be {one_of(name, _names(), ', FILE.py:NAME or a program file')}"
        raise CommandError(f"certify: {rule}")
    return _mapped(name, definition_of("certify", name, arguments.shape).output, config, arguments.threads)


def _mapped(name: str, tensor: Any, config: Config, threads: int) -> MappedOperator:  # noqa: ANN401  a tensor
    from vdla.runtime.tune.mapping import map_expression

    return map_expression(tensor, config, threads=threads, name=name)


def _names() -> list[str]:
    """The templates, the definitions and the layers."""
    return list(dict.fromkeys([*templates(), *definitions(), *layer_names()]))


def _document(verdict: Verdict, certificate: Certificate | None) -> dict[str, Any]:
    """The verdict and the certificate as JSON-compatible values."""
    document: dict[str, Any] = {"program": verdict.program, "verified": verdict.ok, "certified": False}
    if certificate is None:
        return document
    return document | _made(certificate) | {"certificate": asdict(certificate)}


def _made(certificate: Certificate | NetworkCertificate) -> dict[str, Any]:
    """What every certificate in a file begins with."""
    return {"certified": certificate.holds, "version": VERSION, "prime": PRIME, "seed": certificate.seed}
