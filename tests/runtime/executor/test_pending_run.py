# SPDX-License-Identifier: Apache-2.0
"""Runs that are started and waited for later, and the throughput of a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.plans import expected, small_artifact

from vdla.commands.on_board import main
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.pending_run import MOST_WAITING, RunQueue

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(small_artifact(), "host") as opened:
        yield opened


def test_started_runs_give_their_own_outputs(model: Model) -> None:
    x, pending = X.copy(), []
    for factor in range(5):
        x[...] = X * factor  # the inputs of an earlier run are copies
        pending.append(model.start(x))
    for factor, run in enumerate(pending):
        assert np.allclose(run.wait(60), expected(X * np.float32(factor)), atol=1e-5)
        assert run.done


def test_an_error_of_a_run_is_raised_where_it_is_waited_for(model: Model) -> None:
    with pytest.raises(ModelError):
        model.start(X, X)  # too many inputs are refused at once
    run = model.start(X[:, :1])
    with pytest.raises(ValueError, match=r"must have the shapes|must be an array"):
        run.wait(60)
    assert np.allclose(model.start(X).wait(60), expected(X), atol=1e-5)


def test_waiting_has_a_limit_and_so_has_the_queue() -> None:
    gate, queue = threading.Event(), RunQueue("model m")
    first = queue.start(lambda: np.zeros(int(gate.wait(60))))
    with pytest.raises(ModelError) as error:
        first.wait(0.01)
    assert str(error.value) == "model m: run must end within 0.01 s, got none; wait again"
    for _ in range(MOST_WAITING - 1):
        queue.start(lambda: X)
    with pytest.raises(ModelError) as error:
        queue.start(lambda: X)
    assert str(error.value) == ("model m: runs that have not ended must be at most 64, got one more; wait for some")
    gate.set()
    assert first.wait(60).shape == (1,)
    queue.close()
    assert queue.start(lambda: X).wait(60) is X  # it opens again
    queue.close()


def test_throughput(model: Model, tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    result = model.throughput_test(3)
    assert (result.runs, result.images, result.cycles, result.clock_mhz) == (3, 2, 0, None)
    assert result.to_dict()["images_per_second"] == pytest.approx(6 / result.seconds)
    for wrong in (0, True, 1.5):
        with pytest.raises(ModelError) as error:
            model.throughput_test(wrong)  # type: ignore[arg-type]
        assert str(error.value) == f"model {model.name}: runs must be an integer from 1, got {wrong!r}"
    model.save(tmp_path / "m.vdla")
    assert main(["run", str(tmp_path / "m.vdla"), "--throughput", "2"]) == 0
    assert capsys.readouterr().out.endswith(" images a second in 2 runs\n")
    assert main(["run", str(tmp_path / "m.vdla"), "--throughput", "2", "--random-inputs", "1"]) == 2
    assert capsys.readouterr().err == ("vdla_board: run: --random-inputs must be left out with --throughput, got 1\n")
