# SPDX-License-Identifier: MIT OR Apache-2.0
"""The resources of a manifest of Kubernetes, as JSON, after each was held against the schema of its kind.

Further files are JSON patches of the last resource (RFC 6902), which is held against its schema again with all of them.
"""

import json
import sys

import jsonpatch
import kubernetes_validate
import yaml

# The oldest version whose nodes are still supported, and the newest that the package has.
VERSIONS = ("1.34", kubernetes_validate.latest_version())


def read(path: str) -> list:
    with open(path, encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


resources = read(sys.argv[1])
for path in sys.argv[2:]:
    (patch,) = read(path)
    resources[-1] = jsonpatch.apply_patch(resources[-1], patch)
for resource in resources:
    for version in VERSIONS:
        kubernetes_validate.validate(resource, version, strict=True)
json.dump(resources, sys.stdout)
