from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.idioms.surroundings.fallbacks import in_version_fallback
from torchlint.regex import regex
from torchlint.rules.base import Diagnosis, Level, Rule, on_call, on_method, on_node, on_reference
from torchlint.semantics.literals import literal_of
from torchlint.semantics.semantics import Semantics
from torchlint.semantics.unit import Unit

_LAUNCH = "torch.distributed.launch"
_IN_COMMAND = regex(r"(^|\s)torch\.distributed\.launch($|\s)")
_RUNNERS = (
    "subprocess.run",
    "subprocess.Popen",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "os.system",
    "os.execvp",
    "os.popen",
)
#: From this release on the old launcher passes `--local-rank`.
_DASHED_SINCE = "2.0"


class DistributedLaunch(Rule):
    """## What it does

    Reports `torch.distributed.launch`, and scripts that know their rank on a machine only from the argument
    `--local_rank`.

    ## Why is this bad?

    `torch.distributed.launch` is deprecated: it warns that it will be removed, and `torchrun` takes its place.
    `torchrun` passes no argument, it sets the environment variable `LOCAL_RANK`; there `--local_rank` keeps its
    default, and all processes of a machine use one GPU. The old launcher passes `--local-rank` since torch 2.0, which a
    script that declares only `--local_rank` rejects.

    ## Example

    ```python
    import argparse

    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)
    ```

    ## Use instead

    ```python
    import os

    import torch

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    ```

    ## Exceptions

    Scripts for the launcher of DeepSpeed, which passes `--local_rank`; both spellings declared; scripts that read
    `LOCAL_RANK` too; projects for torch before 2.0; commands that depend on the version of torch.

    ## References

    - [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html)
    - [Transitioning from torch.distributed.launch](https://docs.pytorch.org/docs/stable/elastic/run.html#transitioning-from-torch-distributed-launch-to-torchrun)
    """

    code = "TL806"
    name = "distributed-launch"
    level = Level.WARNING
    summary = "`torch.distributed.launch` and its `--local_rank` give way to `torchrun` and `LOCAL_RANK`."

    @on_reference("launch")
    def check_reference(self, expression: ast.expr, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        if semantics.is_named(expression, _LAUNCH) and not in_version_fallback(semantics, expression):
            yield self.found(
                expression, "`torch.distributed.launch` is deprecated and will be removed: use `torchrun`."
            )

    @on_node(ast.ImportFrom)
    def check_import(self, statement: ast.ImportFrom, unit: Unit) -> Iterator[Diagnosis]:
        if statement.module == _LAUNCH and not in_version_fallback(unit.semantics, statement):
            yield self.found(
                statement, "`torch.distributed.launch` is deprecated and will be removed: use `torch.distributed.run`."
            )

    @on_call(*_RUNNERS)
    def check_command(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        semantics = unit.semantics
        command = semantics.value_of(call.args[0]) if call.args else None
        for node in ast.walk(command) if command is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _IN_COMMAND.search(node.value):
                if isinstance(command, ast.IfExp) or in_version_fallback(semantics, node):
                    return
                message = "This command starts `torch.distributed.launch`, which is deprecated: use `torchrun`."
                yield self.found(node, message, related=[(call, "started here")])
                return

    @on_method("add_argument")
    def check_argument(self, call: ast.Call, unit: Unit) -> Iterator[Diagnosis]:
        names = [literal_of(item) for item in call.args]
        if "--local_rank" not in names or "--local-rank" in names:
            return
        if unit.torch is not None and not unit.torch.may_be_at_least(_DASHED_SINCE):
            return
        module = unit.semantics.module
        if not module.reads_attribute("local_rank") or module.reads_attribute("LOCAL_RANK"):
            return
        if _declares_both(unit.semantics) or _is_for_deepspeed(unit.semantics):
            return
        message = (
            "Launchers do not pass `--local_rank`: `torchrun` sets the environment variable `LOCAL_RANK`, and "
            "`torch.distributed.launch` passes `--local-rank` since torch 2.0."
        )
        yield self.found(call, message)


def _declares_both(semantics: Semantics) -> bool:
    calls = semantics.module.calls_of("add_argument")
    return any(literal_of(item) == "--local-rank" for call in calls for item in call.args)


def _is_for_deepspeed(semantics: Semantics) -> bool:
    module = semantics.module
    if module.imported_from(frozenset(("deepspeed",))) or module.mentions_call("add_config_arguments"):
        return True
    return module.reads_attribute("deepspeed") or module.reads_name("deepspeed")
