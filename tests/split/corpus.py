"""Kernels with their launches and the right verdict of each.

The kinds of store come in about the proportions of public kernels (of 196: 51 store only to their own element, 41 use
several ids or strides, 39 a loop or a loaded term, 64 something that an affine analysis does not follow, one atomics).
`safe`: whether parts of the launch may run on several devices; a trap is a kernel of which a careless analysis thinks so.
"""

from dataclasses import dataclass

import numpy as np

from gpuq.split.launch import Local
from gpuq.split.values import IndexSpace, Origin


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    source: str
    size: tuple
    local: tuple
    arguments: tuple
    """In order: ("name", dtype, elements, fill) for a buffer, "name" for that buffer again, a number with its type."""
    verdict: str
    safe: bool = True
    trap: bool = False

    @property
    def range(self):
        return IndexSpace((0,) * len(self.size), self.size, self.local)


def f32(name, n, fill="random"):
    return (name, np.float32, n, fill)


def i32(name, n, fill="random"):
    return (name, np.int32, n, fill)


def i(value):
    return np.int32(value)


def f(value):
    return np.float32(value)


def _k(body, parameters):
    return f"__kernel void k({parameters}) {{ {body} }}"


AB = "__global const float* a, __global float* b"
X = "int x = get_global_id(0);"
XY = "int x = get_global_id(0), y = get_global_id(1);"
N, W, H = 4096, 100, 60
D1 = ((N,), (64,))
D2 = ((128, 64), (16, 16))

OWN = [
    Case("copy", "own", _k(f"{X} b[x] = a[x];", AB), *D1, (f32("a", N), f32("b", N)), "proven"),
    Case(
        "scale",
        "own",
        _k(f"{X} if (x < n) b[x] = a[x] * s;", AB + ", int n, float s"),
        *D1,
        (f32("a", 4000), f32("b", 4000), i(4000), f(1.5)),
        "proven",
    ),
    Case(
        "saxpy_in_place",
        "own",
        _k(f"{X} b[x] += s * a[x];", AB + ", float s"),
        *D1,
        (f32("a", N), f32("b", N), f(0.3)),
        "proven",
    ),
    Case(
        "transcendental",
        "own",
        _k(f"{X} b[x] = exp(sin(a[x])) + pow(fabs(a[x]), 1.3f);", AB),
        *D1,
        (f32("a", N), f32("b", N)),
        "proven",
    ),
    Case(
        "two_outputs",
        "own",
        _k(f"{X} b[x] = a[x] + 1; c[x] = (int)(a[x] * 10);", AB + ", __global int* c"),
        *D1,
        (f32("a", N), f32("b", N), i32("c", N)),
        "proven",
    ),
    Case(
        "vectors",
        "own",
        _k(f"{X} b[x] = a[x].wzyx * 2;", "__global const float4* a, __global float4* b"),
        *D1,
        (f32("a", 4 * N), f32("b", 4 * N)),
        "proven",
    ),
    Case(
        "gather",
        "own",
        _k(f"{X} b[x] = a[p[x]];", AB + ", __global const int* p"),
        *D1,
        (f32("a", N), f32("b", N), i32("p", N, "index")),
        "proven",
    ),
    Case(
        "select",
        "own",
        _k(f"{X} if (a[x] > 0) b[x] = sqrt(a[x]); else b[x] = -a[x];", AB),
        *D1,
        (f32("a", N), f32("b", N)),
        "proven",
    ),
    Case(
        "mandelbrot",
        "own",
        _k(
            f"{X} float u = a[x], v = 0; int i = 0; for (; i < 200 && u*u + v*v < 4; i++) {{ float t = u*u - v*v + a[x]; v = 2*u*v + 0.1f; u = t; }} b[x] = i;",
            AB,
        ),
        *D1,
        (f32("a", N), f32("b", N)),
        "proven",
    ),
    Case(
        "early_return",
        "own",
        _k("size_t x = get_global_id(0); if (x >= n) return; b[x] = a[n - 1 - x];", AB + ", uint n"),
        *D1,
        (f32("a", 4001), f32("b", 4001), np.uint32(4001)),
        "proven",
    ),
    Case(
        "bytes",
        "own",
        _k(f"{X} b[x] = a[x] ^ 0x5a;", "__global const uchar* a, __global uchar* b"),
        *D1,
        (("a", np.uint8, N, "random"), ("b", np.uint8, N, "random")),
        "proven",
    ),
]

