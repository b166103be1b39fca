"""Parameters and results of torch's functions and methods, factories, and the roles of its classes."""

from __future__ import annotations

import pytest

from torchlint import torch_api
from torchlint.torch_api.tables import table


@pytest.mark.parametrize(
    ("name", "parameter", "index"),
    [
        ("torch.load", "map_location", 1),
        ("torch.load", "weights_only", None),
        ("torch.utils.data.DataLoader", "num_workers", 5),
        ("torch.utils.data.dataloader.DataLoader", "pin_memory", 7),
        ("torch.nn.functional.dropout", "training", 2),
        ("torch.nn.functional.alpha_dropout", "training", 2),
        ("torch.nn.functional.max_pool2d", "kernel_size", 1),
        ("torch.nn.functional.scaled_dot_product_attention", "dropout_p", 4),
        ("torch.nn.functional.softmax", "dim", 1),
        ("torch.cuda.amp.autocast", "enabled", 0),
        ("torch.amp.autocast", "enabled", 2),
        ("torch.amp.GradScaler", "init_scale", 1),
        ("torch.optim.SGD", "momentum", 2),
        ("torch.optim.Optimizer.zero_grad", "set_to_none", 0),
        ("torch.nn.Module.load_state_dict", "strict", 1),
        ("torch.nn.utils.clip_grad_norm_", "max_norm", 1),
        ("torch.optim.lr_scheduler.ReduceLROnPlateau.step", "metrics", 0),
        ("torch.distributions.Normal", "scale", 1),
        ("torch.stack", "dim", 1),
        ("torch.sum", "dim", 1),
        ("torch.full", "fill_value", 1),
        ("torch.zeros", "dtype", None),
        ("torch.Tensor.permute", "dims", None),
        ("torch.Tensor.transpose", "dim1", 1),
        ("torch.Tensor.backward", "retain_graph", 1),
        ("torch.no_such_function", "input", None),
    ],
)
def test_positions_of_parameters(name: str, parameter: str, index: int | None) -> None:
    assert torch_api.positional_index(name, parameter) == index


def test_keyword_only_and_variadic_parameters_are_told_apart() -> None:
    assert "weights_only" in (torch_api.keyword_only_parameters_of("torch.load") or ())
    zeros = torch_api.signature_of("torch.zeros")
    assert zeros is not None
    assert (zeros.positional, zeros.variadic) == ((), "size")
    assert "device" in zeros.keyword_only
    load = torch_api.signature_of("torch.load")
    assert load is not None
    assert load.keywords == "pickle_load_args"
    assert torch_api.parameters_of("numpy.zeros") is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.matmul", "tensor"),
        ("torch.nn.functional.relu", "tensor"),
        ("torch.nn.functional.cross_entropy", "tensor"),
        ("torch.nn.functional.max_pool2d", "tensor"),
        ("torch.nn.functional.conv2d", "tensor"),
        ("torch.conv2d", "tensor"),
        ("torch.functional.einsum", "tensor"),
        ("torch.linalg.norm", "tensor"),
        ("torch.unique", "tensor"),
        ("torch.max", "tensor"),
        ("torch.zeros", "tensor"),
        ("torch.from_numpy", "tensor"),
        ("torch.chunk", "tensors"),
        ("torch.topk", "tensors"),
        ("torch.meshgrid", "tensors"),
        ("torch.is_tensor", "number"),
        ("torch.numel", "number"),
        ("torch.load", "other"),
        ("torch.jit.trace", None),
        ("torch.no_such_function", None),
        ("torch.Tensor.view", "tensor"),
        ("torch.Tensor.item", "number"),
        ("torch.Tensor.add_", "self"),
        ("torch.Tensor.split", "tensors"),
        ("torch.Tensor.numpy", "other"),
    ],
)
def test_kinds_of_results(name: str, kind: str | None) -> None:
    assert torch_api.result_of(name) == kind
    assert torch_api.returns_tensor(name) == (kind in ("tensor", "self"))


