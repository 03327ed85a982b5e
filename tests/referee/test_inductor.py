"""What is loaded before processes are forked that use torch.compile."""

from torch._inductor.cpu_vec_isa import valid_vec_isa_list

from kernelwright.referee import inductor


def test_what_inductor_asks_for_once_is_asked_before_the_fork() -> None:
    assert callable(inductor.CacheBase.get_system)  # else torch has renamed one of them
    assert valid_vec_isa_list.cache_info().currsize
