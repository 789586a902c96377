"""Options that a plan's way of being made leaves nothing to say."""

import pytest

from planner.errors import InputError
from planner.question.unheard import UNHEARD, refuse


@pytest.mark.parametrize("option", UNHEARD)
def test_an_option_without_a_say_is_refused_by_its_name_and_only_then(option):
    for under, (profiled, engine) in enumerate(((True, "any"), (False, "chains"))):
        refuse({option: None}, profiled, engine)
        refuse({option: "x"}, False, "vllm")
        if UNHEARD[option][under]:
            with pytest.raises(InputError) as error:
                refuse({option: "x"}, profiled, engine)
            assert (error.value.where, error.value.message) == (option, UNHEARD[option][under])


def test_chains_are_calibrated():
    refuse({"--calibration": "x"}, False, "chains")