def test_arguments_can_change_the_kind_of_result() -> None:
    assert torch_api.result_of("torch.median", ["dim"]) == "tensors"
    assert torch_api.result_of("torch.max", ["dim"]) is None  # torch.max(x, y) compares two tensors
    assert torch_api.result_of("torch.Tensor.size", ["dim"]) == "number"
    assert torch_api.result_of("torch.nn.functional.max_pool2d", ["kernel_size", "return_indices"]) is None
    assert torch_api.result_of("torch.sum", ["dim"]) == "tensor"


PURE = """
to cuda cpu detach float half double long int bool clone view view_as reshape permute transpose t squeeze unsqueeze
clamp masked_fill contiguous sum mean max min softmax log_softmax relu sigmoid expand expand_as repeat type_as flatten
flip roll gather index_select masked_select scatter scatter_add add sub mul div matmul pow exp log sqrt abs norm argmax
chunk split topk sort unbind new_zeros new_tensor pin_memory bfloat16 to_sparse tril triu cumsum where
""".split()

NOT_PURE = """
add_ zero_ copy_ fill_ clamp_ detach_ requires_grad_ squeeze_ masked_fill_ scatter_ normal_ uniform_ share_memory_
backward register_hook retain_grad record_stream item tolist numpy size dim numel data_ptr is_contiguous set_ resize_
""".split()


@pytest.mark.parametrize("name", PURE)
def test_throwing_the_result_of_a_pure_method_away_is_a_mistake(name: str) -> None:
    method = torch_api.tensor_method(name)
    assert method is not None
    assert method.discarding_is_mistake
    assert method.returns in ("tensor", "tensors")


@pytest.mark.parametrize("name", NOT_PURE)
def test_methods_with_an_effect_or_that_only_read_may_be_discarded(name: str) -> None:
    method = torch_api.tensor_method(name)
    assert method is not None
    assert not method.discarding_is_mistake


def test_methods_in_place_return_the_tensor_itself() -> None:
    for name in table("methods"):
        method = torch_api.tensor_method(name)
        assert method is not None
        assert (method.returns == "self") == name.endswith("_"), name


def test_a_method_name_alone_is_no_proof_of_a_tensor() -> None:
    def also_on(name: str) -> tuple[str, ...]:
        method = torch_api.tensor_method(name)
        assert method is not None
        return method.also_on

    assert {"module", "storage", "packed-sequence"} <= set(also_on("to"))
    assert "module" in also_on("cuda")
    assert "ndarray" in also_on("reshape")
    assert {"list", "ndarray"} <= set(also_on("sort"))
    assert "distribution" in also_on("expand")
    assert also_on("detach") == ()
    assert torch_api.tensor_method("append") is None


@pytest.mark.parametrize(
    ("name", "deterministic", "like"),
    [
        ("torch.zeros", True, False),
        ("torch.empty", True, False),
        ("torch.arange", True, False),
        ("torch.full", True, False),
        ("torch.eye", True, False),
        ("torch.tensor", True, False),
        ("torch.linspace", True, False),
        ("torch.hann_window", True, False),
        ("torch.tril_indices", True, False),
        ("torch.zeros_like", True, True),
        ("torch.Tensor.new_zeros", True, True),
        ("torch.rand", False, False),
        ("torch.randn", False, False),
        ("torch.randint", False, False),
        ("torch.randperm", False, False),
        ("torch.normal", False, False),
        ("torch.rand_like", False, True),
        ("torch.randint_like", False, True),
    ],
)
def test_factories(name: str, deterministic: bool, like: bool) -> None:
    facts = torch_api.factory_facts(name)
    assert facts is not None
    assert (facts.deterministic, facts.like) == (deterministic, like)
    assert facts.takes_device
    assert facts.takes_dtype
    assert "device" in facts.signature.keyword_only


@pytest.mark.parametrize("name", ["torch.from_numpy", "torch.stack", "torch.relu", "torch.Tensor", "numpy.zeros"])
def test_what_takes_no_device_is_no_factory(name: str) -> None:
    assert torch_api.factory_facts(name) is None


