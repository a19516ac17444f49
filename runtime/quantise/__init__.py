"""Quantisation of networks on the user's data, and reports of what it costs."""

from vdla.runtime.quantise.quantise import quantise
from vdla.runtime.quantise.quantised_network import QuantisedNetwork
from vdla.runtime.quantise.report import LayerReport, QuantisationReport, snr_db

__all__ = ["LayerReport", "QuantisationReport", "QuantisedNetwork", "quantise", "snr_db"]
