# SPDX-License-Identifier: MIT OR Apache-2.0
"""The resources of a manifest of Kubernetes, as JSON, after each was held against the schema of its kind."""

import json
import sys

import kubernetes_validate
import yaml

# The oldest version whose nodes are still supported, and the newest that the package has.
VERSIONS = ("1.34", kubernetes_validate.latest_version())

with open(sys.argv[1], encoding="utf-8") as manifest:
    resources = list(yaml.safe_load_all(manifest))
for resource in resources:
    for version in VERSIONS:
        kubernetes_validate.validate(resource, version, strict=True)
json.dump(resources, sys.stdout)