def test_not_every_factory_takes_requires_grad() -> None:
    zeros, as_tensor = torch_api.factory_facts("torch.zeros"), torch_api.factory_facts("torch.as_tensor")
    assert zeros is not None
    assert as_tensor is not None
    assert zeros.takes_requires_grad
    assert not as_tensor.takes_requires_grad


def test_roles_of_classes() -> None:
    for name in ("SGD", "Adam", "AdamW", "SparseAdam", "LBFGS", "Muon", "Adafactor", "Optimizer"):
        assert torch_api.is_optimizer(f"torch.optim.{name}"), name
    for name in ("StepLR", "OneCycleLR", "ReduceLROnPlateau", "LRScheduler", "_LRScheduler", "SequentialLR"):
        assert torch_api.is_scheduler(f"torch.optim.lr_scheduler.{name}"), name
    for name in ("torch.amp.GradScaler", "torch.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler"):
        assert torch_api.is_scaler(name), name
    assert torch_api.is_scaler("torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler")
    assert torch_api.is_loader("torch.utils.data.dataloader.DataLoader")
    assert torch_api.is_dataset("torch.utils.data.TensorDataset")
    assert torch_api.is_dataset("torchvision.datasets.mnist.MNIST")
    assert torch_api.is_sampler("torch.utils.data.distributed.DistributedSampler")
    assert torch_api.role("torch.distributions.Normal") == "distribution"
    assert torch_api.role("torch.nn.Parameter") == "parameter"
    assert torch_api.role("mylib.Adam") is None


def test_what_a_step_needs() -> None:
    assert torch_api.closure_required("torch.optim.lbfgs.LBFGS")
    assert not torch_api.closure_required("torch.optim.Adam")
    assert torch_api.needs_metric("torch.optim.lr_scheduler.ReduceLROnPlateau")
    assert not torch_api.needs_metric("torch.optim.lr_scheduler.StepLR")


def test_torchvision_models() -> None:
    assert torch_api.is_torchvision_model("torchvision.models.resnet18")
    assert torch_api.is_torchvision_model("torchvision.models.resnet.resnet18")
    assert torch_api.torchvision_model_mode_dependent("torchvision.models.vgg16") is True
    assert torch_api.torchvision_model_mode_dependent("torchvision.models.detection.fasterrcnn_resnet50_fpn") is True
    assert torch_api.torchvision_model_mode_dependent("torchvision.models.vit_b_16") is False
    assert not torch_api.is_torchvision_model("torchvision.transforms.Resize")
    assert torch_api.torchvision_model_mode_dependent("timm.create_model") is None


@pytest.mark.parametrize(
    ("old", "new", "since", "device_parameter"),
    [
        ("torch.cuda.amp.autocast", "torch.amp.autocast", "1.12", "device_type"),
        ("torch.cuda.amp.autocast_mode.autocast", "torch.amp.autocast", "1.12", "device_type"),
        ("torch.cpu.amp.autocast", "torch.amp.autocast", "1.12", "device_type"),
        ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "2.3", "device"),
        ("torch.cuda.amp.custom_fwd", "torch.amp.custom_fwd", "2.4", "device_type"),
        ("torch.cuda.amp.custom_bwd", "torch.amp.custom_bwd", "2.4", "device_type"),
    ],
)
def test_replacements_of_deprecated_amp_names(old: str, new: str, since: str, device_parameter: str) -> None:
    found = torch_api.amp_replacement(old)
    assert found is not None
    assert (found.replacement, found.replacement_since, found.device_parameter) == (new, since, device_parameter)
    assert set(found.old.positional) <= {*found.new.positional, *found.new.keyword_only}


def test_current_amp_names_need_no_replacement() -> None:
    assert torch_api.amp_replacement("torch.amp.autocast") is None
    assert torch_api.amp_replacement("torch.autocast") is None
