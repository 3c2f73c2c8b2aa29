"""Random kernels with affine and nearly affine indices, and by counting every access whether a split of them is safe.

Some indices have a product of two loaded numbers, some stores are of vectors or in a function that is not inlined, and some
loops go over the buffer in strides of the whole launch.
"""

from dataclasses import dataclass

import numpy as np

from gpuq.split.values import IndexSpace


@dataclass(frozen=True)
class RandomKernel:
    source: str
    range: IndexSpace
    arguments: tuple
    sizes: dict
    stores: list
    """Of each store (elements, group along each dimension) as arrays; loads of the written buffer likewise."""
    loads: list
    factors: np.ndarray
    """What the kernel loads from `q`: the two factors of each product."""

    def safe_along(self, dimension):
        """Whether no element is stored to by two groups that differ along it, none loaded by another group, none outside."""
        owner = {}
        groups_of = {}
        for elements, groups in self.stores:
            for element, group in set(zip(elements.tolist(), map(tuple, groups.tolist()), strict=True)):
                if not 0 <= element < self.sizes["b"] // 4:
                    return False
                if owner.setdefault(element, group[dimension]) != group[dimension]:
                    return False
                groups_of.setdefault(element, set()).add(group)
        for elements, groups in self.loads:
            for element, group in set(zip(elements.tolist(), map(tuple, groups.tolist()), strict=True)):
                if groups_of.get(element, {group}) != {group}:
                    return False
        return True


def factors_of(chance, product):
    """Two numbers below 2**31 whose product has these 32 bits."""
    while True:
        one = int(chance.integers(1 << 30)) * 2 + 1
        other = product * pow(one, -1, 1 << 32) % (1 << 32)
        if other < 1 << 31:
            return one, other


