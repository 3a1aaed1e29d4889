"""Rules for requests that a JSON schema cannot say.

A request that is meant to be valid is made to follow them, so that it has to be accepted. One that is meant to be wrong
stays as it is, except that no request makes the server connect to another machine or wait for a minute.
"""

import itertools
import json
import os

import schemathesis
from schemathesis import GenerationMode
from schemathesis.generation.meta import TestPhase

RECEIVER = "https://127.0.0.1:9/hook"

# Values of path parameters that exist on the server, by the parameter's name.
SEEDED = json.loads(os.environ["RECADO_SEEDED"])
TURNS = itertools.count()


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(ctx, case, **kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    if isinstance(body.get("url"), str) and "://" in body["url"]:
        body["url"] = RECEIVER
    if isinstance(body.get("waitMs"), (int, float)):
        body["waitMs"] = min(body["waitMs"], 1)
    if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
        # The stateful phase goes on with what it made itself.
        if case.meta.phase.name != TestPhase.STATEFUL:
            point_at_what_exists(case)
        follow_the_rules(case.operation.path, case.query or {}, body)


def point_at_what_exists(case):
    """Three of four requests are about something that is there."""
    for name in case.path_parameters or {}:
        turn = next(TURNS)
        if name in SEEDED and turn % 4:
            case.path_parameters[name] = SEEDED[name][turn % len(SEEDED[name])]


def follow_the_rules(path, query, body):
    # A cursor comes from the page before.
    query.pop("cursor", None)
    # The padding of a secret, and that an id is not all zeros, is more than a pattern says.
    body.pop("secret", None)
    body.pop("traceparent", None)
    if "route" in body:
        body["route"] = "sandbox"
    if "routes" in body:
        body["routes"] = ["work"]
    # A route checks the data of its jobs, and a time lies within a year.
    if "data" in body:
        body["data"] = {"script": ["ok"]}
    body.pop("runAt", None)
    body.pop("original", None)
    # Exactly one id names a person.
    if "subject" in body:
        body["subject"] = {"userId": "u-404"}
    # A discard needs a reason and has no canary.
    if path == "/v1/dlq/discard":
        body.pop("canary", None)
        body["reason"] = "a test"
