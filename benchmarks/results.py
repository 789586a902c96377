"""Renew `benchmarks/RESULTS.md`: every benchmark's table with the command that made it.

    python -m benchmarks.results [--only NAME …]

Seconds are of the machine that ran it, often a busy one: read ratios. Benchmarks that compare with measured
data or other
planners' cases look for a folder `shared` beside the repository and say so where it is missing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"
PAGE = ROOT / "benchmarks" / "RESULTS.md"

SECTIONS: dict[str, tuple[str, list[str]]] = {
    "peers": ("Other planners' instances", ["benchmarks.peers", "--markdown", "CASES"]),
    "simulators": (
        "Other simulators' cases: worst relative error of a percentile",
        ["benchmarks.peers", "--markdown", "SIMULATORS"],
    ),
    "maxflow": (
        "Layers on networks: max-flow",
        ["benchmarks.peers", "--markdown", "--objective", "maxflow", "NETWORKS"],
    ),
    "experts": ("Experts: balance, and hops between layers", ["benchmarks.peers", "--markdown", "EXPERTS"]),
    "combined": (
        "Experts: balance and traffic together",
        ["benchmarks.peers", "--markdown", "--objective", "combined", "BALANCED"],
    ),
    "wide": ("What balancing experts is worth to a decoding replica", ["benchmarks.wide_experts"]),
    "drift": ("Experts: loads that drift, and weights that move", ["benchmarks.experts_drift"]),
    "scale": ("Layers on hundreds of nodes, and a node that leaves", ["benchmarks.placement_scale"]),
    "chains": ("Plans of chains against their replay", ["benchmarks.chain_replay", "--only", "plans"]),
    "unequal": ("What unequal GPUs serve together", ["benchmarks.unequal"]),
    "afd": ("Attention and FFNs on different GPUs", ["benchmarks.afd"]),
    "vendor": ("The vendor's planner on its own jobs", ["benchmarks.vendor", "--markdown"]),
    "honest": ("Attempts to prove the bounds false", ["benchmarks.honest", "--problems", "500"]),
    "lines": ("Lines below what columns cost, beside the one model", ["benchmarks.lines", "--columns", "60"]),
    "roofline": ("Predictions against the roofline of the device", ["benchmarks.roofline"]),
    "agreement": ("Plans against predict of their replicas", ["benchmarks.agreement"]),
    "shipped": ("Shipped clusters and large questions", ["benchmarks.shipped", "--markdown"]),
    "scaling": ("From 8 to 100,000 GPUs", ["benchmarks.scaling", "--markdown"]),
    "accuracy": ("Predictions against public serving runs", ["benchmarks.accuracy"]),
    "spreads": ("How far factors scatter, by the rows", ["benchmarks.spreads"]),
    "alike": ("Runs whose requests are alike in length", ["benchmarks.alike"]),
    "timed": ("Kernels timed on an H100 and an H200", ["benchmarks.timed_kernels"]),
    "routers": ("Routers in 32 bits against published times", ["benchmarks.routers"]),
    "tokenizing": ("Reading a prompt's text", ["benchmarks.tokenizing"]),
    "gain": ("What calibration with 20 rows brings", ["benchmarks.calibration_gain"]),
    "disaggregated": ("Disaggregated runs", ["benchmarks.disaggregated"]),
    "splits": ("Prefill/decode splits: gains and rules", ["benchmarks.choice", "splits"]),
    "picks": ("Picks among layouts that no fit saw", ["benchmarks.choice", "picks"]),
    "rates": ("Whole steps beside the best product of their device", ["benchmarks.choice", "rates"]),
    "picks_folds": ("Picks among layouts left out of the fit", ["benchmarks.choice", "picks_folds"]),
    "mechanisms": ("Bands where a mechanism is left out of the fit", ["benchmarks.choice", "mechanisms"]),
    "pipelines": ("Pipelines beside layouts of one stage", ["benchmarks.choice", "pipelines"]),
    "speculation": ("Speculative decoding: runs with MTP", ["benchmarks.speculation"]),
    "published": ("Published deployments over many nodes", ["benchmarks.wide_published"]),
    "saturated": ("Offline tables at full load", ["benchmarks.saturated"]),
    "printouts": ("Runs that people printed in public threads", ["benchmarks.printouts"]),
    "older": ("Older and other hardware", ["benchmarks.older_hardware"]),
    "offload": ("Small machines, in GPU and in host memory", ["benchmarks.offload"]),
    "offline": ("Offline, with weights and cache off the GPU", ["benchmarks.offline"]),
    "queueing": ("Queueing formulas against the replay", ["benchmarks.queueing", "--quick"]),
    "admission": ("Admission to the KV cache against the replay", ["benchmarks.admission"]),
    "prefix": ("Prefix cache: formula, program and replay", ["benchmarks.prefix"]),
    "several": ("Several models against every split by hand", ["benchmarks.several"]),
    "buy": ("Purchases against every mix, and their prices against a scan", ["benchmarks.buy"]),
    "worth": ("What one more of a limit is worth, asked again from the beginning", ["benchmarks.worth"]),
    "conflicts": ("Limits in conflict, each set tried by planning", ["benchmarks.conflicts"]),
    "migration": ("From one plan to another", ["benchmarks.migration"]),
    "power": ("GPUs under power limits, and what kernels draw", ["benchmarks.power"]),
    "power_caps": ("Racks under power caps", ["benchmarks.power_caps"]),
    "percentiles": ("Percentiles of recorded arrivals", ["benchmarks.percentiles"]),
    "schedule": ("Schedules of public days and fortnights", ["benchmarks.schedule", "--seconds", "80"]),
    "schedule_solvers": (
        "Schedules: HiGHS, CP-SAT, and blocks and windows",
        ["benchmarks.schedule_solvers", "--seconds", "40"],
    ),
    "replay": ("Speed of the replay", ["benchmarks.replay_speed"]),
    "measured": ("The replay against measured runs", ["benchmarks.replay_measured"]),
    "cost": ("Speed of the cost model", ["benchmarks.cost_speed"]),
    "building": ("Stating a fleet", ["benchmarks.solver_building", "--markdown"]),
    "large": (
        "Large programs, by HiGHS alone, with OR-tools, and with columns left out by prices",
        ["benchmarks.large_programs"],
    ),
    "params": ("Parameters and KV bytes of all configurations", ["benchmarks.params"]),
    "sweep": ("Sweeps: killed, on two cores, on a cluster", ["benchmarks.sweeps"]),
    "fuzz": (
        "Broken files",
        ["benchmarks.fuzz", "--cases", "20000", "--minutes", "40", "--seed", "6", "--jobs", "1"],
    ),
    "odd": (
        "Valid but odd problems",
        ["benchmarks.odd", "--cases", "120", "--minutes", "20", "--seed", "12", "--jobs", "1", "--cpu"],
    ),
    "report": ("Reports: size, and seconds to open", ["benchmarks.report_page"]),
    "faults": ("Faults of the machine", ["benchmarks.faults", "--kills", "3"]),
    "same": ("Same input, same bytes", ["benchmarks.same"]),
    "mutations": ("What check notices", ["benchmarks.mutations"]),
    "mutants": ("What the tests notice", ["benchmarks.mutation_testing", "--faults", "3", "solvers"]),
    "house": ("How the code is built", ["benchmarks.house", "--before", "c00172f", "--markdown"]),
    "installs": ("Installs from the wheel", ["benchmarks.installs"]),
    "soak": ("Many plans in one process", ["benchmarks.soak", "--plans", "5000"]),
}
FAMILIES = {
    "CASES": ("melange", "splitwise", "hexgen", "helix", "flexgen"),
    "NETWORKS": ("helix",),
    "SIMULATORS": ("simulate",),
    "EXPERTS": ("eplb", "exflow"),
    "BALANCED": ("eplb",),
}
"""Words of a command that stand for all cases of some peers."""

LONGEST = 120
"""Lines of a table that are kept: the last ones, where the sums stand."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    chosen = parser.parse_args().only
    pages = _read()
    for name in chosen:
        print(f"{name} …", file=sys.stderr, flush=True)
        pages[name] = _section(name)
        PAGE.write_text(_page(pages), encoding="utf-8")
    return 0


