"""The machine: its cores, its peak speed at products and convolutions, and who uses its processors."""

import math
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

TICK = 1 / os.sysconf("SC_CLK_TCK")


def cores() -> int:
    """The number of cores available."""
    return len(os.sched_getaffinity(0))


def cpu_model() -> str:
    """The processor's name and what decides its speed here."""
    fields = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(named.get("flags", "").split()) & {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}
    family = f"family {named.get('cpu family', '?')} model {named.get('model', '?')}"
    return f"{named.get('model name', 'unknown')}, {family}, {' '.join(sorted(flags))}"


def busy_seconds() -> float:
    """Seconds of all cores so far in which they worked for anybody, the hypervisor's other guests included."""
    user, nice, system, _idle, _wait, irq, softirq, steal, *_ = Path("/proc/stat").read_text().split()[1:11]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) * TICK


def cpu_seconds(mark: str) -> float:
    """Seconds of CPU so far of all processes, and their ended children, that have `mark` in their environment."""
    total = 0
    for pid in family(mark):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        total += sum(map(int, fields[11:15]))
    return total * TICK


def family(mark: str) -> list[int]:
    """The processes that have `mark`, a NAME=value, in their environment."""
    found, wanted = [], mark.encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def peaks() -> dict[str, float]:
    """Operations per second of CPU, on all cores at the same time: at products of large matrices and at convolutions.

    Both are needed: on some processors PyTorch's products and its convolutions use different instructions.
    """
    types = {"": torch.float32} | ({"_bfloat16": torch.bfloat16} if has_bfloat16() else {})
    found = {}
    for suffix, dtype in types.items():
        a, b = (torch.randn(1024, 1024).to(dtype) for _ in range(2))
        found[f"mm{suffix}"] = _on_all_cores(lambda a=a, b=b: torch.mm(a, b), 2 * 1024**3)
        x = torch.randn(50, 14, 14, 64).to(dtype).permute(0, 3, 1, 2)
        w = torch.randn(64, 64, 3, 3).to(dtype)
        flops = 2 * 50 * 14 * 14 * 9 * 64 * 64
        found[f"convolution{suffix}"] = _on_all_cores(lambda x=x, w=w: torch.conv2d(x, w, padding=1), flops)
    return found


def has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16."""
    able = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def _on_all_cores(work: Callable[[], object], flops: float, times: int = 8) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    best = [math.inf] * cores()

    def measure(core: int) -> None:
        torch.get_num_threads()  # only now does a new thread keep to one; until then it splits a product over all cores
        for _ in range(times):
            began = time.thread_time()
            work()
            best[core] = min(best[core], time.thread_time() - began)

    threads = [threading.Thread(target=measure, args=(core,)) for core in range(cores())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.set_num_threads(before)
    return sum(flops / seconds for seconds in best)
