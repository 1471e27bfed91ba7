#!/usr/bin/env python3
"""Holds topology.schema.json against the examples and against the parser: `schema_test.py TOPOLOGIES_DIR PARSER`."""
import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

SIMULATED = {"name": "a:0", "capacity": "64MiB"}
LINK = {"from": "a:0", "to": "host:0", "bandwidth": "25GB/s"}


def with_simulated(**keys):
    return {"version": 1, "simulated_devices": [{**SIMULATED, **keys}]}


def with_device(**keys):
    return {"version": 1, "devices": [{"device": "a:0", **keys}]}


def with_link(**keys):
    return {"version": 1, "links": [{**LINK, **keys}]}


ACCEPTED = [
    {"version": 1},
    {"version": 1, "strict": True, "simulated_devices": [], "devices": [], "links": [], "routes": []},
    with_simulated(granularity=4096, wave_width=64, capabilities=["kernels"], latency="1.5us", pci="0000:41:00.0"),
    with_simulated(faults=[{"kind": "hang", "call": "copy_to_host", "after": 3, "count": 2}], alias_offset=8192),
    with_simulated(bandwidth_in=1e9, bandwidth_out="10 GB/s", bandwidth_peer=50000000000, latency=700, numa_node=1),
    with_device(hide=True),
    with_device(capacity="1.5GiB", limit=1024, numa_node=3),
    with_device(split=[{"capacity": "1GiB"}, {"name": "b", "capacity": "1GiB"}]),
    with_link(latency=0, peer_access=True, hide=False),
    {"version": 1, "routes": [{"devices": ["a", "b", "c", "d"]}]},
]
REFUSED = [
    [],
    {},
    {"version": 2},
    {"version": 1, "devcies": []},
    {"version": 1, "strict": 1},
    {"version": 1, "simulated_devices": {}},
    {"version": 1, "simulated_devices": [{}]},
    with_simulated(capacity=-1),
    with_simulated(capacity=0),
    with_simulated(capacity=3.14),
    with_simulated(capacity=None),
    with_simulated(capacity=2**64 + 100),
    with_simulated(capacity="64 parsecs"),
    with_simulated(name="a b"),
    with_simulated(name=""),
    with_simulated(wave_width=48),
    with_simulated(capabilities=["flight"]),
    with_simulated(pci="41"),
    with_simulated(alias_offset=100),
    with_simulated(faults=[{"kind": "explode"}]),
    with_simulated(faults=[{}]),
    with_simulated(numa_node=-1),
    with_simulated(numa_node=2**32),
    with_simulated(bandwidth_in=0),
    with_simulated(bandwidth_in="25GB"),
    with_simulated(latency=-5),
    with_simulated(latency="5 fortnights"),
    with_device(split=[]),
    with_device(split=[{"name": "x"}]),
    with_device(split=[{"capacity": 4096}], limit=4096),
    with_device(size=3),
    {"version": 1, "devices": [{"hide": True}]},
    with_link(bandwidth="fast"),
    {"version": 1, "links": [{"from": "a", "to": "b"}]},
    {"version": 1, "links": [{"from": "a", "to": "b", "hide": False}]},
    {"version": 1, "routes": [{"devices": ["a"]}]},
    {"version": 1, "routes": [{"devices": ["a", "b", "a"]}]},
    {"version": 1, "routes": [{"devices": list("abcde")}]},
]


def main():
    folder, parser = Path(sys.argv[1]), sys.argv[2]
    schema = json.loads((folder / "topology.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    examples = [path for path in sorted(folder.glob("*.json")) if path.name != "topology.schema.json"]
    assert len(examples) >= 2, f"no examples in {folder}"
    cases = [(path.name, json.loads(path.read_text()), True) for path in examples]
    cases += [(json.dumps(value), copy.deepcopy(value), True) for value in ACCEPTED]
    cases += [(json.dumps(value), copy.deepcopy(value), False) for value in REFUSED]
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        paths = []
        for index, (_, value, _) in enumerate(cases):
            path = Path(temporary) / f"{index}.json"
            path.write_text(json.dumps(value))
            paths.append(str(path))
        output = subprocess.run([parser, *paths], check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(output) == len(cases)
    for (name, value, good), answer in zip(cases, output):
        errors = [error.message for error in validator.iter_errors(value)]
        if good != (not errors) or good != (answer == "ok"):
            failures += 1
            print(f"{name}\n  expected: {'accepted' if good else 'refused'}\n  schema: {errors or 'accepted'}\n"
                  f"  parser: {answer}")
    print(f"{len(cases)} files, {failures} disagreements")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