SEVERAL = [
    Case(
        "matrix_add",
        "several ids",
        _k(f"{XY} if (x < w && y < h) b[y * w + x] += a[y * w + x];", AB + ", int w, int h"),
        *D2,
        (f32("a", W * H), f32("b", W * H), i(W), i(H)),
        "proven",
    ),
    Case(
        "transpose",
        "several ids",
        _k(f"{XY} if (x < w && y < h) b[x * h + y] = a[y * w + x];", AB + ", int w, int h"),
        *D2,
        (f32("a", W * H), f32("b", W * H), i(W), i(H)),
        "proven",
    ),
    Case(
        "strided",
        "several ids",
        _k(f"{X} b[x * s + 1] = a[x];", AB + ", int s"),
        *D1,
        (f32("a", N), f32("b", 3 * N), i(3)),
        "proven",
    ),
    Case(
        "volume",
        "several ids",
        _k(f"{XY} int z = get_global_id(2); b[(z * d + y) * d + x] = a[(x * d + y) * d + z];", AB + ", int d"),
        (16, 16, 16),
        (4, 4, 4),
        (f32("a", N), f32("b", N), i(16)),
        "proven",
    ),
    Case(
        "group_id",
        "several ids",
        _k("int x = get_group_id(0) * get_local_size(0) + get_local_id(0); b[x] = a[x] + get_num_groups(0);", AB),
        *D1,
        (f32("a", N), f32("b", N)),
        "proven",
    ),
    Case(
        "global_size_stride",
        "several ids",
        _k("size_t x = get_global_id(0), n = get_global_size(0); b[x] = a[x]; b[x + n] = -a[x];", AB),
        *D1,
        (f32("a", N), f32("b", 2 * N)),
        "proven",
    ),
    Case(
        "pairs",
        "several ids",
        _k(f"{X} b[2 * x] = a[2 * x + 1]; b[2 * x + 1] = a[2 * x];", AB),
        *D1,
        (f32("a", 2 * N), f32("b", 2 * N)),
        "proven",
    ),
    Case(
        "partial_sums",
        "several ids",
        _k(
            "__local float t[64]; int l = get_local_id(0); t[l] = a[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); for (int s = 32; s > 0; s >>= 1) { if (l < s) t[l] += t[l + s]; barrier(CLK_LOCAL_MEM_FENCE); } if (l == 0) b[get_group_id(0)] = t[0];",
            AB,
        ),
        *D1,
        (f32("a", N), f32("b", N // 64)),
        "proven",
    ),
    Case(
        "tile_transpose",
        "several ids",
        _k(
            "__local float t[16][17]; int lx = get_local_id(0), ly = get_local_id(1); t[ly][lx] = a[get_global_id(1) * w + get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE); b[(get_group_id(0) * 16 + ly) * h + get_group_id(1) * 16 + lx] = t[lx][ly];",
            AB + ", int w, int h",
        ),
        *D2,
        (f32("a", 128 * 64), f32("b", 128 * 64), i(128), i(64)),
        "proven",
    ),
    Case(
        "unflattened",
        "several ids",
        _k("int n = get_global_id(0); int x = n % w, y = n / w; b[y * w + x] = a[x];", AB + ", int w"),
        *D1,
        (f32("a", N), f32("b", N), i(64)),
        "proven",
    ),
]

LOOPS = [
    Case(
        "matmul",
        "loop",
        _k(
            f"{XY} float s = 0; for (int k = 0; k < n; k++) s += a[y * n + k] * c[k * n + x]; b[y * n + x] = s;",
            AB + ", __global const float* c, int n",
        ),
        (64, 64),
        (8, 8),
        (f32("a", N), f32("b", N), f32("c", N), i(64)),
        "proven",
    ),
    Case(
        "rows",
        "loop",
        _k(f"{X} for (int k = 0; k < w; k++) b[x * w + k] = a[x * w + k] * 2;", AB + ", int w"),
        (256,),
        (16,),
        (f32("a", 256 * 37), f32("b", 256 * 37), i(37)),
        "proven",
    ),
    Case(
        "columns",
        "loop",
        _k(f"{X} for (int k = 0; k < h; k++) b[k * w + x] = a[x] + k;", AB + ", int w, int h"),
        (256,),
        (16,),
        (f32("a", 256), f32("b", 256 * 20), i(256), i(20)),
        "proven",
    ),
    Case(
        "grid_stride",
        "loop",
        _k("for (int x = get_global_id(0); x < n; x += get_global_size(0)) b[x] = a[x] * a[x];", AB + ", int n"),
        (512,),
        (64,),
        (f32("a", 4096), f32("b", 4096), i(4096)),
        "proven",
    ),
    Case(
        "csr",
        "loop",
        _k(
            f"{X} float s = 0; for (int k = p[x]; k < p[x + 1]; k++) s += a[k]; b[x] = s;",
            AB + ", __global const int* p",
        ),
        (256,),
        (16,),
        (f32("a", N), f32("b", 256), i32("p", 257, "rows")),
        "proven",
    ),
    Case(
        "blur",
        "loop",
        _k(
            f"{XY} float s = 0; for (int j = -1; j <= 1; j++) for (int i = -1; i <= 1; i++) s += a[clamp(y + j, 0, h - 1) * w + clamp(x + i, 0, w - 1)]; if (x < w && y < h) b[y * w + x] = s / 9;",
            AB + ", int w, int h",
        ),
        *D2,
        (f32("a", W * H), f32("b", W * H), i(W), i(H)),
        "proven",
    ),
    Case(
        "triangle",
        "loop",
        _k(f"{X} float s = 0; for (int k = 0; k <= x; k++) s += a[k]; b[x] = s;", AB),
        (512,),
        (16,),
        (f32("a", 512), f32("b", 512)),
        "proven",
    ),
    Case(
        "histogram_rows",
        "loop",
        _k(
            f"{X} for (int k = 0; k < 64; k++) c[x * 16 + (p[x * 64 + k] & 15)]++;",
            "__global const int* p, __global int* c",
        ),
        (64,),
        (4,),
        (i32("p", N), i32("c", 1024)),
        "proven",
    ),
    Case(
        "pointer_walk",
        "loop",
        _k(f"{X} __global float* q = b + x * 8; for (int k = 0; k < 8; k++) *q++ = a[x] * k;", AB),
        (512,),
        (16,),
        (f32("a", 512), f32("b", N)),
        "proven",
    ),
    Case(
        "nbody",
        "loop",
        _k(
            f"{X} float4 f = 0; for (int k = 0; k < n; k++) {{ float4 d = a[k] - a[x]; d.w = 0; f += d * rsqrt(dot(d, d) + 0.01f); }} b[x] = f;",
            "__global const float4* a, __global float4* b, int n",
        ),
        (512,),
        (64,),
        (f32("a", 2048), f32("b", 2048), i(512)),
        "proven",
    ),
]

UNKNOWN = [
    Case(
        "scatter",
        "unknown",
        _k(f"{X} b[p[x]] = a[x];", AB + ", __global const int* p"),
        *D1,
        (f32("a", N), f32("b", N), i32("p", N, "permutation")),
        "check",
    ),
    Case(
        "bit_reversal",
        "unknown",
        _k(f"{X} int r = 0; for (int k = 0; k < 12; k++) r |= ((x >> k) & 1) << (11 - k); b[r] = a[x];", AB),
        *D1,
        (f32("a", N), f32("b", N)),
        "check",
    ),
    Case("xor_swap", "unknown", _k(f"{X} b[x ^ 1] = a[x];", AB), *D1, (f32("a", N), f32("b", N)), "check"),
    Case(
        "unflattened_transpose",
        "unknown",
        _k("int n = get_global_id(0); int x = n % w, y = n / w; b[x * h + y] = a[n];", AB + ", int w, int h"),
        *D1,
        (f32("a", N), f32("b", N), i(64), i(64)),
        "check",
    ),
    Case(
        "wrapped",
        "unknown",
        _k(f"{X} b[(x + 5) % n] = a[x];", AB + ", int n"),
        *D1,
        (f32("a", N), f32("b", N), i(N)),
        "check",
    ),
    Case(
        "ragged_rows",
        "unknown",
        _k(f"{X} for (int k = p[x]; k < p[x + 1]; k++) b[k] = a[x];", AB + ", __global const int* p"),
        (256,),
        (16,),
        (f32("a", 256), f32("b", N), i32("p", 257, "rows")),
        "check",
    ),
    Case(
        "grid_stride_odd",
        "unknown",
        _k("for (int x = get_global_id(0); x < n; x += get_global_size(0)) b[x] = a[x] * a[x];", AB + ", int n"),
        (512,),
        (64,),
        (f32("a", 4000), f32("b", 4000), i(4000)),
        "proven",
    ),
]

TRAPS = [
    Case(
        "group_id_repeats",
        "unknown",
        _k("b[get_group_id(0) % 8] = get_group_id(0);", "__global int* b"),
        *D1,
        (i32("b", 8),),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "in_place_stencil",
        "unknown",
        _k(f"{X} if (x > 0 && x < n - 1) b[x] = (b[x - 1] + b[x] + b[x + 1]) / 3;", "__global float* b, int n"),
        *D1,
        (f32("b", N), i(N)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "overlapping_windows",
        "unknown",
        _k(f"{X} for (int k = 0; k < 4; k++) b[x * 2 + k] = a[x] + k;", AB),
        *D1,
        (f32("a", N), f32("b", 2 * N + 2)),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "atomic_histogram",
        "atomics",
        _k(f"{X} atomic_inc(&c[p[x] & 255]);", "__global const int* p, __global int* c"),
        *D1,
        (i32("p", N), i32("c", 256)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "reduction",
        "unknown",
        _k(
            f"{X} for (int s = n / 2; s > 0; s /= 2) {{ if (x < s) b[x] += b[x + s]; barrier(CLK_GLOBAL_MEM_FENCE); }}",
            "__global float* b, int n",
        ),
        *D1,
        (f32("b", N), i(N)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "rows_too_short",
        "unknown",
        _k(f"{XY} b[y * w + x] = a[x] + y;", AB + ", int w"),
        *D2,
        (f32("a", 128), f32("b", 128 * 64), i(W)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "neighbour_planes",
        "unknown",
        _k(
            f"{XY} int z = get_global_id(2); int n = (z * 16 + y) * 16 + x; if (z > 0) b[n] = b[n - 256] + 1;",
            "__global float* b",
        ),
        (16, 16, 16),
        (4, 4, 4),
        (f32("b", N),),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "halved",
        "unknown",
        _k(f"{X} b[x / 128] = a[x];", AB),
        *D1,
        (f32("a", N), f32("b", N // 128)),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "last_found",
        "unknown",
        _k(f"{X} if (a[x] > 0.5f) b[0] = x;", AB),
        *D1,
        (f32("a", N), f32("b", 1)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "colliding_scatter",
        "unknown",
        _k(f"{X} b[p[x] & 63] = a[x];", AB + ", __global const int* p"),
        *D1,
        (f32("a", N), f32("b", 64), i32("p", N)),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "aliased",
        "unknown",
        _k(f"{X} b[x] = a[n - 1 - x];", AB + ", int n"),
        *D1,
        (f32("a", N), "a", i(N)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "data_dependent_end",
        "unknown",
        _k(f"{X} for (int k = 0; k <= p[x]; k++) b[x + k] = a[x];", AB + ", __global const int* p"),
        *D1,
        (f32("a", N), f32("b", N + 8), i32("p", N, "small")),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "gather_in_place",
        "unknown",
        _k(f"{X} b[x] = b[p[x]];", "__global float* b, __global const int* p"),
        *D1,
        (f32("b", N), i32("p", N, "permutation")),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "wraps_around",
        "unknown",
        _k("uint x = get_global_id(0); b[(uchar)x] = a[x];", AB),
        *D1,
        (f32("a", N), f32("b", 256)),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "prints",
        "unknown",
        _k(f'{X} if (x == 0) printf("x"); b[x] = a[x];', AB),
        *D1,
        (f32("a", N), f32("b", N)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "past_the_end",
        "unknown",
        _k(f"{X} b[x + 1] = a[x];", AB),
        *D1,
        (f32("a", N), f32("b", N)),
        "check",
        safe=False,
        trap=True,
    ),
]

# What public kernels do beside their indices: vectors, local atomics, structures, helpers that are not inlined, strides in place.
MORE = [
    Case(
        "vector_calls",
        "own",
        _k(f"{X} vstore4(vload4(x, a) * 2, x, b);", AB),
        *D1,
        (f32("a", 4 * N), f32("b", 4 * N)),
        "proven",
    ),
    Case(
        "triples",
        "several ids",
        _k(f"{X} vstore3(vload3(x, a).zyx, x, b);", AB),
        *D1,
        (f32("a", 3 * N), f32("b", 3 * N)),
        "proven",
    ),
    Case(
        "group_histogram",
        "loop",
        _k(
            "int l = get_local_id(0), g = get_group_id(0); t[l] = 0; barrier(CLK_LOCAL_MEM_FENCE); atomic_inc(&t[p[get_global_id(0)] & 63]); barrier(CLK_LOCAL_MEM_FENCE); c[g * 64 + l] = t[l];",
            "__global const int* p, __global int* c, __local int* t",
        ),
        *D1,
        (i32("p", N), i32("c", N), ("local", 256)),
        "proven",
    ),
    Case(
        "structures",
        "own",
        "typedef struct { float4 a; float c; int d; } Body; "
        + _k(f"{X} b[x] = a[x]; b[x].c += 1;", "__global const Body* a, __global Body* b"),
        (512,),
        (16,),
        (f32("a", N), f32("b", N)),
        "proven",
    ),
    Case(
        "helper",
        "several ids",
        "__attribute__((noinline)) void put_row(__global float* b, int x, float v) { for (int k = 0; k < 8; k++) b[x * 8 + k] = v + k; } "
        + _k(f"{X} prefetch(a + x, 1); put_row(b, x, a[x]);", AB),
        (512,),
        (16,),
        (f32("a", 512), f32("b", N)),
        "proven",
    ),
    Case(
        "mirrored",
        "several ids",
        _k(f"{X} b[n - 1 - x] = a[x];", AB + ", int n"),
        *D1,
        (f32("a", N), f32("b", N), i(N)),
        "proven",
    ),
    Case(
        "grid_stride_in_place",
        "loop",
        _k("for (int x = get_global_id(0); x < n; x += get_global_size(0)) b[x] *= b[x];", "__global float* b, int n"),
        (512,),
        (64,),
        (f32("b", 4001), i(4001)),
        "proven",
    ),
    Case(
        "product_wraps",
        "unknown",
        _k(
            f"{X} uint u = p[2 * x] & 0x7fffffff, w = p[2 * x + 1] & 0x7fffffff; int m = (int)(u * w); if (m < 10) b[x * 10 + m + 6] = x;",
            "__global const uint* p, __global int* b",
        ),
        (256,),
        (1,),
        (i32("p", 512, "wrapping"), i32("b", 2600)),
        "check",
        safe=False,
        trap=True,
    ),
    Case(
        "named_private",
        "unknown",
        _k(f"{X} b[x] = x; a[0] = x; a[1] += 1;", "__global int* a, __global int* b"),
        *D1,
        (i32("private", 4), i32("b", N)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "pointer_in_structure",
        "unknown",
        "typedef struct { __global int* p; int n; } Held; __attribute__((noinline)) int first_held(Held* s) { return s->p[s->n]; } "
        + _k(f"{X} Held s; s.p = b; s.n = 0; b[x] = first_held(&s) + 1;", "__global int* b"),
        *D1,
        (i32("b", N),),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "barrier_by_name",
        "unknown",
        "__attribute__((noinline)) void my_barrier_store(ulong p, int x) { *((__global int*)p) = x; } "
        + _k(f"{X} b[x] = x; my_barrier_store((ulong)c, x);", "__global int* b, __global int* c"),
        *D1,
        (i32("b", N), i32("c", 1)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "windows_of_vectors",
        "unknown",
        _k(f"{X} vstore4((float4)(a[x]), 0, b + 2 * x);", AB),
        *D1,
        (f32("a", N), f32("b", 2 * N + 2)),
        "refused",
        safe=False,
        trap=True,
    ),
    Case(
        "grid_stride_neighbour",
        "unknown",
        _k(
            "for (int x = get_global_id(0); x < n - 1; x += get_global_size(0)) b[x] += b[x + 1];",
            "__global float* b, int n",
        ),
        (512,),
        (64,),
        (f32("b", 4001), i(4001)),
        "refused",
        safe=False,
        trap=True,
    ),
]

CASES = [*OWN, *SEVERAL, *LOOPS, *UNKNOWN, *TRAPS, *MORE]


def data(case, seed=0):
    """The buffers of a case by name."""
    chance = np.random.default_rng(seed)
    buffers = {}
    for one in case.arguments:
        if isinstance(one, tuple) and one[0] != "local":
            name, kind, n, fill = one
            buffers[name] = {
                "random": lambda kind=kind, n=n: (
                    chance.random(n) if kind is np.float32 else chance.integers(0, 200, n)
                ).astype(kind),
                "index": lambda n=n: chance.integers(0, n, n).astype(np.int32),
                "permutation": lambda n=n: chance.permutation(n).astype(np.int32),
                "wrapping": lambda n=n: np.tile([2, 2, 5, 858993458], n // 4).astype(np.int32),
                "small": lambda n=n: chance.integers(0, 8, n).astype(np.int32),
                "rows": lambda n=n: np.concatenate(
                    [[0], np.sort(chance.integers(0, n // 257 * 4096, n - 2)), [n // 257 * 4096]]
                ).astype(np.int32),
            }[fill]()
    return buffers


def launch_arguments(case):
    """What a launch takes: names of buffers, NumPy scalars, local memory."""
    return tuple(
        Local(one[1]) if isinstance(one, tuple) and one[0] == "local" else one[0] if isinstance(one, tuple) else one
        for one in case.arguments
    )


def plain_arguments(case):
    """What the analysis takes: whole numbers, names of buffers, None for other scalars."""
    plain = []
    for one in case.arguments:
        if isinstance(one, np.integer):
            plain.append(int(one))
        elif isinstance(one, tuple):
            plain.append(Origin.PRIVATE if one[0] == "local" else one[0])
        else:
            plain.append(one if isinstance(one, str) else None)
    return plain


def sizes(case):
    return {
        one[0]: np.dtype(one[1]).itemsize * one[2]
        for one in case.arguments
        if isinstance(one, tuple) and one[0] != "local"
    }
