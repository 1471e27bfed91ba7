#!/usr/bin/env python3
"""Checks who may include whom: `check_includes.py [ROOT]`.

Prints one line for each #include that breaks the rules, with its place and the rule, and exits 1 when there is one.
"""
import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

STANDARD_17 = set(
    """algorithm any array atomic bitset charconv chrono codecvt complex condition_variable deque exception execution
    filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator limits
    list locale map memory memory_resource mutex new numeric optional ostream queue random ratio regex scoped_allocator set
    shared_mutex sstream stack stdexcept streambuf string string_view strstream system_error thread tuple type_traits
    typeindex typeinfo unordered_map unordered_set utility valarray variant vector
    cassert cctype cerrno cfenv cfloat cinttypes climits clocale cmath csetjmp csignal cstdarg cstddef cstdint cstdio
    cstdlib cstring ctime cuchar cwchar cwctype
    assert.h ctype.h errno.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h stdalign.h stdarg.h stdatomic.h
    stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h time.h uchar.h wchar.h wctype.h""".split()
)
STANDARD_20 = set(
    """barrier bit compare concepts coroutine format latch numbers ranges semaphore source_location span stop_token syncstream
    version""".split()
)
# The C library and the kernel's interface: allowed wherever code may talk to the machine.
SYSTEM = re.compile(
    r"^(sys|linux|asm|netinet|arpa|bits)/.+$|^(cpuid|dirent|dlfcn|elf|fcntl|getopt|glob|immintrin|libgen|link|malloc|netdb|"
    r"poll|pthread|pwd|sched|spawn|strings|syscall|termios|ucontext|unistd|x86intrin)\.h$"
)
OUTSIDE = {
    "fmt": r"^fmt/",
    "spdlog": r"^spdlog/",
    "hwloc": r"^hwloc(\.h$|/)",
    "nlohmann/json": r"^nlohmann/",
    "zstd": r"^zstd(_\w+)?\.h$",
    "lz4": r"^lz4\w*\.h$",
    "oneTBB": r"^(oneapi/)?tbb/|^oneapi/tbb\.h$",
    "ISA-L": r"^isa-l(\.h$|/)|^crc\.h$",
    "prometheus-cpp": r"^prometheus/",
    "CLI11": r"^CLI/",
    "CUDA": r"^(cuda|cuda_runtime\w*|nvrtc|cuda_bf16|cuda_fp16|nvml)\.h$",
    "HIP": r"^(hip|hsa)/",
    "liburing": r"^liburing\.h$",
}
ANYTHING = ("anything",)


@dataclass(frozen=True)
class Rule:
    """What the files of `folder` may include besides themselves, include/vmem and the standard library."""

    folder: str
    inside: tuple = ()
    outside: tuple = ()
    system: bool = True


STAGES = ("support", "topology", "memory", "residency", "policy", "codec", "transfer", "resilience", "telemetry", "pool")


def stages(*names):
    return tuple(f"runtime/{name}/" for name in names)


# The first rule whose folder is a prefix of the file's path holds.
RULES = (
    Rule("include/vmem/", system=False),
    Rule("runtime/support/", (), ("fmt", "spdlog")),
    Rule("runtime/topology/", stages("support"), ("hwloc", "nlohmann/json")),
    Rule("runtime/memory/", stages("support", "topology")),
    Rule("runtime/residency/", stages("support", "topology", "memory")),
    Rule("runtime/policy/", stages("support", "topology", "memory", "residency")),
    Rule("runtime/codec/", stages("support"), ("zstd", "lz4")),
    Rule("runtime/transfer/", stages("support", "topology", "codec") + ("runtime/residency/plan.hpp",), ("oneTBB",)),
    Rule("runtime/resilience/", stages("support", "topology", "memory", "residency"), ("ISA-L",)),
    Rule("runtime/telemetry/", stages("support"), ("prometheus-cpp",)),
    Rule("runtime/pool/", stages(*STAGES)),
    Rule("backends/kernels/", system=False),
    Rule("backends/cuda/intercept/", ("backends/cuda/driver_table.hpp",), ("CUDA",)),
    Rule("backends/rocm/intercept/", ("backends/rocm/driver_table.hpp",), ("HIP",)),
    Rule("backends/host/", ("runtime/support/", "backends/kernels/"), ("liburing",)),
    Rule("backends/cuda/", ("runtime/support/", "backends/kernels/"), ("CUDA",)),
    Rule("backends/rocm/", ("runtime/support/", "backends/kernels/"), ("HIP",)),
    Rule("backends/", ("runtime/support/", "backends/kernels/"), ("liburing",)),
    Rule("tools/vmem/", ("vmem_commit.hpp", "tools/bench/bench.hpp"), ("CLI11",)),
    Rule("tools/python/", (), ("CLI11",)),
    Rule("tests/examples/", (), ("CLI11",)),
    Rule("tools/bench/", ANYTHING),
    Rule("tests/", ANYTHING),
)

SOURCES = {".hpp", ".cpp", ".h", ".c", ".cu", ".in"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def rule_of(path):
    return next((rule for rule in RULES if path.startswith(rule.folder)), None)


def problem(root, path, quote, header):
    """Why `path` may not include `header`, or None."""
    rule = rule_of(path)
    if rule is None:
        return "no rule covers this folder; add one to tools/check_includes.py"
    if rule.inside == ANYTHING:
        return None
    if header.startswith("vmem/"):
        return None if quote == "<" else "public headers are included as <vmem/...>"
    if header in STANDARD_17:
        return None
    if header in STANDARD_20:
        return "public headers are C++17" if rule.folder == "include/vmem/" else None
    if SYSTEM.match(header):
        return None if rule.system else f"{rule.folder} uses the standard library alone"
    for name, pattern in OUTSIDE.items():
        if re.match(pattern, header):
            return None if name in rule.outside else f"{rule.folder} may not use {name}"
    if header in rule.inside and "/" not in header:
        return None  # generated into the build tree
    if not (root / header).is_file():
        return "includes inside the tree are written from its root, and this file is not there"
    if rule.folder == "include/vmem/":
        return "include/vmem includes nothing of the tree but itself"
    own = str(Path(path).parent) + "/"
    if header.startswith((rule.folder, own) + rule.inside):
        # A backend's folder is covered by the general rule: the neighbours are not its own.
        if rule.folder != "backends/" or not header.startswith("backends/"):
            return None
        if header.startswith("backends/kernels/") or header.split("/")[:2] == path.split("/")[:2]:
            return None
        return "a backend may not include another backend"
    return f"{rule.folder} may not include {str(Path(header).parent)}"


def check(root):
    """Yields "path:line: message" for every include that breaks a rule."""
    for folder in ("include", "runtime", "backends", "tools", "tests"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if match and (message := problem(root, path, *match.groups())):
                    yield f"{path}:{number}: {match.group(2)}: {message}"


def main():
    parser = argparse.ArgumentParser(description="Checks who may include whom.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent)
    problems = list(check(parser.parse_args().root))
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
