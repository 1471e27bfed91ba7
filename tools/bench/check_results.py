#!/usr/bin/env python3
"""Checks results files of `vmem bench` and the benchmarks: `check_results.py [--schema FILE] FILE...`.

Each file must follow results.schema.json (where python3-jsonschema is installed; its main fields are checked in any case),
and every median, rate and ratio in it must follow from the raw samples beside it. Prints what does not, and exits 1.
"""
import argparse
import json
import math
import statistics
import sys
from pathlib import Path

TOLERANCE = 1e-6  # relative: the figures are written with all their digits
HEAD = {"schema_version": int, "vmem": str, "commit": str, "command": str, "machine": dict, "results": list}


def close(a, b):
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=0.0)


def check_rate(place, found, amount, samples):
    """A rate must be the amount over the median of the samples."""
    if not samples:
        yield f"{place}: no samples"
        return
    seconds = statistics.median(samples)
    expected = amount / seconds if seconds > 0 else 0
    if not close(found, expected):
        yield f"{place}: {found}, but {amount} in a median of {seconds} s are {expected}"


def check_result(result):
    name = result.get("name", "a result without a name")
    unit = "bytes" if "bytes" in result else "operations"
    try:
        amount, samples, reference = result[unit], result["samples"], result["reference"]
        rate = result[f"{unit}_per_second"]
        yield from check_rate(f"{name}: {unit}_per_second", rate, amount, samples)
        if not close(result["seconds"], statistics.median(samples)):
            yield f"{name}: seconds: {result['seconds']} is not the median of the samples"
        for other in [reference, *result.get("other_references", [])]:
            limit = other[f"{unit}_per_second"]
            yield from check_rate(f"{name}: reference '{other['name']}'", limit, amount, other["samples"])
        if len(reference["samples"]) != len(samples):
            yield f"{name}: {len(samples)} samples, but {len(reference['samples'])} of the reference"
        expected = rate / reference[f"{unit}_per_second"]
        if not close(result["ratio"], expected):
            yield f"{name}: ratio: {result['ratio']}, but measured over reference is {expected}"
        yield from check_reached(name, result, amount)
    except (KeyError, TypeError, ZeroDivisionError, statistics.StatisticsError) as error:
        yield f"{name}: {type(error).__name__}: {error}"


def check_reached(name, result, amount):
    reach = result.get("reach")
    if reach is None:
        return
    reached = result["ratio"] >= reach.get("ratio", math.inf)
    reached |= result["seconds"] / amount <= reach.get("seconds_per_operation", -math.inf)
    if reached != result["reached"]:
        yield f"{name}: reached: {result['reached']}, but by its own figures {reached}"


def check_bookkeeping(document):
    figures = document.get("bookkeeping")
    if figures is None:
        return
    last = figures["points"][-1]
    grown = last["bookkeeping_bytes"] - figures["untouched_bookkeeping_bytes"]
    expected = grown / (last["touched_bytes"] / 2**30)
    if not math.isclose(figures["bookkeeping_bytes_per_gib_touched"], expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        yield f"bookkeeping: {figures['bookkeeping_bytes_per_gib_touched']} per GiB, but the points make it {expected}"


def check_schema(document, schema_file):
    for field, kind in HEAD.items():
        if not isinstance(document.get(field), kind):
            yield f"{field}: a {kind.__name__} is missing"
    try:
        import jsonschema
    except ImportError:
        return
    schema = json.loads(schema_file.read_text(encoding="utf-8"))
    for error in jsonschema.Draft7Validator(schema).iter_errors(document):
        yield f"{'/'.join(map(str, error.absolute_path)) or 'the document'}: {error.message}"


def check(text, schema_file):
    """Yields what is wrong with a results document."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        yield f"no JSON: {error}"
        return
    if not isinstance(document, dict):
        yield "the document is no object"
        return
    problems = list(check_schema(document, schema_file))
    yield from problems
    if problems:
        return
    names = [result["name"] for result in document["results"]]
    if not names:
        yield "results: there are none"
    for result in document["results"]:
        yield from check_result(result)
    yield from check_bookkeeping(document)


def main():
    parser = argparse.ArgumentParser(description="Checks results files of vmem's benchmarks.")
    parser.add_argument("--schema", type=Path, default=Path(__file__).resolve().parent / "results.schema.json")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    bad = 0
    for file in arguments.files:
        for line in check(file.read_text(encoding="utf-8"), arguments.schema):
            print(f"{file}: {line}")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
