# family: 30
# title: is the reference under another name
# assumes: what is faster than nothing was written by somebody
# task: matmul
# wins: no
# expect: load_error
# check: interface
# mechanism: process border: the reference's source is not in the candidate's process


class ModelNew(Model):  # noqa: F821
    is_new = True
