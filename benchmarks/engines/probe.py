"""Reads launch lines as JSON, one a line, with an engine's own parser: run by the Python that has it."""

import argparse
import contextlib
import io
import json
import sys


def vllm() -> argparse.ArgumentParser:
    import vllm.platforms as platforms
    from vllm.platforms.cpu import CpuPlatform

    platforms._current_platform = CpuPlatform()  # the parser asks for a device, and there is none
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))


def sglang() -> argparse.ArgumentParser:
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    return parser


parser = {"vllm": vllm, "sglang": sglang}[sys.argv[1]]()
for line in sys.stdin:
    words, said = json.loads(line), io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            values = vars(parser.parse_args(words))
    except SystemExit:
        print(json.dumps({"error": said.getvalue().strip().splitlines()[-1]}), flush=True)
        continue
    known = parser._option_string_actions
    read = {w: str(values[known[w].dest]) for w in words if w in known}
    print(json.dumps({"read": read}), flush=True)
