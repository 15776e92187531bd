"""Compare two states of the compiler over a corpus of programs, without a GPU: for refactorings.

    python -m benchmarks.guard OLD [NEW] [--quick] [--full]     what differs; NEW is the working tree by default
    python -m benchmarks.guard.applies [COMMIT] [--quick]       how often each pass, schedule and fallback applies: what
                                                                it last said is in applies.md

`trees` takes the packages of a commit to a folder, where `recorder` runs in a process of its own: the corpus and the
questions are always those of this working tree, the packages under test those of the commit. Records are kept by what
they were made from, in `NINETOOTHED_CACHE_DIR` or `~/.cache/ninetoothed`, folder `guard`.

    corpus.py      the programs: calls of kernels, and mistakes
    questions.py   what is asked of each program
    recorder.py    asks all of them, and writes a record
    trees.py       records of commits, kept
    census.py      asked instead by `applies`: what applies to each program
    watch.py       notes for it what no report of the compiler tells
    compare.py     what differs between two records, as text
"""
