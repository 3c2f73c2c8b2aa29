"""`python -m tests.split.store_llvm` writes `corpus.ll`, the LLVM text of the corpus: tests of the analysis need no OpenCL.

Only what the analysis reads is kept: the kernels, what they call, structure types, and the metadata of kernels' arguments.
"""

import re
from pathlib import Path

from gpuq.split import pocl
from tests.split.corpus import CASES

STORED = Path(__file__).with_name("corpus.ll")


def program():
    return "\n".join(case.source.replace("void k(", f"void k_{case.name}(") for case in CASES)


def shortened(text):
    parts = re.findall(r"^define .*?^}\n", text, re.M | re.S)
    functions = {re.search(r"@([\w.$]+)\(", part)[1]: part for part in parts}
    waiting = [name for name in functions if name.startswith("k_")]
    kept = {}
    while waiting:
        name = waiting.pop()
        if name in functions and name not in kept:
            kept[name] = re.sub(
                r"(, !(tbaa|llvm\.loop|range|srcloc) !\d+)|( +; preds = .*$)|( #\d+(?=$| ))",
                "",
                functions[name],
                flags=re.M,
            )
            waiting += re.findall(r"@([\w.$]+)\(", functions[name])
    needed = {number for part in kept.values() for number in re.findall(r"!kernel_arg_\w+ !(\d+)", part)}
    lines = [line for line in text.splitlines() if re.match(r"%\S+ = type ", line)]
    used = {name for part in kept.values() for name in re.findall(r"@([\w.$]+)", part)}
    lines += [
        re.sub(r"( constant \S+).*$", r"\1", line)  # not what a table holds
        for line in text.splitlines()
        if (found := re.match(r"@([\w.$]+) = ", line)) and found[1] in used
    ]
    lines += [line for line in text.splitlines() if (found := re.match(r"!(\d+) = ", line)) and found[1] in needed]
    return "\n".join([*lines, "", *(kept[name] for name in sorted(kept))])


if __name__ == "__main__":
    STORED.write_text(shortened(pocl.llvm_text(program())))
