"""A client as another program would write it: generated code, a small table, and an error's details.

decide.py ADDRESS, with the generated modules on PYTHONPATH.
"""

import sys

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from retry.v1 import budget_pb2, budget_pb2_grpc, decision_pb2, decision_pb2_grpc

GET = {"method": "GET", "path": "/"}
POST = {"method": "POST", "path": "/pay"}


def facts(call, ending, **more):
    given = {
        "upstream": "app",
        "call": call,
        "body": {"kind": "BODY_KIND_BYTES"},
        "attempt": 1,
        "delivery": "DELIVERY_NOT_DELIVERED",
        "remaining": "5s",
        "ending": ending,
    }
    given.update(more)
    return json_format.ParseDict({k: v for k, v in given.items() if v is not None}, decision_pb2.Facts())


def stage(name):
    return {"observation": {"stage": "STAGE_" + name}}


def status(code, **headers):
    return {"http": {"status": code, "headers": [{"name": n.replace("_", "-"), "value": v} for n, v in headers.items()]}}


# facts, verdict, reason, certainty
TABLE = [
    (facts(POST, stage("CONNECT")), "RETRY", "UNSPECIFIED", "CERTAIN"),
    (facts(POST, stage("CONNECTION_RESET")), "AMBIGUOUS", "SENT_NO_RESPONSE", "UNCERTAIN"),
    (facts(GET, stage("CONNECTION_RESET")), "RETRY", "UNSPECIFIED", "CERTAIN"),
    (facts(POST, status(503)), "AMBIGUOUS", "GATEWAY_STATUS", "UNCERTAIN"),
    (facts(POST, status(429, retry_after="1")), "RETRY", "UNSPECIFIED", "CERTAIN"),
    (facts(POST, status(429, Retry_After="3600")), "DENIED", "RETRY_AFTER_TOO_LONG", "CERTAIN"),
    (facts(GET, status(404)), "DENIED", "STATUS_NOT_RETRYABLE", "CERTAIN"),
    (facts(GET, status(200)), "COMPLETE", "UNSPECIFIED", "CERTAIN"),
    (facts(GET, stage("DNS"), body={"kind": "BODY_KIND_STREAM"}), "DENIED", "BODY_NOT_REPLAYABLE", "CERTAIN"),
    (facts(GET, stage("DNS"), attempt=3), "DENIED", "MAX_ATTEMPTS", "CERTAIN"),
    (facts(GET, stage("DNS"), remaining=None), "DENIED", "DEADLINE", "CERTAIN"),
    (
        facts(POST, {"envoy": {"details": "no_healthy_upstream", "wireBytesSent": "0", "upstreamAttemptCount": "1"}}),
        "RETRY", "UNSPECIFIED", "CERTAIN",
    ),
    (facts(POST, {"envoy": {"details": "no_healthy_upstream"}}), "AMBIGUOUS", "SENT_NO_RESPONSE", "UNCERTAIN"),
    (decision_pb2.Facts(), "DENIED", "MAX_ATTEMPTS", "UNCERTAIN"),
]


def main(address):
    wrong = 0
    with grpc.insecure_channel(address) as channel:
        decisions = decision_pb2_grpc.DecisionServiceStub(channel)
        budgets = budget_pb2_grpc.BudgetServiceStub(channel)
        budgets.Deposit(budget_pb2.DepositRequest(deposits=[budget_pb2.Deposit(upstream="app", first_attempts=20)]))
        retries = 0
        for given, verdict, reason, certainty in TABLE:
            answer = decisions.Decide(decision_pb2.DecideRequest(facts=given))
            d = answer.decision
            got = (
                decision_pb2.Verdict.Name(d.verdict).removeprefix("VERDICT_"),
                decision_pb2.Reason.Name(d.reason).removeprefix("REASON_"),
                decision_pb2.Certainty.Name(d.certainty).removeprefix("CERTAINTY_"),
            )
            if got != (verdict, reason, certainty):
                wrong += 1
                print("got", got, "want", (verdict, reason, certainty), "for", given)
            if verdict == "RETRY":
                retries += 1
                budgets.Return(budget_pb2.ReturnRequest(grant=answer.grant))
        account = budgets.Get(budget_pb2.BudgetServiceGetRequest(upstream="app")).account
        if account.first_attempts != 20 or account.retries != 0 or retries == 0:
            wrong += 1
            print("account", account)
        try:
            decisions.Decide(decision_pb2.DecideRequest(facts=decision_pb2.Facts(attempt=1000001)))
            wrong += 1
            print("attempt 1000001 was decided on")
        except grpc.RpcError as error:
            bad = error_details_pb2.BadRequest()
            rpc_status.from_call(error).details[0].Unpack(bad)
            if error.code() != grpc.StatusCode.INVALID_ARGUMENT or bad.field_violations[0].field != "facts.attempt":
                wrong += 1
                print(error.code(), bad)
    print(len(TABLE), "decided,", wrong, "wrong")
    return wrong != 0


sys.exit(main(sys.argv[1]))
