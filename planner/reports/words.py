"""Numbers and names in words, the same in every report."""

from __future__ import annotations

from math import floor, log10

from rich.table import Table

from planner.plans.schema import PlanWarning, Replica
from planner.reading.units import sizes_in_words


def number(x: float, digits: int = 3) -> str:
    """`x` with at least `digits` significant digits, never losing whole units; thousands apart. The digits
    are those of what is shown: 0.99999 is 1.00.

    >>> number(12480.4), number(48.83), number(0.6931), number(0.0), number(1234567), number(0.999999999)
    ('12,480', '48.8', '0.693', '0', '1,234,567', '1.00')
    """
    shown = float(f"{x:.{digits}g}")
    if shown == 0:
        return "0"
    return f"{x:,.{max(0, digits - 1 - floor(log10(abs(shown))))}f}"


def money(usd: float) -> str:
    """Dollars: cents below a thousand.

    >>> money(31.2), money(0.0043), money(52000.4)
    ('$31.20', '$0.0043', '$52,000')
    """
    if 0 < abs(usd) < 0.1:
        return f"${number(usd, 2)}"
    return f"${usd:,.2f}" if abs(usd) < 1000 else f"${usd:,.0f}"


def milliseconds(ms: float) -> str:
    """Milliseconds, or seconds from ten seconds on.

    >>> milliseconds(41.27), milliseconds(812.4), milliseconds(14210)
    ('41.3 ms', '812 ms', '14.2 s')
    """
    return f"{number(ms)} ms" if ms < 10_000 else f"{number(ms / 1000)} s"


def power(watts: float) -> str:
    """Watts, kilowatts from a thousand on.

    >>> power(640), power(17_240)
    ('640 W', '17.2 kW')
    """
    return f"{number(watts)} W" if watts < 1000 else f"{number(watts / 1000)} kW"


def percent(share: float) -> str:
    """A share in percent, with a digit after the point below ten.

    >>> percent(0.0061), percent(0.88), percent(0.0)
    ('0.6 %', '88 %', '0 %')
    """
    shown = 100 * share
    return f"{shown:.1f} %" if 0.05 <= abs(shown) < 9.95 else f"{shown:.0f} %"


def odds(chance: float) -> str:
    """A chance in whole percent; never certain.

    >>> odds(0.9163), odds(0.9996), odds(0.0004)
    ('92 %', 'over 99 %', 'under 1 %')
    """
    if 0.005 <= chance < 0.995:
        return f"{100 * chance:.0f} %"
    return "over 99 %" if chance > 0.5 else "under 1 %"


def amount(value: float, unit: str) -> str:
    """`value` in its unit, dollars in front.

    >>> amount(19.2, "$/h"), amount(812.4, "ms"), amount(4952, "/s")
    ('$19.20/h', '812 ms', '4,952 /s')
    """
    if unit.startswith("$"):
        return money(value) + unit[1:]
    return f"{number(value)} {unit}"


def rate(value: float, unit: str) -> str:
    """An amount of the goal in its unit.

    >>> rate(412.4, "tok/s"), rate(24, "usd_per_hour"), rate(8, "gpus"), rate(1200, "watts")
    ('412 tok/s', '$24.00/h', '8 GPUs', '1.20 kW')
    """
    plain = unit.replace(" ", "_").lower()
    if plain in {"usd_per_hour", "usd/h", "$/h"}:
        return f"{money(value)}/h"
    if plain in {"watts", "w"}:
        return power(value)
    if plain in {"gpus", "gpu"}:
        return f"{value:,.6g} GPU{'' if value == 1 else 's'}"
    return f"{number(value)} {unit}"


def layout(r: Replica) -> str:
    """Parallelism of one replica, ones left out: `tp4 pp2`, `tp1 dp8 ep8`; `tp1` alone for a single GPU; of
    stages on several classes their layers, too: `pp2 38+26`."""
    words = [sizes_in_words(tp=r.tp, pp=r.pp, dp=r.attn_dp, cp=r.cp, ep=r.ep)]
    if r.moe_tp > 1 and r.ep > 1:
        words.append(f"moe-tp{r.moe_tp}")
    if r.redundant_experts:
        words.append(f"+{r.redundant_experts} experts")
    if r.role == "chain":
        words += [f"layers {stage.layers[0]}:{stage.layers[1]}" for stage in r.stages]
    if len({stage.node_class for stage in r.stages}) > 1:
        words.append("+".join(str(end - start) for start, end in (stage.layers for stage in r.stages)))
    return " ".join(filter(None, words)) or "tp1"


