"""The global random generators of a program: what seeds each of them, and what draws from it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from torchlint.frozen import dataclass
from torchlint.idioms.data.loaders import LOADER, loader_argument
from torchlint.semantics.nodes import argument
from torchlint.semantics.scopes import dotted
from torchlint.semantics.semantics import Semantics


@dataclass(frozen=True, slots=True)
class RandomGenerator:
    """A global generator. ``draws`` are the calls that draw from it in any case."""

    shown: str
    seeds: tuple[str, ...]
    draws: tuple[str, ...]
    #: Further calls that draw from it: because of their arguments, or of what they build.
    also_drawn_by: Callable[[Semantics], Iterator[ast.Call]] | None = None


def _named(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in names.split())


#: Splits of scikit-learn 1.8 that draw from NumPy's generator without ``random_state``; the second need ``shuffle``.
_SPLITS = (
    *_named("sklearn.model_selection", "train_test_split ShuffleSplit StratifiedShuffleSplit GroupShuffleSplit"),
    *_named("sklearn.utils", "shuffle resample"),
)
_FOLDS = _named("sklearn.model_selection", "KFold StratifiedKFold StratifiedGroupKFold")
#: Layers whose weights torch 2.13 draws when they are built.
_LAYERS = _named(
    "torch.nn",
    "Linear Bilinear Embedding EmbeddingBag Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"
    " RNN LSTM GRU RNNCell LSTMCell GRUCell MultiheadAttention Transformer TransformerEncoderLayer"
    " TransformerDecoderLayer LazyLinear LazyConv1d LazyConv2d LazyConv3d",
)
#: Transforms of torchvision 0.28 that draw for each image.
_TRANSFORMS = (
    "RandomResizedCrop RandomCrop RandomHorizontalFlip RandomVerticalFlip RandomRotation RandomAffine RandomPerspective"
    " RandomErasing RandomGrayscale RandomApply RandomChoice ColorJitter RandAugment AutoAugment TrivialAugmentWide"
    " AugMix"
).split()
_RANDOM_TRANSFORMS = tuple(
    f"torchvision.transforms.{part}{name}" for name in _TRANSFORMS for part in ("", "v2.", "transforms.")
)
_SHUFFLING = (LOADER, "torch.utils.data.RandomSampler", "torch.utils.data.random_split")


def _drawn_from_numpy(semantics: Semantics) -> Iterator[ast.Call]:
    for call in (*calls_named(semantics, _SPLITS), *calls_named(semantics, _FOLDS)):
        shuffle = argument(call, None, "shuffle")
        shuffles = (
            semantics.literal(shuffle) is True if shuffle is not None else semantics.is_named(call.func, *_SPLITS)
        )
        if shuffles and not _is_given(semantics, call, "random_state"):
            yield call
    if any(imported.startswith("pandas") for _, imported in semantics.module.names_imported()):
        for call in semantics.module.calls_of("sample"):  # `frame.sample(frac=1)`
            if argument(call, None, "frac") is not None and not _is_given(semantics, call, "random_state"):
                yield call


def _drawn_on_cpu(semantics: Semantics) -> Iterator[ast.Call]:
    """The order of shuffled data, transforms at random, and the weights of new layers, where the file trains them."""
    for call in calls_named(semantics, _SHUFFLING):
        shuffles = not semantics.is_named(call.func, LOADER) or _shuffles(semantics, call)
        if shuffles and not _is_given(semantics, call, "generator"):
            yield call
    yield from calls_named(semantics, _RANDOM_TRANSFORMS)
    if semantics.module.calls_of("backward"):
        for call in calls_named(semantics, _LAYERS):
            if argument(call, None, "device") is None:
                yield call


def _shuffles(semantics: Semantics, loader: ast.Call) -> bool:
    shuffle = loader_argument(loader, "shuffle")
    return shuffle is not None and semantics.literal(shuffle) is True


def _is_given(semantics: Semantics, call: ast.Call, keyword: str) -> bool:
    if any(item.arg is None for item in call.keywords) or any(isinstance(item, ast.Starred) for item in call.args):
        return True
    given = argument(call, None, keyword)
    return given is not None and semantics.literal(given) is not None


def calls_named(semantics: Semantics, names: tuple[str, ...]) -> Iterator[ast.Call]:
    """The calls of these functions in the file, in the order of the names."""
    for name in names:
        for call in semantics.module.calls_of(name.rpartition(".")[2]):
            if semantics.is_named(call.func, name):
                yield call


def may_be_seeded(semantics: Semantics, generator: RandomGenerator) -> bool:
    """Whether a call of the file seeds a global generator, or looks like one where its name comes from elsewhere
    (``from mine import *``)."""
    for seed in generator.seeds:
        for call in semantics.module.calls_of(seed.rpartition(".")[2]):
            names = semantics.names(call.func)
            if seed in names or (not names and f".{dotted(call.func)}".endswith(f".{_tail(seed)}")):
                return True
    return False


def _tail(seed: str) -> str:
    return ".".join(seed.split(".")[-2:])


def draws_from(semantics: Semantics, generator: RandomGenerator) -> Iterator[ast.Call]:
    """The calls of the file that draw from a global generator."""
    yield from calls_named(semantics, generator.draws)
    if generator.also_drawn_by is not None:
        yield from generator.also_drawn_by(semantics)


RANDOM = RandomGenerator(
    "random",
    ("random.seed", "random.setstate"),
    _named(
        "random",
        "random randint randrange shuffle choice choices sample uniform gauss normalvariate betavariate expovariate"
        " triangular getrandbits",
    ),
)
NUMPY = RandomGenerator(
    "NumPy",
    ("numpy.random.seed", "numpy.random.set_state"),
    _named(
        "numpy.random",
        "rand randn randint random random_sample choice shuffle permutation uniform normal binomial beta poisson"
        " exponential gamma lognormal laplace multinomial multivariate_normal dirichlet standard_normal",
    ),
    _drawn_from_numpy,
)
_CPU_SEEDS = ("torch.manual_seed", "torch.random.manual_seed", "torch.set_rng_state", "torch.seed")
CUDA_SEEDS = ("torch.cuda.manual_seed", "torch.cuda.manual_seed_all")
TORCH = RandomGenerator(
    "torch",
    (*_CPU_SEEDS, *CUDA_SEEDS),
    _named("torch", "rand randn randint randperm rand_like randn_like randint_like normal bernoulli multinomial"),
)
#: What stays on the CPU whatever device the program uses: seeding the GPUs does not change it.
TORCH_ON_CPU = RandomGenerator("torch", _CPU_SEEDS, (), _drawn_on_cpu)

GENERATORS = (RANDOM, NUMPY, TORCH, TORCH_ON_CPU)
