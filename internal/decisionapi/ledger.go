package decisionapi

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
)

// defaultPage is how many cases List sends where the caller does not say.
const defaultPage = 100

// Cases serves retry.v1.LedgerService.
type Cases struct {
	retryv1.UnimplementedLedgerServiceServer

	Ledger ledger.Ledger
}

// Get is documented at retryv1.LedgerServiceServer, as are the others.
func (s *Cases) Get(ctx context.Context, req *retryv1.LedgerServiceGetRequest) (*retryv1.LedgerServiceGetResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	c, err := s.Ledger.Get(ctx, req.GetCaseId())
	if err != nil {
		return nil, ledgerError(err)
	}
	return &retryv1.LedgerServiceGetResponse{Case: c}, nil
}

func (s *Cases) List(ctx context.Context, req *retryv1.LedgerServiceListRequest) (*retryv1.LedgerServiceListResponse, error) {
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
	page, err := s.Ledger.List(ctx, filter(req.GetFilter()), before, limit)
	if err != nil {
		return nil, ledgerError(err)
	}
	resp := &retryv1.LedgerServiceListResponse{Lost: page.Lost}
	for _, c := range page.Cases {
		resp.Cases = append(resp.Cases, brief(c))
	}
	if page.Next != 0 {
		resp.NextPageToken = strconv.FormatUint(page.Next, 10)
	}
	return resp, nil
}

func (s *Cases) Watch(req *retryv1.LedgerServiceWatchRequest, stream grpc.ServerStreamingServer[retryv1.LedgerServiceWatchResponse]) error {
	if err := validate(req); err != nil {
		return err
	}
	return ledgerError(s.Ledger.Watch(stream.Context(), filter(req.GetFilter()), func(c *ledger.Case, missed uint64) error {
		return stream.Send(&retryv1.LedgerServiceWatchResponse{Case: brief(c), Missed: missed})
	}))
}

func (s *Cases) Resolve(ctx context.Context, req *retryv1.LedgerServiceResolveRequest) (*retryv1.LedgerServiceResolveResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	c, err := s.Ledger.Resolve(ctx, req.GetCaseId(), req.GetState(), req.GetNote())
	if err != nil {
		return nil, ledgerError(err)
	}
	return &retryv1.LedgerServiceResolveResponse{Case: c}, nil
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
	f := ledger.Filter{Upstream: m.GetUpstream(), Operation: m.GetOperation(), State: m.GetState()}
	if m.GetSince() != nil {
		f.Since = m.GetSince().AsTime()
	}
	if m.GetUntil() != nil {
		f.Until = m.GetUntil().AsTime()
	}
	return f
}

// brief is a case without facts and ladder, which are the larger part of it.
func brief(c *ledger.Case) *retryv1.Case {
	c = proto.CloneOf(c)
	c.Facts, c.Rules = nil, nil
	return c
}

// ledgerError is the status that an error of the ledger comes to; one that has a status keeps it.
func ledgerError(err error) error {
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, ledger.ErrUnavailable):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, ledger.ErrDamaged):
		return status.Error(codes.DataLoss, err.Error())
	}
	return err
}
