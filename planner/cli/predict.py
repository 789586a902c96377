"""`meshwright predict`: answers every row of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from planner.cli.help import arg, opt
from planner.cli.options import CalibrationOpt


def predict(
    rows: Annotated[Path, arg("ROWS.csv", "One replica under one load a row.")],
    out: Annotated[Path, opt("--out -o", "The table with answers added.", "OUT.csv")],
    calibration: CalibrationOpt = None,
    cluster: Annotated[
        Path | None,
        opt("--cluster", "Nodes that the devices stand in.", "CLUSTER.yaml"),
    ] = None,
) -> int:
    """Predict latency, throughput, memory and watts of each row of ROWS.csv.

    Bad rows get blank answers with the reason in `note`, and are listed; all others are answered.

    Example: meshwright predict rows.csv --out predicted.csv
    """
    import csv

    from planner.cli.output import note, whole_file
    from planner.errors import InputError
    from planner.inputs.tables import read_csv
    from planner.predict.predictions import ANSWERS, cells, predict_rows
    from planner.reading.cells import harmless

    table = read_csv(rows, required=("model", "device"))
    used = None
    if calibration is not None:
        from planner.calibration import files  # only here: its forms take 10 ms to set up

        used = files.read(calibration)
        if old := files.outdated(used):
            note(f"warning: {old}")
    nodes = None
    if cluster is not None:
        from cluster_configs.reading import read_cluster

        nodes = read_cluster(cluster)
    with whole_file(out) as file:
        lines = [InputError(row.problem) if row.problem else row.cells for row in table.rows]
        answers = predict_rows(lines, used, nodes)
        columns = [c for c in table.columns if c not in ANSWERS] + list(ANSWERS)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(harmless, columns))
        for row, answer in zip(table.rows, answers, strict=True):
            known = row.cells | cells(answer)
            writer.writerow(harmless(known.get(column, "")) for column in columns)
    bad = [(row, a) for row, a in zip(table.rows, answers, strict=True) if isinstance(a, InputError)]
    for row, answer in bad:
        note(f"{row.path}:{row.line}: {answer.message}")
    return 2 if bad else 0
