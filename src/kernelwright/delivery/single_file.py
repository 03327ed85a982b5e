"""A winner as one file: the kernel's source, and a check that says what it was not verified for.

The file defines ``ModelNew`` and needs torch alone. It holds no original to fall back to: a call that needs
gradients, or weights of another type or device than the kernel's, is an error in one line.
"""

from kernelwright.core.candidate import Candidate
from kernelwright.targets.registry import target_of

_CHECK = '''

# What follows is no part of the kernel: it refuses what the kernel would compute wrongly without a word.
_kernel_init, _kernel_forward = ModelNew.__init__, ModelNew.forward


def _noting_init(self, *args, **kwargs):
    _kernel_init(self, *args, **kwargs)
    self.__dict__["_verified_types"] = {{name: tensor.dtype for name, tensor in self.named_parameters()}}


def _checked_forward(self, *args, **kwargs):
    """Run the kernel; raises RuntimeError for gradients, other devices and other types of weights."""
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    weights = dict(self.named_parameters())
    for tensor in (*given, *weights.values()):
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise RuntimeError(
                "ModelNew computes no gradients: call it under torch.no_grad(), or use the module that "
                "kernelwright.optimize returns and saves, which runs the original then"
            )
        if tensor.device.type != "{device}":
            raise RuntimeError(f"ModelNew was verified on {device}, and got a tensor on {{tensor.device}}")
    for name, wanted in self.__dict__.get("_verified_types", {{}}).items():
        found = weights[name].dtype if name in weights else wanted
        if found is not wanted:
            raise RuntimeError(f"{{name}} has type {{found}}; ModelNew was verified with {{wanted}}")
    return _kernel_forward(self, *args, **kwargs)


ModelNew.__init__, ModelNew.forward = _noting_init, _checked_forward
'''


def file_text(winner: Candidate) -> str:
    """Return what ``optimize`` writes for a winner."""
    device = target_of(winner.target).device
    return winner.source.rstrip() + _CHECK.format(device=device.torch_device.partition(":")[0])
