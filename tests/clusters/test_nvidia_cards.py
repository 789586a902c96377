"""GPUs as `nvidia-smi` describes them, in each of its forms."""

from __future__ import annotations

import pytest

from planner.clusters.nvidia_cards import Card, read_cards
from planner.errors import InputError

XML = """\
<?xml version="1.0" ?>
<nvidia_smi_log>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:07:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <product_architecture>Hopper</product_architecture>
    <mig_mode><current_mig>Disabled</current_mig></mig_mode>
    <fb_memory_usage><total>81559 MiB</total><used>40 MiB</used></fb_memory_usage>
    <pci><pci_gpu_link_info>
      <pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>4</current_link_gen></pcie_gen>
      <link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
    </pci_gpu_link_info></pci>
    <gpu_power_readings>
      <current_power_limit>N/A</current_power_limit><power_limit>650.00 W</power_limit>
      <default_power_limit>700.00 W</default_power_limit>
    </gpu_power_readings>
    <fabric><state>Completed</state></fabric>
  </gpu>
</nvidia_smi_log>
"""
H100 = Card(
    "NVIDIA H100 80GB HBM3", 81559.0, 40.0, 650.0, 700.0, "Disabled",
    fabric="Completed", architecture="Hopper",
    pcie_gen_max=5, pcie_gen_now=4, pcie_width_now=8,
)  # fmt: skip
QUERY = """\
==============NVSMI LOG==============

Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Architecture                  : Hopper
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 4
            Link Width
                Max                       : 16x
                Current                   : 8x
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 40 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    GPU Power Readings
        Current Power Limit               : 650.00 W
        Default Power Limit               : 700.00 W
    Fabric
        State                             : Completed
"""


def cards(text: str) -> tuple[Card, ...]:
    found = read_cards(text, "node.txt")
    assert found is not None
    return found.cards


def test_the_xml_and_the_query_in_words_say_the_same():
    assert cards(XML) == cards(QUERY) == (H100,)


def test_the_driver_may_count_more_than_it_describes():
    found = read_cards(XML, "node.txt")

    assert found is not None
    assert (found.attached, found.form) == (2, "nvidia-smi -q -x")
    assert read_cards(QUERY, "node.txt").attached == 1  # type: ignore[union-attr]


def test_slices_of_a_split_card_are_counted_with_their_memory():
    slices = (
        "<mig_devices>"
        + 2 * "<mig_device><fb_memory_usage><total>40192 MiB</total></fb_memory_usage></mig_device>"
        + "<mig_device><fb_memory_usage><total>N/A</total></fb_memory_usage></mig_device></mig_devices>"
    )
    (card,) = cards(XML.replace("<fabric>", slices + "<fabric>"))

    assert (card.slices, card.mig_memory_mib) == (3, (40192.0, 40192.0))


def test_an_xml_that_is_cut_is_refused_with_its_line():
    with pytest.raises(InputError, match="the XML cannot be read") as caught:
        read_cards("# made by a script\n" + XML[: XML.index("<fabric>")], "node.txt")

    assert caught.value.where == "node.txt:18"


def test_of_several_forms_the_fullest_counts():
    found = read_cards("GPU 0: NVIDIA L40S (UUID: GPU-1)\n" + XML, "node.txt")

    assert found is not None
    assert found.form == "nvidia-smi -q -x"
    assert read_cards("hello\n", "node.txt") is None


def test_a_list_has_names_and_slices_below_them():
    first, second = cards(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-1)\n  MIG 1c.3g.20gb Device 1: (UUID: MIG-2)\n"
        "GPU 1: NVIDIA L40S\n"
    )

    assert first == Card("NVIDIA A100-SXM4-40GB", mig="Enabled", slices=2)
    assert second == Card("NVIDIA L40S")


TABLE = """\
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   30C    P0             60W /  400W |      87MiB /  81920MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  Tesla T4                       Off |   00000000:0F:00.0 Off |                    0 |
| N/A   31C    P0             58W /   70W |       4MiB /  15360MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
| MIG devices:                                                                            |
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol |        Shared         |
|  0    1   0   0  |              37MiB / 40192MiB    | 42      0  |  3   0    2    0    0 |
|  0    2   0   1  |              37MiB / 19968MiB    | 42      0  |  3   0    2    0    0 |
+-----------------------------------------+------------------------+----------------------+
"""


def test_a_table_has_memory_cap_and_mode_of_each_row_and_slices_below():
    split, whole = cards(TABLE)

    assert split == Card(
        "NVIDIA A100-SXM4-80GB", 81920.0, 87.0, 400.0, None, "Enabled", 2, (40192.0, 19968.0)
    )
    assert whole == Card("Tesla T4", 15360.0, 4.0, 70.0, None, "N/A")


def test_a_row_of_a_table_takes_nothing_from_the_rows_below():
    """The first card's line of memory is missing: it is unknown, not that of the second."""
    first, second = cards("\n".join(TABLE.splitlines()[:2] + TABLE.splitlines()[4:9]))

    assert (first.memory_mib, first.limit_watts) == (None, None)
    assert second.memory_mib == 15360


@pytest.mark.parametrize(
    "text",
    [
        "index, name, memory.total [MiB], power.limit [W]\n0, NVIDIA L40S, 46068 MiB, 300.00 W\n",
        "gpu_name,memory.total [MiB],power.limit [W]\nNVIDIA L40S,46068,300.00\n",
        "some shell prompt $\nname,power.limit [W],memory.total [MiB]\nNVIDIA L40S,300.00,46068\nbroken\n",
        "NVIDIA L40S, 46068 MiB, 300.00 W\n",
        "0, NVIDIA L40S, 300 W, 46068 MiB\n",
    ],
)
def test_a_csv_is_read_by_its_header_or_by_its_units(text: str):
    assert cards(text) == (Card("NVIDIA L40S", 46068.0, limit_watts=300.0),)


def test_all_columns_of_a_csv_that_matter_are_read():
    heads = "name,memory.used [MiB],power.default_limit [W],pcie.link.gen.max,pcie.link.gen.current"
    heads += ",pcie.link.width.max,pcie.link.width.current,mig.mode.current"
    (card,) = cards(f"{heads}\nNVIDIA L40S,20,350.00,4,1,16,8,[N/A]\n")

    assert card == Card("NVIDIA L40S", None, 20.0, None, 350.0, "[N/A]",
                        pcie_gen_max=4, pcie_gen_now=1, pcie_width_now=8)  # fmt: skip


def test_of_free_memory_and_all_of_it_the_larger_is_the_cards():
    assert cards("NVIDIA L40S, 45000 MiB, 46068 MiB\n")[0].memory_mib == 46068


def test_prose_that_names_a_gpu_is_no_row():
    assert read_cards("We have NVIDIA L40S, and other cards\nH100\n", "notes.txt") is None
