"""Sends, reads and replays jobs with the client that `openapi-python-client` generated from the API document."""

import sys
import time

from generated import Client
from generated.api.dead_letters import list_dead_letters, replay_dead_letter
from generated.api.jobs import enqueue_job, get_job
from generated.models import (
    JobAccepted,
    JobRequest,
    JobView,
    Problem,
    ProblemCode,
    ReplayRequest,
    ReplayStarted,
    Status,
)

PATIENCE_S = 30

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)


def send(job_id, script):
    job = JobRequest(job_id=job_id, route="sandbox", company_id="python", data={"script": script}, ttl_ms=60_000)
    accepted = enqueue_job.sync(client=client, body=job)
    assert isinstance(accepted, JobAccepted), accepted
    assert accepted.job_id == job_id and accepted.duplicate is False, accepted


def once(job_id, status):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        job = get_job.sync(job_id, client=client)
        assert isinstance(job, JobView), job
        if job.status == status:
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.05)


send("python-1", ["503 busy", "ok"])
first, second = once("python-1", Status.SENT).attempts
assert (first.blame, first.error_code) == ("provider", "503"), first
assert (second.blame, second.error_classification, second.error_code) == (None, None, None), second

send("python-2", ["550 no such user"])
once("python-2", Status.FAILED)
(entry,) = list_dead_letters.sync(client=client, company_id="python", limit=10).items
assert (entry.job_id, entry.original_data) == ("python-2", {"script": ["550 no such user"]}), entry
replay = replay_dead_letter.sync("python-2", client=client, body=ReplayRequest(data={"script": ["ok"]}))
assert isinstance(replay, ReplayStarted), replay
assert once("python-2", Status.SENT).replays == 1

refused = enqueue_job.sync(client=client, body=JobRequest(route="nowhere", company_id="python", data=None))
assert isinstance(refused, Problem) and refused.code == ProblemCode.VALIDATION_FAILED, refused
assert [fault.pointer for fault in refused.errors] == ["/route"], refused
print("done")