def _section(name: str) -> str:
    """One benchmark's heading, command and output."""
    title, words = SECTIONS[name]
    args = [a for word in words for a in (_cases(*FAMILIES[word]) if word in FAMILIES else [word])]
    shown = " ".join(["python", "-m", *words])
    for word, peers in FAMILIES.items():
        several = f"{{{','.join(peers)}}}" if len(peers) > 1 else peers[0]
        shown = shown.replace(word, f"../shared/cases/{several}/*.json")
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True, check=False
    )
    text = done.stdout.rstrip() or done.stderr.rstrip()
    lines = text.splitlines()
    body = "\n".join(lines if len(lines) <= LONGEST else [*lines[:3], "…", *lines[-LONGEST:]])
    fenced = body if body.lstrip().startswith(("|", "#")) else f"```text\n{body}\n```"
    note = "" if done.returncode == 0 else f"\nExit code {done.returncode}.\n"
    return f"## {title}\n\n`{shown}`\n{note}\n{fenced}\n"


def _cases(*peers: str) -> list[str]:
    return [str(p) for peer in peers for p in sorted((CASES / peer).glob("*.json"))]


def _page(pages: dict[str, str]) -> str:
    head = (
        "# Results\n\nRenewed by `python -m benchmarks.results`; each table stands under its command.\n"
        "Accuracy is of groups held out of the fit unless a line says otherwise.\n"
    )
    return "\n".join([head, *(pages[name] for name in SECTIONS if name in pages)])


def _read() -> dict[str, str]:
    """Sections of the page as it stands, by name."""
    if not PAGE.is_file():
        return {}
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    titles = {title: name for name, (title, _) in SECTIONS.items()}
    found = {titles.get(part.split("\n", 1)[0]): "## " + part.rstrip() + "\n" for part in parts}
    return {name: text for name, text in found.items() if name}


if __name__ == "__main__":
    raise SystemExit(main())
