"""Whatever way a file spells a name of torch, rules see one."""

from __future__ import annotations

import pytest

from tests.semantics.meaning import Meaning

SAME = "torch.nn.functional.cross_entropy"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("import torch\ntorch.nn.functional.cross_entropy(x, y)", "torch.nn.functional.cross_entropy"),
        ("import torch.nn.functional as F\nF.cross_entropy(x, y)", "F.cross_entropy"),
        ("from torch.nn import functional as F\nF.cross_entropy(x, y)", "F.cross_entropy"),
        ("from torch import nn\nnn.functional.cross_entropy(x, y)", "nn.functional.cross_entropy"),
        ("from torch.nn.functional import cross_entropy\ncross_entropy(x, y)", "cross_entropy"),
        ("from torch.nn.functional import cross_entropy as ce\nce(x, y)", "ce"),
        ("import torch as th\nth.nn.functional.cross_entropy(x, y)", "th.nn.functional.cross_entropy"),
        ("import torch\nnn = torch.nn\nF = nn.functional\nF.cross_entropy(x, y)", "F.cross_entropy"),
        ("import torch.nn.functional as F\nce = F.cross_entropy\ndef f():\n    return ce(x, y)", "ce"),
        ("def f():\n    import torch.nn.functional as F\n    return F.cross_entropy(x, y)", "F.cross_entropy"),
        ("from torch.nn.functional import *\ncross_entropy(x, y)", "cross_entropy"),
        ("import torch.nn\nimport torch.nn.functional\nclass A:\n    def f(self):\n        "
         "return torch.nn.functional.cross_entropy(x, y)", "torch.nn.functional.cross_entropy"),
    ],
)  # fmt: skip
def test_one_function_has_one_name(text: str, source: str) -> None:
    assert Meaning(text).names(source) == {SAME}


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("from torch.nn.modules.loss import CrossEntropyLoss as C\nC()", "C", "torch.nn.CrossEntropyLoss"),
        ("from torch.optim.adam import Adam\nAdam(p)", "Adam", "torch.optim.Adam"),
        (
            "from torch.utils.data.dataloader import DataLoader\nDataLoader(d)",
            "DataLoader",
            "torch.utils.data.DataLoader",
        ),
        ("import torch\ntorch.autocast('cuda')", "torch.autocast", "torch.amp.autocast"),
        ("class Net: pass\nNet()", "Net", ".Net"),
        ("def f(): pass\ng = f\ng()", "g", ".f"),
    ],
)
def test_a_name_is_the_public_one(text: str, source: str, name: str) -> None:
    assert Meaning(text).names(source) == {name}


def test_a_conditional_import_has_several_names() -> None:
    head = "try:\n    from torch.amp import autocast\nexcept ImportError:\n    from torch.cuda.amp import autocast\n"
    text = f"{head}autocast()"
    assert Meaning(text).names("autocast") == {"torch.amp.autocast", "torch.cuda.amp.autocast"}


def test_a_conditional_value_has_the_names_of_both_sides() -> None:
    head = "import torch\nfrom torch import nn\n"
    assert Meaning(f"{head}act = nn.ReLU if x else nn.GELU\nact()").names("act") == {"torch.nn.ReLU", "torch.nn.GELU"}
    assert Meaning(f"{head}act = nn.ReLU if x else make()\nact()").names("act") == set()


def test_none_beside_an_import_is_passed_over() -> None:
    text = "try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.load(x)"
    assert Meaning(text).names("torch.load") == {"torch.load"}


@pytest.mark.parametrize(
    "text",
    [
        "from torch import load\ndef f(load):\n    load(x)",
        "from torch import load\nif x:\n    load = make()\nload(x)",
        "def f():\n    for load in loads:\n        load(x)",
        "load(x)",
        "class A:\n    from torch import load\n    def f(self):\n        load(x)",
        "from torch import load\n[load(x) for load in loads]",
        "import torch\ng = lambda load: load(x)",
    ],
)
def test_a_name_that_may_be_something_else_has_none(text: str) -> None:
    assert Meaning(text).names("load") == set()


def test_a_default_is_evaluated_outside_its_function() -> None:
    text = "from torch import load\ndef f(load=load):\n    pass"
    assert Meaning(text).names("load") == {"torch.load"}


@pytest.mark.parametrize(
    ("header", "base"),
    [
        ("from torch.utils.data import Dataset\nclass Dataset(Dataset):\n    ...\n", "Dataset"),
        ("from torch.utils.data import Dataset\nclass Dataset(Dataset[int]):\n    ...\n", "Dataset"),
        ("from torch.utils.data import *\nclass Dataset(Dataset):\n    ...\n", "Dataset"),
        ("from torch.utils import data\nclass data(data.Dataset):\n    ...\n", "data.Dataset"),
    ],
)
def test_a_class_may_be_named_as_the_import_it_derives_from(header: str, base: str) -> None:
    name = base.partition(".")[0]
    meaning = Meaning(f"{header}def main():\n    {name}()\n{name}()")
    assert meaning.names(base, 0) == {"torch.utils.data.Dataset"}
    in_function, at_top = (meaning.expression(name, occurrence) for occurrence in (-2, -1))
    assert meaning.semantics.names(in_function) == {f".{name}"}
    built = meaning.semantics.local_class(in_function)
    assert built is not None
    assert built is meaning.semantics.local_class(at_top)


def test_a_class_that_hides_its_base_only_sometimes_may_be_either() -> None:
    head = "from torch.utils.data import Dataset\nif mine:\n    class Dataset(Dataset):\n        ...\n"
    meaning = Meaning(f"{head}def main():\n    Dataset()")
    assert meaning.names("Dataset", 0) == {"torch.utils.data.Dataset"}
    assert meaning.names("Dataset") == {"torch.utils.data.Dataset", ".Dataset"}
