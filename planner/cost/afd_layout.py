"""Layouts of attention-FFN disaggregation: which GPUs of which classes attend, and which have the FFNs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cluster_configs.schema import NodeClass
from planner.designs.shape import Stage, StagedDesigns, Staging
from planner.reading.units import sizes_in_words


@dataclass(frozen=True)
class Layout:
    """attn_dp ranks of tp GPUs of class `attention`; moe_tp * ep GPUs of class `ffn`."""

    attention: str
    ffn: str
    tp: int
    attn_dp: int
    moe_tp: int
    ep: int

    @property
    def attention_gpus(self) -> int:
        return self.tp * self.attn_dp

    @property
    def ffn_gpus(self) -> int:
        return self.moe_tp * self.ep

    @property
    def gpus(self) -> int:
        return self.attention_gpus + self.ffn_gpus

    def gpus_on(self, node_class: str) -> int:
        """GPUs of a class."""
        return self.attention_gpus * (node_class == self.attention) + self.ffn_gpus * (node_class == self.ffn)

    def __str__(self) -> str:
        """Both blocks, each with what is not 1.

        >>> print(Layout("h20", "h100-sxm", 2, 4, 1, 8))
        attention h20 tp2 dp4, FFN h100-sxm ep8
        """
        sizes = sizes_in_words(tp=self.tp, dp=self.attn_dp), sizes_in_words(tp=self.moe_tp, ep=self.ep)
        sides = zip((f"attention {self.attention}", f"FFN {self.ffn}"), sizes, strict=True)
        return ", ".join(f"{name} {size}".rstrip() for name, size in sides)


@dataclass(frozen=True)
class Block(Stage):
    """`tp` GPUs side by side of a replica of `layout`; both its blocks have all layers."""

    layout: Layout


def together(layout: Layout, nodes: Mapping[str, NodeClass]) -> bool:
    """Whether both blocks stand side by side in one scale-up domain: in a node, or on whole nodes of it."""
    node, gpus = nodes[layout.attention], layout.gpus
    whole = gpus <= node.gpus_per_node or gpus % node.gpus_per_node == 0
    return layout.attention == layout.ffn and gpus <= node.scale_up_gpus and whole


def blocks(layout: Layout, nodes: Mapping[str, NodeClass], layers: int) -> Staging:
    """What of a replica stands by itself: all of it where that is together, else each attention rank and the
    FFN block's share of each node."""
    every = (0, layers)
    if together(layout, nodes):
        return (Block(layout.attention, layout.gpus, every, layout),)
    ranks = layout.attn_dp * (Block(layout.attention, layout.tp, every, layout),)
    size = min(layout.ffn_gpus, nodes[layout.ffn].gpus_per_node)
    return ranks + layout.ffn_gpus // size * (Block(layout.ffn, size, every, layout),)


def designs_of(layouts: Sequence[Layout]) -> StagedDesigns:
    """One design a layout; tp and attn_dp are attention's."""
    names = ("tp", "attn_dp", "moe_tp", "ep", "gpus")
    tp, dp, moe_tp, ep, gpus = (np.array([getattr(x, n) for x in layouts], dtype=np.int64) for n in names)
    one, index = np.ones_like(tp), np.arange(len(tp), dtype=np.int64)
    return StagedDesigns(tp, one, dp, moe_tp, ep, 0 * one, one, index, gpus)
