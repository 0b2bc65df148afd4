"""What the launch wrapper adds to a call: a kernel with the pass beside the same kernel with the stock barrier.

    python benchmarks/launch_overhead.py --out results.json [--rounds 30] [--calls 500]

The time is the host's, for calls that only queue work. Rounds of both alternate, so that drift hits both.
"""

import argparse
import json
import statistics
import time

import machine
import tilelang.language as T
import torch

from tl_gridsync_pass.bench.barriers import compile_stock, compile_with_pass


def tiny():
    @T.prim_func
    def tiny(data: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32) as bx:
            T.sync_grid()
            if T.get_thread_binding(0) == 0:
                data[bx] = bx

    return tiny


def microseconds_a_call(kernel, data: torch.Tensor, calls: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        kernel(data)
    elapsed = time.perf_counter() - start
    torch.cuda.synchronize()
    return elapsed * 1e6 / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=500)
    args = parser.parse_args()
    kernels = {"pass": compile_with_pass(tiny()), "stock": compile_stock(tiny())}
    data = torch.zeros(2, dtype=torch.int32, device="cuda")
    samples: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(args.rounds + 1):
        for name, kernel in kernels.items():
            samples[name].append(microseconds_a_call(kernel, data, args.calls))
    medians = {name: statistics.median(values[1:]) for name, values in samples.items()}
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "us a call": {n: v[1:] for n, v in samples.items()}}, file, indent=1)
    print(f"pass {medians['pass']:.2f} us, stock {medians['stock']:.2f} us, added {medians['pass'] - medians['stock']:.2f} us a call")


if __name__ == "__main__":
    main()
