# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documents against the schemas of the repository, by the words of JSON Schema that the schemas of this library use. Another word is refused."""

import json

from conftest import REPOSITORY

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
WORDS = {"$defs", "$ref", "$schema", "additionalProperties", "const", "description", "format", "items", "minimum", "properties", "required", "title", "type"}


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def objections(value, schema, whole, place="$"):
    """What the schema has against the value."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    assert schema.keys() <= WORDS, schema.keys() - WORDS
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(is_of(value, name) for name in names):
        return [f"{place}: {value!r} is not of type {names}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{place}: {value!r} is not {schema['const']!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{place}: {value!r} is below {schema['minimum']}")
    if isinstance(value, dict):
        found += [f"{place}: lacks {name}" for name in schema.get("required", ()) if name not in value]
        known = schema.get("properties", {})
        for name, one in value.items():
            of = known.get(name, schema.get("additionalProperties"))
            # What this library writes is in its schema, although a reader accepts more.
            found += [f"{place}: {name} is unknown"] if of is None else objections(one, of, whole, f"{place}.{name}")
    if isinstance(value, list):
        for at, one in enumerate(value):
            found += objections(one, schema["items"], whole, f"{place}[{at}]")
    return found


def assert_follows(text, name):
    """The document follows ``schema/NAME.schema.json``, and damaged ones do not."""
    schema = json.loads((REPOSITORY / f"schema/{name}.schema.json").read_text())
    assert schema["properties"]["schema"]["const"] == f"latebound.{name}/1"
    document = json.loads(text)
    assert objections(document, schema, schema) == []
    assert set(document) == set(schema["properties"])
    for field in document:
        assert objections({**document, field: True}, schema, schema) != [], field
        assert objections({key: one for key, one in document.items() if key != field}, schema, schema) != [], field
