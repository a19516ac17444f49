"""Layouts of images on CPUs: which operators compute in blocks of channels, and the repacks."""

from vdla.compiler.graph.layouts.layout_rule import BlockedForm, LayoutCall, LayoutRule
from vdla.compiler.graph.layouts.minimum_cut import source_side
from vdla.compiler.graph.layouts.repack import REPACKS, choose_layouts
from vdla.compiler.graph.layouts.table import LAYOUT_RULES

__all__ = ["LAYOUT_RULES", "REPACKS", "BlockedForm", "LayoutCall", "LayoutRule", "choose_layouts", "source_side"]
