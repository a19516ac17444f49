"""Tuning runs: measurers, workers, logs of trials, the loop, and the best known schedules."""

from vdla.runtime.tune.best import SHIPPED, TunedSchedules
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.errors import TuningError
from vdla.runtime.tune.log import LoggedTrial, TaskRun, TrialIndex, TuningLog, read_logs
from vdla.runtime.tune.measurer import DeviceMeasurer, Measurer, SimMeasurer
from vdla.runtime.tune.ray_workers import RayWorkers
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.tune import Search, TuningProgress, TuningReport, tune
from vdla.runtime.tune.workers import InlineWorkers, LocalWorkers, Workers

__all__ = [
    "SHIPPED",
    "CpuMeasurer",
    "DeviceMeasurer",
    "InlineWorkers",
    "LocalWorkers",
    "LoggedTrial",
    "Measurer",
    "RayWorkers",
    "Search",
    "SimMeasurer",
    "TaskRun",
    "Trial",
    "TrialIndex",
    "TunedSchedules",
    "TuningError",
    "TuningLog",
    "TuningProgress",
    "TuningReport",
    "Workers",
    "read_logs",
    "tune",
]