def draw(chance, name):
    """One kernel: up to two dimensions, up to two stores, a loop, a guard, and perhaps a load of what it stores to."""
    dimensions = int(chance.integers(1, 3))
    local = tuple(int(chance.choice([1, 2, 4, 8])) for _ in range(dimensions))
    size = tuple(one * int(chance.integers(1, 6)) for one in local)
    rounds = int(chance.integers(1, 6))
    start, step = int(chance.integers(0, 3)), int(chance.choice([1, 1, 2, 3]))
    looped = chance.random() < 0.5
    strided = looped and chance.random() < 0.3
    end = int(chance.integers(1, 4 * size[0]))
    limits = [int(chance.integers(1, one + 3)) if chance.random() < 0.4 else None for one in size]
    counted = np.arange(start, start + rounds * step, step) if looped else np.zeros(1, int)
    if strided:
        counted = np.arange(0, end, size[0])
    axes = [np.arange(one) for one in size] + [counted]
    *ids, k = (one.ravel() for one in np.meshgrid(*axes, indexing="ij"))
    if strided:
        k = k + ids[0]
    values = {f"g{d}": one for d, one in enumerate(ids)} | {"k": k}
    for d, one in enumerate(ids):
        values[f"l{d}"], values[f"w{d}"] = one % local[d], one // local[d]
    inside = k < end if strided else np.ones(len(k), bool)
    products = chance.integers(-9, 10, size[0])
    values["m"] = products[ids[0]]
    most = int(chance.integers(1, 9)) if chance.random() < 0.1 else None
    if most is not None:
        inside &= values["m"] < most
    for d, limit in enumerate(limits):
        if limit is not None:
            inside &= ids[d] < limit
    groups = np.stack([values[f"w{d}"] for d in range(dimensions)], axis=1)
    scalars = [int(chance.choice([*size, rounds, 1, 2, 3, 5, 7, 8, 16])) for _ in range(3)]

    def index():  # noqa: PLR0912  the table of what an index may have
        text, value = f"{(start_at := int(chance.integers(0, 4)))}", np.full(len(k), start_at)
        chosen = [f"g{d}" for d in range(dimensions) if chance.random() < 0.85] + (["k"] if looped else [])
        if strided:
            chosen = [one for one in chosen if one != "g0"]
        if most is not None:
            chosen.append("m")
        if chance.random() < 0.2:
            d = int(chance.integers(dimensions))
            chosen = [one for one in chosen if one != f"g{d}"] + [f"w{d}", f"l{d}"]
        for one in chosen:
            factor = int(chance.choice([1, 1, 2, 3, 4, *size, rounds, np.prod(size), rounds * size[0]]))
            inner, term = one, values[one]
            way = chance.random()
            if way < 0.06:
                by = int(chance.choice([2, 3, 4, 8]))
                inner, term = f"({one} / {by})", term // by
            elif way < 0.12:
                by = int(chance.choice([2, 3, 4, 8]))
                inner, term = f"({one} % {by})", term % by
            elif way < 0.16:
                inner, term = f"({one} ^ 1)", term ^ 1
            elif way < 0.2:
                inner, term = f"(uchar)({one} * 40)", (term * 40) % 256
            elif way < 0.26:
                which = int(chance.integers(3))
                inner, term = f"(n{which} - 1 - (int){one})", scalars[which] - 1 - term
            elif way < 0.3:
                by = int(chance.integers(1, 9))
                inner, term = f"min((int){one}, {by})", np.minimum(term, by)
            elif way < 0.34:
                by = int(chance.integers(1, 9))
                inner, term = f"mad24((int){one}, {by}, 1)", term * by + 1
            if one == "m":
                inner, term = "m", values["m"]
            if chance.random() < 0.3:
                which = int(chance.integers(3))
                text, value = f"{text} + {inner} * n{which}", value + term * scalars[which]
            elif chance.random() < 0.15:
                text, value = (
                    f"{text} - {inner} * {factor} + {factor * int(term.max())}",
                    value - term * factor + factor * int(term.max()),
                )
            else:
                text, value = f"{text} + {inner} * {factor}", value + term * factor
        return text, value

    stores = [index() for _ in range(1 if chance.random() < 0.7 else 2)]
    wide = [chance.random() < 0.15 for _ in stores]
    called = [chance.random() < 0.2 for _ in stores]
    loads = []
    way = chance.random()
    if way < 0.15:
        loads = [index()]
    elif way < 0.35:
        loads = [stores[0]]
    stored = [
        np.stack([2 * value, 2 * value + 1], axis=1) if twice else value[:, None]
        for (_, value), twice in zip(stores, wide, strict=True)
    ]
    top = max(int(value[inside].max(initial=0)) for value in [*stored, *(value for _, value in loads)]) + 1
    elements = max(1, top - int(chance.random() < 0.1))
    kind = str(chance.choice(["int", "uint", "size_t", "long"]))
    lines = [
        f"{kind} g{d} = get_global_id({d}), l{d} = get_local_id({d}), w{d} = get_group_id({d});"
        for d in range(dimensions)
    ]
    guard = " && ".join(f"g{d} < {limit}" for d, limit in enumerate(limits) if limit is not None) or "1"
    lines += ["uint u = q[2 * g0] & 0x7fffffff, w = q[2 * g0 + 1] & 0x7fffffff; int m = (int)(u * w);"] * (
        most is not None
    )
    guard += f" && m < {most}" if most is not None else ""
    body = ""
    for number, (text, _) in enumerate(stores):
        new = " + ".join([str(number + 1), *(f"b[{one}]" for one, _ in loads)])
        if wide[number]:
            body += f"vstore2((int2)({new}), {text}, b); "
        else:
            body += f"put_{name}(b, {text}, {new}); " if called[number] else f"b[{text}] = {new}; "
    loop = f"for ({kind} k = {start}; k < {start + rounds * step}; k += {step})" if looped else ""
    if strided:
        loop = f"for ({kind} k = g0; k < {end}; k += get_global_size(0))"
    source = (
        f"__attribute__((noinline)) void put_{name}(__global int* b, long i, int v) {{ b[i] = v; }}\n"
        f"__kernel void {name}(__global int* b, int n0, int n1, int n2, __global const uint* q) "
        f"{{ {' '.join(lines)} if ({guard}) {loop} {{ {body} }} }}"
    )
    return RandomKernel(
        source,
        IndexSpace((0,) * dimensions, size, local),
        ("b", *scalars, "q"),
        {"b": 4 * elements, "q": 8 * size[0]},
        [(value[inside].ravel(), np.repeat(groups[inside], value.shape[1], axis=0)) for value in stored],
        [(value[inside], groups[inside]) for _, value in loads],
        np.array([factors_of(chance, int(one)) for one in products], np.uint32).ravel(),
    )
