package decisionapi

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
)

// defaultPage is how many cases List sends where the caller does not say.
const defaultPage = 100

// Cases serves retry.v1.LedgerService.
type Cases struct {
	retryv1.UnimplementedLedgerServiceServer

	Ledger *ledger.Ledger
}

// Get is documented at retryv1.LedgerServiceServer, as are the others.
func (s *Cases) Get(_ context.Context, req *retryv1.LedgerServiceGetRequest) (*retryv1.LedgerServiceGetResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	c, err := s.Ledger.Get(req.GetCaseId())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &retryv1.LedgerServiceGetResponse{Case: wholeCase(c)}, nil
}

func (s *Cases) List(_ context.Context, req *retryv1.LedgerServiceListRequest) (*retryv1.LedgerServiceListResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	before, err := parsePageToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	limit := int(req.GetPageSize())
	if limit == 0 {
		limit = defaultPage
	}
	cases, more := s.Ledger.List(filter(req.GetFilter()), before, limit)
	resp := new(retryv1.LedgerServiceListResponse)
	for _, c := range cases {
		resp.Cases = append(resp.Cases, caseMessage(c))
	}
	if more {
		resp.NextPageToken = strconv.FormatUint(cases[len(cases)-1].Number, 10)
	}
	_, resp.Lost = s.Ledger.Count()
	return resp, nil
}

func (s *Cases) Watch(req *retryv1.LedgerServiceWatchRequest, stream grpc.ServerStreamingServer[retryv1.LedgerServiceWatchResponse]) error {
	if err := validate(req); err != nil {
		return err
	}
	return s.Ledger.Watch(stream.Context(), filter(req.GetFilter()), func(c *ledger.Case, missed uint64) error {
		return stream.Send(&retryv1.LedgerServiceWatchResponse{Case: caseMessage(c), Missed: missed})
	})
}

func (s *Cases) Resolve(_ context.Context, req *retryv1.LedgerServiceResolveRequest) (*retryv1.LedgerServiceResolveResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	c, err := s.Ledger.Resolve(req.GetCaseId(), ledger.State(req.GetState()), req.GetNote())
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &retryv1.LedgerServiceResolveResponse{Case: wholeCase(c)}, nil
}

// parsePageToken reads the number of the last case of the page before; the schema lets digits pass only.
func parsePageToken(token string) (uint64, error) {
	if token == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(token, 10, 64)
	if err != nil || n == 0 {
		return 0, malformed("page_token", "is none that List has given")
	}
	return n, nil
}

func filter(m *retryv1.CaseFilter) ledger.Filter {
	f := ledger.Filter{Upstream: m.GetUpstream(), Operation: m.GetOperation(), State: ledger.State(m.GetState())}
	if m.GetSince() != nil {
		f.Since = m.GetSince().AsTime()
	}
	if m.GetUntil() != nil {
		f.Until = m.GetUntil().AsTime()
	}
	return f
}

// wholeCase has the facts and the ladder too.
func wholeCase(c *ledger.Case) *retryv1.Case {
	m := caseMessage(c)
	m.Facts, m.Rules = given(&c.Entry), ladder(c.Rules)
	return m
}

func caseMessage(c *ledger.Case) *retryv1.Case {
	m := &retryv1.Case{
		CaseId:         c.CaseID,
		Time:           timestamppb.New(c.Time),
		State:          retryv1.CaseState(c.State),
		Note:           c.Note,
		RequestId:      text(c.RequestID),
		Upstream:       text(c.Upstream),
		Operation:      text(c.Operation),
		Method:         text(c.Method),
		Path:           text(c.Path),
		IdempotencyKey: text(c.Key),
		Attempts:       uint32(max(c.Attempts, 0)),
		Evidence:       retryv1.Evidence(c.Decision.Evidence),
		Execution:      retryv1.Execution(c.Decision.Execution),
		Verdict:        retryv1.Verdict(c.Decision.Verdict),
		Reason:         retryv1.Reason(c.Decision.Reason),
		Cause:          text(c.Cause),
	}
	if !c.Resolved.IsZero() {
		m.Resolved = timestamppb.New(c.Resolved)
	}
	return m
}
