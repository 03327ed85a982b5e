"""Whether a task is a whole model: larger than one kernel."""

from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.batchnorm import _NormBase

from kernelwright.core.task import Mode, Task
from kernelwright.tasks.namespace import construct_model, load_namespace

MOST_LAYERS = 256
"""Layers up to which a model is tried as one program; ours: a compiler takes minutes over more."""


def is_whole_model(task: Task) -> bool:
    """Say whether a task is larger than a kernel: some kind of block may occur twice, or it has many layers.

    The model is constructed without memory for its weights. What cannot be constructed so is taken for one
    kernel.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = construct_model(task, load_namespace(task, task.workloads[0]), seed=0)
            model.train(task.mode is Mode.TRAIN)
            return n_layers(model) > MOST_LAYERS or may_hold_blocks(model)
    except Exception:  # whatever a constructor makes of tensors without values; the run itself says it better
        return False


def may_hold_blocks(model: nn.Module) -> bool:
    """Say whether two submodules that hold others, or are no plain layers of torch, may be of one kind.

    Looks at classes and at the shapes of their weights; nothing is called. What holds neither weights nor
    other modules is no block, nor is what keeps averages of its inputs: a block writes to nothing.
    """
    known: set[tuple[object, ...]] = set()
    for path, part in model.named_modules():
        if not path or is_plain_layer(part) or type(part).forward is nn.Module.forward or _holds_alone(part):
            continue
        if not (part._modules or part.state_dict()) or any(map(_keeps_averages, part.modules())):
            continue
        shapes = tuple((name, tuple(t.shape), t.dtype) for name, t in part.state_dict().items())
        form = (type(part), tuple(type(child) for child in part.modules()), shapes)
        if form in known:
            return True
        known.add(form)
    return False


def is_plain_layer(part: nn.Module) -> bool:
    """True for a layer of torch's own that holds no other module."""
    return not part._modules and type(part).__module__.startswith("torch.nn.")


def n_layers(model: nn.Module) -> int:
    """Return how many plain layers a model has."""
    return sum(map(is_plain_layer, model.modules()))


def _keeps_averages(part: nn.Module) -> bool:
    return isinstance(part, _NormBase) and part.training and part.track_running_stats


def _holds_alone(part: nn.Module) -> bool:
    """True for lists and dictionaries of modules, which nobody calls."""
    return isinstance(part, nn.ModuleList | nn.ModuleDict | nn.ParameterList | nn.ParameterDict)