def hardware(r: Replica) -> str:
    """GPUs of one replica, devices in stage order: `8×h100-sxm`, `4×h100-sxm + 4×l40s`."""
    return " + ".join(f"{n}×{device}" for device, n in gpus_by_device(r).items())


def gpus_by_device(r: Replica) -> dict[str, int]:
    """GPUs of one replica of each device, in stage order."""
    gpus: dict[str, int] = {}
    for stage in r.stages:
        gpus[stage.device] = gpus.get(stage.device, 0) + stage.gpus
    return gpus


def noted(w: PlanWarning) -> str:
    """A warning with its reason, where the message does not say it."""
    return f"{w.message} ({w.reason})" if w.reason and w.reason not in w.message else w.message


STEP_TOKENS = {
    "vllm": "--max-num-batched-tokens {0}",
    "sglang": "--chunked-prefill-size {0}",
    "trtllm": "--max_num_tokens {0}",
    "llama.cpp": "--ubatch-size {0} --batch-size {0}",
}
"""Options for the prompt tokens of a step."""


def chunks(r: Replica) -> str:
    """The option that tells the engine the prompt tokens of a step, where it is not left to itself."""
    return STEP_TOKENS[r.engine].format(r.max_batched_tokens) if r.max_batched_tokens else ""


def drafted(r: Replica) -> str:
    """What drafts, and what comes of it: `mtp, 1.18 of 3 tokens accepted`; nothing without. A server that
    only prefills fills the drafter's cache."""
    if r.draft is None:
        return ""
    model = f" {r.draft.model['name']}" if r.draft.model else ""
    held = f", {r.draft.weights_bytes / 1e9:.2f} GB a GPU" if r.draft.weights_bytes else ""
    if r.role == "prefill":
        return f"{r.draft.kind}{model} of those that decode{held}"
    return f"{r.draft.kind}{model}, {number(r.draft.accepted)} of {r.draft.tokens} tokens accepted{held}"


def precision(r: Replica) -> str:
    """Precisions of one replica: `fp8`, `fp8, experts mxfp4, KV bf16`."""
    p = r.precision
    words = [p.weights]
    if p.experts != p.weights:
        words.append(f"experts {p.experts}")
    if p.kv != p.weights:
        words.append(f"KV {p.kv}")
    return ", ".join(words)


def short(r: Replica) -> str:
    """Count, GPUs of each, layout, role, engine, precision and batch:
    `4x 2×h100-sxm tp2 mixed vllm bf16 b96`."""
    gpus, split = hardware(r).replace(" ", ""), layout(r).replace(" ", "-")
    used = precision(r).replace(", ", "+").replace(" ", ":")
    return f"{r.count}x {gpus} {split} {r.role} {r.engine} {used} b{r.max_batch}"


TELLS = {
    "gemm_flops": "GEMMs, compute",
    "gemm_bytes": "GEMMs, memory",
    "decode_attention": "decode attention",
    "prompt_attention": "prompt attention",
    "experts": "experts",
    "expert_flops": "experts, compute",
    "recurrent": "recurrent layers",
    "launch": "kernel launches",
    "expert_launch": "expert launches",
    "messages": "collectives",
    "message_wait_s": "waits of ranks",
    "step_s": "host, a step",
    "sequence_s": "host, a sequence",
    "prompt_layer_s": "steps of prompts",
    "latent_layer_s": "latent attention",
    "captured": "captured prompts",
    "request_s": "a request's start",
    "text_token_s": "reading a prompt's text",
    "arrival_s": "intake of prompts",
    "together": "prompts that meet",
    "attn_dp": "attention dp",
}
"""Parameters of `Tuning` in a few words."""


def grid(*columns: str) -> Table:
    """A table without lines; a column's name starts with `>` where it stands to the right."""
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
        show_header=any(name.strip(">") for name in columns),
    )
    for name in columns:
        right = name.startswith(">")
        table.add_column(name.removeprefix(">"), justify="right" if right else "left", no_wrap=right)
    return table
