#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Validates run.json files against the published JSON Schema. Exit status 1 where one does not follow it."""

import argparse
import json
import pathlib
import sys

import jsonschema

parser = argparse.ArgumentParser(description=__doc__)
default = pathlib.Path(__file__).resolve().parent.parent / "schema" / "run.schema.json"
parser.add_argument("--schema", type=pathlib.Path, default=default)
parser.add_argument("runs", nargs="+", type=pathlib.Path, help="Runs: folders or run.json files")
arguments = parser.parse_args()

schema = json.loads(arguments.schema.read_text())
validator_class = jsonschema.validators.validator_for(schema)
validator_class.check_schema(schema)
validator = validator_class(schema)
bad = 0
for path in arguments.runs:
    file = path / "run.json" if path.is_dir() else path
    errors = sorted(validator.iter_errors(json.loads(file.read_text())), key=lambda error: error.json_path)
    for error in errors:
        print(f"{file}: {error.json_path}: {error.message[:300]}")
    bad += bool(errors)
sys.exit(1 if bad else 0)
