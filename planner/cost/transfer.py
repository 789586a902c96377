"""How long a prompt's KV cache keeps its first decode step waiting, from a prefill to a decode replica.

What engines do as they come:
- SGLang sends what each chunk of a prompt has added when the chunk is done (`send_kv_chunk`; windows and
  recurrent states go with the last), so it travels while later chunks are computed; layer by layer is not
  merged (sglang pulls 23515, 34905, 38309).
- vLLM's NixlConnector reads the whole cache when the prompt is done (vllm pull 56874 describes it and offers
  another way); P2pNcclConnector sends layer by layer.
- TensorRT-LLM sends when the context phase is over, beside other requests' steps; chunk by chunk only where
  `enable_pipelined_transfer` asks for it (TensorRT-LLM pull 15727).

**Overlap.** A prompt in k chunks, the j-th computed in c_j <= c_{j+1}, its cache sent in S seconds, equal
parts of it after each chunk but a share `last` after the last. Parts i..k, sent in one go, are through

    f(i) = sent(i..k) - (c_{i+1} + ... + c_k)

after the prompt, and the last one leaves max f(i) after it. Sums of growing c are concave in i, so f is
convex and largest at an end: f(k) = last S, f(1) = S - hidden with hidden = c_2 + ... + c_k:

    seen = max(last S, S - hidden)

**Copies.** Each rank of the decode replica fetches what it keeps: tp ranks a latent (MLA) each, or a KV head
each where heads are fewer than ranks (vllm pulls 27274, 19691), so `copies` of a cache cross. A transfer
takes as long as the rank with the most bytes takes over its own NIC.

**Paths.** NIXL, by which all three are launched, reads and writes caches through UCX. GPUs that read each
other's memory (`peer_to_peer`) do so over their links, and RDMA NICs take them from GPU memory. Where neither
is, UCX falls back to TCP: every GPU's caches are copied through host memory by one process, at
`TCP_BYTES_PER_S` whatever PCIe or the network carry. A transfer begins `START_S` late.

**Sharing.** Transfers that meet share links max-min fairly. Seen from one link they are processor sharing:
with arrivals at random and the link busy a share u of the time, each takes 1 / (1 - u) times as long as
alone, whatever its size (Kleinrock 1967). What the links of a way add is summed.
Error against `planner/simulate/transfers.py`: 3 % on one link, up to 25 % too long where two are as busy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cluster_configs.schema import NodeClass
from planner.designs.shape import Floats, StepTimes

TCP_BYTES_PER_S = 0.37e9
"""A GPU's caches over TCP. Measured, in GB/s: 0.28 (vLLM between L40S and L4 in a cloud's network, AWS's EKS
example), 0.36 (vLLM 0.30 on L40S in one node, 470 MB in 1.3 s, vLLM's blog on disaggregated serving), 0.37
(vLLM with a GPU a container, 405 MB in 1.09 s, a public log), 0.34 to 0.41 (UCX from GPU memory, ucx-py issue
370), 0.5 (vLLM in one node, vllm issue 52607): their median. TensorRT-LLM switches CUDA IPC off on L40S, too
(TensorRT-LLM pull 9735)."""

START_S = 7e-3
"""From the end of a prompt to its cache's first byte: posting the transfer and polling for its end. Whole
transfers of 70 MB over NVLink or RDMA took 7.1, 7.8, 9.3 ms (vLLM on one node, NIXL's own telemetry) and 9.9
(vllm pull 25388), of which links account for 0.2 to 3; 5.7 ms of the last were spent posting, as of 167 MB in
vllm issue 50913 6.7."""

CHUNKED = ("sglang",)
"""Engines that send what a chunk has added when it is done; the others send whole caches."""


@dataclass(frozen=True)
class Overlap:
    """What hides the sending of one prompt's cache: the share of its cache that is sent after the last chunk,
    and seconds of compute that the rest can hide behind."""

    last: float = 1.0
    hidden_s: float = 0.0

    def seen_s(self, sent_s: float) -> float:
        """What of `sent_s` seconds of sending comes after the prompt.

        >>> Overlap(0.25, 0.5).seen_s(0.4), Overlap(0.25, 0.5).seen_s(1.0), Overlap().seen_s(0.4)
        (0.1, 0.5, 0.4)
        """
        return max(self.last * sent_s, sent_s - self.hidden_s)

    def bearable_s(self, seen_s: float) -> float:
        """The longest sending of which at most `seen_s` comes after the prompt."""
        return min(seen_s / self.last, seen_s + self.hidden_s)


WHOLE = Overlap()
"""Nothing is sent before the prompt is done."""


def by_rdma(node: NodeClass) -> bool:
    """Whether NICs take caches from GPU memory: not from GeForce cards, whose driver refuses it."""
    return node.nic != "ethernet" and node.device.peer_to_peer is not False


def nic_bytes_per_s(node: NodeClass) -> float:
    """Bytes/s of caches that leave or reach a GPU over its NICs; between the parts of a node with unlike GPUs
    that is their PCIe."""
    direct = node.peer_to_peer if node.box is not None else by_rdma(node)
    return node.nic_bytes_per_s if direct else min(node.nic_bytes_per_s, TCP_BYTES_PER_S)


def inside_bytes_per_s(node: NodeClass) -> float:
    """Bytes/s of caches that a GPU sends to others of its scale-up domain over what joins them."""
    return node.intra_bytes_per_s if node.peer_to_peer else min(node.intra_bytes_per_s, TCP_BYTES_PER_S)


def stays_inside(a: NodeClass, b: NodeClass) -> bool:
    """Whether caches from one class to the other need no NIC: inside a scale-up domain, unless its GPUs do
    not read each other's memory and their NICs do."""
    joined = a.id == b.id and a.gpus <= max(a.scale_up_gpus, a.gpus_per_node)
    return joined and (a.peer_to_peer or not by_rdma(a))


def hidden_s(step: StepTimes, new: Floats, isl: Floats, chunk: float) -> Floats:
    """Seconds that the chunks after the first take, (n, w), of prompts of `isl` tokens (w,) of which `new`
    are computed; 0 where one chunk is enough."""
    chunks, cached = np.ceil(new / chunk), isl - new
    first = np.minimum(new, chunk)
    rest = new - first
    pairs = rest * (cached + first + rest / 2)
    per_token, per_pair, t0 = (
        np.reshape(x, (-1, 1)) for x in (step.prefill_s_per_token, step.prefill_s_per_pair, step.t0_s)
    )
    return np.asarray((chunks - 1) * t0 + rest * per_token + pairs * per_pair)


def shared_s(alone_s: Iterable[tuple[float, float]]) -> float:
    """Seconds that a transfer takes over links that others use, too: of each what it takes alone and the
    share of the time that the link is busy. Infinite where one is full.

    >>> shared_s([(0.2, 0.5), (0.3, 0.0)])
    0.5
    """
    ways = [(s, used) for s, used in alone_s if s > 0]
    if any(used >= 1 for _, used in ways):
        return float("inf")
    return max((s for s, _ in ways), default=0.0) + sum(s * used / (1 - used) for s, used in ways)
