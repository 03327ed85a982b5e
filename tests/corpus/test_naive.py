"""What a harness that does not look says, as the page of cheats quotes it."""

from kernelwright.corpus.naive import NaiveVerdict


def test_words_name_no_folder_of_the_machine() -> None:
    refused = NaiveVerdict(
        accepted=False, detail="OSError: /home/me/.cache/naive/k.so: cannot open shared object"
    )
    assert refused.words == "not accepted (OSError: k.so: cannot open shared object)"
    assert NaiveVerdict(accepted=True, speedup=8.349).words == "accepted, 8.35x"
