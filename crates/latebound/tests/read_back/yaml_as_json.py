# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file of YAML as JSON."""

import json
import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    json.dump(yaml.safe_load(file), sys.stdout)
