import json

from planner.cli.app import run


def test_the_list_has_a_line_for_every_card(capsys):
    assert run(["models"]) == 0
    out = capsys.readouterr().out

    assert "llama-3.1-405b" in out
    assert "\x1b" not in out


def test_one_model_shows_parameters_kv_and_weights(capsys):
    assert run(["models", "deepseek-v3"]) == 0
    out = capsys.readouterr().out

    for figure in ("671.03 B text", "37.55 B active", "70.27 kB", "mtp", "at 131,072 tokens", "fp8_block"):
        assert figure in out


def test_json_has_the_card_and_what_follows(capsys):
    assert run(["models", "foo/Llama-3.1-8B", "--json"]) == 0
    captured = capsys.readouterr()
    answer = json.loads(captured.out)

    assert answer["total_params"] == 8_030_261_248
    assert answer["kv"]["bytes_per_seq"]["8192"] == 131_072 * 8192
    assert answer["card"]["hidden"] == 4096
    assert "foo" in captured.err


def test_an_unknown_model_is_bad_input(capsys):
    assert run(["models", "llama-3.1-71b"]) == 2
    assert "did you mean llama-3.1-70b" in capsys.readouterr().err
