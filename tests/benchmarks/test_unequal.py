"""`python -m benchmarks.unequal` on its smallest mix: exact, and unlike stages pay."""

from benchmarks.unequal import MIXES, WAYS, main


def test_ten_mixes_of_three_models_each():
    assert len(MIXES) == 10
    assert all(len(mix.models) == 3 for mix in MIXES)


def test_two_unlike_cards_serve_more_with_uneven_layers(capsys):
    assert main(["--only", "rtx-5090"]) == 0

    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    for line in lines[2:]:
        rates = [0.0 if x == "-" else float(x) for x in line[3 : 3 + len(WAYS)]]
        apart, equal, layers, tp, split, everything = rates
        assert apart <= equal <= min(layers, tp)
        assert max(layers, tp, split) <= 1.03 * everything  # layers are dealt by lines near one load
        assert everything > 1.05 * equal
        assert line[-2] == "0.0 %"
