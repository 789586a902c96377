"""`meshwright models`: the cards shipped, or one of them in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from planner.cli.help import arg
from planner.cli.options import JsonOpt

if TYPE_CHECKING:
    from rich.console import Console

    from model_zoo.schema import ModelCard

CONTEXTS = (8192, 32768, 131072)
PIPE_WIDTH = 150
"""Columns of the table where stdout is no terminal: nothing is cut."""

WIDE = 120
"""Columns from which on the table has all of its own."""


def models(
    name: Annotated[
        str | None,
        arg("FILTER", "A card, a Hugging Face id, a config.json, or any part of a name.", show_default=False),
    ] = None,
    json: JsonOpt = False,
) -> None:
    """List the models known, those whose names have FILTER in them, or show one: parameters, KV cache,
    weights.

    Example: meshwright models deepseek-v3
    """
    from model_zoo import catalog
    from planner.cli import output
    from planner.errors import InputError, squash

    console = output.stdout()
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    stems, one = catalog.matching(name or ""), None
    try:
        one = catalog.find(name) if name is not None else None
    except InputError:
        if not stems or not squash(name or ""):
            raise
    if one is None:
        cards = [catalog.load(stem) for stem in stems]
        if json:
            output.print_json([summary(card) for card in cards], indent=2)
        else:
            _print_table(console, cards)
        return
    card, warnings = one
    for warning in warnings:
        output.note(f"warning: {warning}")
    output.print_json(in_full(card), indent=2) if json else _print_card(console, card)


def summary(card: ModelCard) -> dict[str, Any]:
    """One line of the table."""
    from model_zoo import derive, writing

    kv = card.weights.kv
    growing = derive.kv_bytes_per_token_full(card, kv) + derive.index_bytes_per_token(card, kv)
    return {
        "name": card.name,
        "hf_id": card.hf_id,
        "total_params": derive.total_params(card),
        "active_params": derive.active_params(card),
        "attention": writing.attention_kinds(card),
        "layers": len(card.stack),
        "max_context": card.max_context,
        "kv_bytes_per_token": growing,
        "weights_precision": writing.weights_precision(card),
        "kv_precision": kv,
        "weights_bytes": sum(derive.weight_bytes(card).values()),
        "estimate": card.estimate,
    }


def in_full(card: ModelCard) -> dict[str, Any]:
    """All that is known of one card: its facts, and what follows from them."""
    from model_zoo import derive, writing

    kv = card.weights.kv
    return {
        **summary(card),
        "params": derive.params_by_part(card),
        "kv": {
            "bytes_per_token_full": derive.kv_bytes_per_token_full(card, kv),
            "bytes_per_token_window": derive.kv_bytes_per_token_window(card, kv),
            "index_bytes_per_token": derive.index_bytes_per_token(card, kv),
            "state_bytes_per_seq": derive.state_bytes(card),
            "bytes_per_seq": {str(n): derive.kv_bytes_per_seq(card, n, kv) for n in _contexts(card)},
        },
        "weights_bytes_by_precision": derive.weight_bytes(card),
        "mtp_bytes": derive.mtp_weight_bytes(card),
        "vision_bytes": 2 * card.vision_params,
        "card": writing.as_document(card),
    }


def _contexts(card: ModelCard) -> list[int]:
    """Context lengths to show: the usual ones the model can take, else its longest."""
    return [n for n in CONTEXTS if n <= card.max_context] or [card.max_context]


def _print_table(console: Console, cards: list[ModelCard]) -> None:
    """A line a card; in less than WIDE columns without what `meshwright models NAME` tells as well."""
    from rich import box
    from rich.table import Table

    wide = console.width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    heads = ["model", "total B", "active B", "attention", "layers", "context", "KV kB", "weights", "GB"]
    left, extra = ("model", "attention", "weights"), ("attention", "layers", "weights")
    shown = [head for head in heads if wide or head not in extra]
    for head in shown:
        table.add_column(
            head, justify="left" if head in left else "right", no_wrap=head != "attention", overflow="fold"
        )
    for card in cards:
        s = summary(card)
        cells = [
            s["name"],
            f"{s['total_params'] / 1e9:.1f}" + ("~" if card.estimate else ""),
            f"{s['active_params'] / 1e9:.1f}",
            s["attention"],
            str(s["layers"]),
            f"{s['max_context']:,}",
            f"{s['kv_bytes_per_token'] / 1e3:.1f}",
            s["weights_precision"],
            f"{s['weights_bytes'] / 1e9:.0f}",
        ]
        table.add_row(*(cell for head, cell in zip(heads, cells, strict=True) if head in shown))
    console.print(table)
    count = f"{len(cards)} model{'s' * (len(cards) > 1)}"
    console.print(f"{count}; ~ marks estimates. KV kB: what each token adds to the cache.")
    if not wide:
        console.print(f"Attention, layers and precision: from {WIDE} columns on, or meshwright models NAME.")


def _print_card(console: Console, card: ModelCard) -> None:
    full = in_full(card)
    console.print(f"{card.name}  {card.hf_id or ''}".rstrip())
    console.print(f"  {card.source}{'; counts are estimates' if card.estimate else ''}")
    console.print(
        f"  {full['layers']} layers, {full['attention']}, context {card.max_context:,}, "
        f"{full['weights_precision']} weights, {card.weights.kv} KV cache"
    )
    rows = [(part, f"{n / 1e9:.3f} B") for part, n in full["params"].items() if n]
    in_all = f"{full['total_params'] / 1e9:.2f} B text, {full['active_params'] / 1e9:.2f} B active per token"
    _print_block(console, "parameters", [*rows, ("in all", in_all)])
    _print_block(console, "KV cache", _kv_rows(full["kv"]))
    weights = [(p, f"{n / 1e9:.2f} GB") for p, n in full["weights_bytes_by_precision"].items()]
    weights.append(("in all", f"{full['weights_bytes'] / 1e9:.2f} GB text"))
    beside = (("with MTP layers", "mtp_bytes"), ("with vision tower", "vision_bytes"))
    weights += [(what, f"+ {full[key] / 1e9:.2f} GB") for what, key in beside if full[key]]
    _print_block(console, "weights", weights)
    if card.also:
        console.print(f"also: {', '.join(card.also)}")


def _kv_rows(kv: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("per token", f"{kv['bytes_per_token_full'] / 1e3:.2f} kB", kv["bytes_per_token_full"]),
        (
            "in the window",
            f"{kv['bytes_per_token_window'] / 1e3:.2f} kB per token",
            kv["bytes_per_token_window"],
        ),
        ("index keys", f"{kv['index_bytes_per_token'] / 1e3:.2f} kB per token", kv["index_bytes_per_token"]),
        ("state", f"{kv['state_bytes_per_seq'] / 1e6:.1f} MB per sequence", kv["state_bytes_per_seq"]),
    ]
    at = [
        (f"at {int(n):,} tokens", f"{size / 1e9:.3f} GB per sequence")
        for n, size in kv["bytes_per_seq"].items()
    ]
    return [(what, text) for what, text, size in rows if size] + at


def _print_block(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    console.print(f"\n{title}")
    for what, text in rows:
        console.print(f"  {what:<20} {text}")
