"""Formats of other benchmarks and libraries, in and out: one converter a file.

A reader turns what lies at a path into task and kernel files, a writer turns a task with its kernels and
verdicts into files of the other format; both give texts by name and write nothing. Figures of others are
claims and stay apart from verdicts. May import ``tasks/``, ``store/`` and what lies below. Begin with
``table.py``.
"""
