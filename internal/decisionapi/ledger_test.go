package decisionapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/decision"
)

func TestLedgerService(t *testing.T) {
	l := newLab(t)
	ctx := within(t)
	l.Enter(ledger.Entry{
		CaseID: "c-1", RequestID: "r-\xff", Upstream: "app", Operation: "pay", Method: "POST", Path: "/pay", Key: "k",
		Attempts: 2, Cause: "reset", Decision: decision.Decision{
			Verdict: decision.Ambiguous, Reason: decision.ReasonSentNoResponse, Evidence: decision.SentNoResponse, Uncertain: true,
		},
	})
	got, err := l.cases.Get(ctx, &retryv1.LedgerServiceGetRequest{CaseId: "c-1"})
	if err != nil {
		t.Fatal(err)
	}
	want := &retryv1.Case{
		CaseId: "c-1", State: retryv1.CaseState_CASE_STATE_OPEN, RequestId: "r-\uFFFD", Upstream: "app", Operation: "pay",
		Method: "POST", Path: "/pay", IdempotencyKey: "k", Attempts: 2, Cause: "reset",
		Evidence: retryv1.Evidence_EVIDENCE_SENT_NO_RESPONSE, Verdict: retryv1.Verdict_VERDICT_AMBIGUOUS, Reason: retryv1.Reason_REASON_SENT_NO_RESPONSE,
	}
	if diff := cmp.Diff(want, got.GetCase(), protocmp.Transform(), protocmp.IgnoreFields(want, "time")); diff != "" {
		t.Error(diff)
	}
	if age := time.Since(got.GetCase().GetTime().AsTime()); age < 0 || age > time.Minute {
		t.Errorf("entered %v ago", age)
	}

	for _, id := range []string{"c-2", "c-3", "c-4"} {
		l.Enter(ledger.Entry{CaseID: id})
	}
	page, err := l.cases.List(ctx, &retryv1.LedgerServiceListRequest{PageSize: 2})
	if err != nil || len(page.GetCases()) != 2 || page.GetCases()[0].GetCaseId() != "c-4" || page.GetLost() != 1 {
		t.Fatalf("%v, %v", page, err)
	}
	page, err = l.cases.List(ctx, &retryv1.LedgerServiceListRequest{PageSize: 2, PageToken: page.GetNextPageToken()})
	if err != nil || len(page.GetCases()) != 1 || page.GetCases()[0].GetCaseId() != "c-2" || page.GetNextPageToken() != "" {
		t.Fatalf("%v, %v", page, err)
	}

	resolved, err := l.cases.Resolve(ctx, &retryv1.LedgerServiceResolveRequest{CaseId: "c-3", State: retryv1.CaseState_CASE_STATE_EXECUTED, Note: "asked"})
	if c := resolved.GetCase(); err != nil || c.GetState() != retryv1.CaseState_CASE_STATE_EXECUTED || c.GetNote() != "asked" || c.GetResolved() == nil {
		t.Errorf("%v, %v", resolved, err)
	}
	only, err := l.cases.List(ctx, &retryv1.LedgerServiceListRequest{Filter: &retryv1.CaseFilter{State: retryv1.CaseState_CASE_STATE_EXECUTED}})
	if err != nil || len(only.GetCases()) != 1 {
		t.Errorf("%v, %v", only, err)
	}
	if _, err := l.cases.Get(ctx, &retryv1.LedgerServiceGetRequest{CaseId: "c-1"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if _, err := l.cases.Resolve(ctx, &retryv1.LedgerServiceResolveRequest{CaseId: "c-1", State: 2}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

func TestLedgerServiceMalformed(t *testing.T) {
	l := newLab(t)
	ctx := within(t)
	_, err := l.cases.Get(ctx, nil)
	wantField(t, err, "case_id")
	_, err = l.cases.Resolve(ctx, &retryv1.LedgerServiceResolveRequest{CaseId: "c", State: retryv1.CaseState_CASE_STATE_OPEN})
	wantField(t, err, "state")
	_, err = l.cases.List(ctx, &retryv1.LedgerServiceListRequest{PageSize: 1001})
	wantField(t, err, "page_size")
	for _, token := range []string{"x", "0", "99999999999999999999"} {
		_, err = l.cases.List(ctx, &retryv1.LedgerServiceListRequest{PageToken: token})
		wantField(t, err, "page_token")
	}
	_, err = l.cases.List(ctx, &retryv1.LedgerServiceListRequest{Filter: &retryv1.CaseFilter{Since: &timestamppb.Timestamp{Nanos: -1}}})
	wantField(t, err, "filter.since")
	stream, err := l.cases.Watch(ctx, &retryv1.LedgerServiceWatchRequest{Filter: &retryv1.CaseFilter{State: 9}})
	if err == nil {
		_, err = stream.Recv()
	}
	wantField(t, err, "filter.state")
}

func TestLedgerServiceWatch(t *testing.T) {
	l := newLab(t)
	stream, err := l.cases.Watch(within(t), &retryv1.LedgerServiceWatchRequest{Filter: &retryv1.CaseFilter{Upstream: "app"}})
	if err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	defer close(entered)
	go func() { // until the watcher is there
		for n := 0; ; n++ {
			l.Enter(ledger.Entry{CaseID: "other"})
			l.Enter(ledger.Entry{CaseID: "c", Upstream: "app", Attempts: n})
			select {
			case <-entered:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	m, err := stream.Recv()
	if err != nil || m.GetCase().GetCaseId() != "c" || m.GetMissed() != 0 {
		t.Errorf("%v, %v", m, err)
	}
}
