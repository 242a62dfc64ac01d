"""Checks objects for kubectl, a file of them on standard input. Prints the kind of each object on standard error and the
plan of the ConfigMap on standard output. A field that a schema does not have is an error, as `kubectl --validate=strict`
sees it.

Kinds of Kubernetes are checked against its own schemas, from the package kubernetes-validate. Kinds of Kubeflow are checked
against `kubeflow.json` beside this file, and also against each definition (CRD) below the folders in the arguments.
"""

import json
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml
from referencing import Registry, Resource

VERSION = kubernetes_validate.latest_version()
SCHEMAS = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
DEFINITIONS = SCHEMAS / f"v{VERSION}-local-strict" / "_definitions.json"


def kubeflow_validators():
    """The validator of each kind, by apiVersion and kind."""
    definitions = json.loads(DEFINITIONS.read_text())
    registry = Resource.from_contents(definitions) @ Registry()
    own = json.loads(pathlib.Path(__file__).with_name("kubeflow.json").read_text())
    # References to them have no host.
    base = definitions["$id"].rsplit("/", 1)[0] + "/"
    validator = jsonschema.Draft202012Validator
    return {
        tuple(schema["$comment"].split()): validator(
            {**schema, "$id": base + schema["$comment"], "$defs": own["$defs"]}, registry=registry
        )
        for schema in own["kinds"]
    }


def strict(schema):
    """A schema of a definition in which unknown fields are errors: the server drops them, or refuses them if asked."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: strict(member) for name, member in schema.items()}
    if isinstance(result.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    return result


def definition_validators(folders):
    """The validators of all definitions in these folders, by apiVersion and kind."""
    found = {}
    files = (path for folder in folders for path in sorted(pathlib.Path(folder).rglob("*.yaml")))
    for path in files:
        text = path.read_text()
        if "kind: CustomResourceDefinition" not in text or "{{" in text:
            continue
        for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if not document or document.get("kind") != "CustomResourceDefinition":
                continue
            spec = document["spec"]
            for version in spec.get("versions", []):
                schema = version.get("schema", {}).get("openAPIV3Schema")
                if schema:
                    schema = strict(schema)
                    schema["properties"]["metadata"] = {"type": "object"}
                    name = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    found.setdefault(name, []).append((path, jsonschema.Draft202012Validator(schema)))
    return found


def refused_mutants(validator, thing):
    """How many objects with a field that nobody knows are refused, one for each place of a field; fails if one is not.

    Amounts of resources have any name."""
    count, todo = 0, [thing]
    while todo:
        here = todo.pop()
        if isinstance(here, list):
            todo.extend(here)
        elif isinstance(here, dict):
            todo.extend(member for name, member in here.items() if name not in ("metadata", "limits", "requests"))
            here["unknownField"] = 1
            if validator.is_valid(thing):
                raise SystemExit(f"an unknown field is not refused beside {sorted(here)}")
            del here["unknownField"]
            count += 1
    return count


def main():
    kubeflow, definitions = kubeflow_validators(), definition_validators(sys.argv[1:])
    plan = None
    for thing in yaml.safe_load_all(sys.stdin):
        name = (thing["apiVersion"], thing["kind"])
        if name in kubeflow:
            kubeflow[name].validate(thing)
            refused = refused_mutants(kubeflow[name], thing)
            for path, validator in definitions.get(name, []):
                validator.validate(thing)
                refused_mutants(validator, thing)
                print(f"# {thing['kind']} fits {path}", file=sys.stderr)
            print(f"# unknown fields refused: {refused}", file=sys.stderr)
        else:
            kubernetes_validate.validate(thing, VERSION, strict=True)
        print(thing["kind"], file=sys.stderr)
        plan = thing.get("data", {}).get("plan.yaml", plan)
    sys.stdout.write(plan or "")


main()
