package app

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// EndingFlags say how an attempt ended, in one of three ways.
type EndingFlags struct {
	Evidence  string   `group:"How the attempt ended" help:"How far it got: not_sent, sent_no_response, response_received, partial_response."`
	Stage     string   `group:"How the attempt ended" help:"The stage at which it failed: dns, connect, tls, pool_timeout, request_write, connection_reset ..."`
	Details   string   `group:"How the attempt ended" help:"Envoy's %RESPONSE_CODE_DETAILS%."`
	WireBytes *uint64  `group:"How the attempt ended" placeholder:"N" help:"With --details: %UPSTREAM_WIRE_BYTES_SENT%."`
	Tries     *uint64  `group:"How the attempt ended" placeholder:"N" help:"With --details: %UPSTREAM_REQUEST_ATTEMPT_COUNT%."`
	Transport string   `group:"How the attempt ended" help:"With --details: %UPSTREAM_TRANSPORT_FAILURE_REASON%."`
	Status    uint32   `group:"How the attempt ended" placeholder:"CODE" help:"The answer's status. Alone, it is the upstream's own whole answer."`
	Header    []string `group:"How the attempt ended" sep:"none" placeholder:"NAME:VALUE" help:"A header line of the answer; Retry-After and Date count."`
	Permanent string   `group:"How the attempt ended" help:"A category that no further attempt cures: certificate, no_route ..."`
}

func (e EndingFlags) message() (*retryv1.Ending, error) {
	headers, err := e.headers()
	if err != nil {
		return nil, err
	}
	switch {
	case e.Details != "" && (e.Evidence != "" || e.Stage != "" || e.Permanent != ""):
		return nil, badArgumentf("--details: it says by itself what --evidence, --stage and --permanent would")
	case e.Evidence != "" && e.Stage != "":
		return nil, badArgumentf("--stage: it says by itself what --evidence would")
	case e.Details == "" && (e.WireBytes != nil || e.Tries != nil || e.Transport != ""):
		return nil, badArgumentf("--details: it is missing, and --wire-bytes, --tries and --transport mean nothing without it")
	case e.Details != "":
		return &retryv1.Ending{Ending: &retryv1.Ending_Envoy{Envoy: &retryv1.EnvoyReply{
			Details: e.Details, WireBytesSent: e.WireBytes, UpstreamAttemptCount: e.Tries,
			TransportFailureReason: e.Transport, Status: e.Status, Headers: headers,
		}}}, nil
	case e.Evidence != "" || e.Stage != "" || e.Permanent != "":
		return e.observation(headers)
	case e.Status != 0:
		return &retryv1.Ending{Ending: &retryv1.Ending_Http{Http: &retryv1.HttpResponse{Status: e.Status, Headers: headers}}}, nil
	}
	return new(retryv1.Ending), nil
}

func (e EndingFlags) observation(headers []*retryv1.Header) (*retryv1.Ending, error) {
	permanent, err := enum[retryv1.PermanentCategory]("permanent", "PERMANENT_CATEGORY_", e.Permanent, retryv1.PermanentCategory_value)
	if err != nil {
		return nil, err
	}
	o := &retryv1.Observation{Status: e.Status, Permanent: permanent}
	if e.Stage != "" {
		stage, err := enum[retryv1.Stage]("stage", "STAGE_", e.Stage, retryv1.Stage_value)
		if err != nil {
			return nil, err
		}
		o.Reach = &retryv1.Observation_Stage{Stage: stage}
	} else {
		evidence, err := enum[retryv1.Evidence]("evidence", "EVIDENCE_", e.Evidence, retryv1.Evidence_value)
		if err != nil {
			return nil, err
		}
		o.Reach = &retryv1.Observation_Evidence{Evidence: evidence}
	}
	for _, h := range headers {
		switch strings.ToLower(h.GetName()) {
		case "retry-after":
			o.RetryAfter = append(o.RetryAfter, h.GetValue())
		case "date":
			o.Date = h.GetValue()
		}
	}
	return &retryv1.Ending{Ending: &retryv1.Ending_Observation{Observation: o}}, nil
}

func (e EndingFlags) headers() ([]*retryv1.Header, error) {
	var headers []*retryv1.Header
	for _, line := range e.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, badArgumentf("--header: %q is not NAME:VALUE", line)
		}
		headers = append(headers, &retryv1.Header{Name: name, Value: strings.TrimSpace(value)})
	}
	return headers, nil
}

// FactFlags are the rest of what is known when an attempt has ended.
type FactFlags struct {
	Upstream     string         `group:"The request" help:"The upstream's name: with Envoy, its cluster. Without one there is no budget, and so no retry."`
	Method       string         `group:"The request" help:"The method."`
	Path         string         `group:"The request" help:"The path, with its query."`
	Operation    string         `group:"The request" placeholder:"NAME" help:"The name of a declared route_operation."`
	Class        string         `group:"The request" help:"The class, if it is stricter than declared: non_idempotent, idempotent_with_key, idempotent, safe."`
	Key          []string       `group:"The request" sep:"none" help:"An idempotency-key line."`
	Body         string         `group:"The request" help:"What the body is made of: none, bytes, codec, file, supplier, stream, publisher ... Where it is not said, it cannot be sent again."`
	Attempt      uint32         `group:"What is known besides" default:"1" help:"This attempt's number; 0 is not known."`
	Executed     string         `group:"What is known besides" placeholder:"WORD" help:"What the decision before said of execution: not_executed, executed. Where it is not said, unknown."`
	Certainty    string         `group:"What is known besides" placeholder:"WORD" help:"What the decision before said of certainty: certain, uncertain."`
	PreviousWait *time.Duration `group:"What is known besides" placeholder:"TIME" help:"The wait before this attempt."`
	Delivery     string         `group:"What is known besides" help:"Whether a byte of the answer has reached the caller: not_delivered, delivered. Where it is not said, an answer has."`
	Deadline     string         `group:"What is known besides" placeholder:"TIME" help:"The time that is left, such as 1.5s; none where there is no deadline. Where it is not said, nothing is left."`
	MaxWait      *time.Duration `group:"What is known besides" placeholder:"TIME" help:"The longest wait that the caller can hold."`
	EarlyData    string         `group:"What is known besides" help:"Whether the client sent TLS early data: not_sent, sent."`
	Credential   string         `group:"What is known besides" help:"With a 401: not_ours, refreshable, refreshed."`
}

func (f FactFlags) message(ending *retryv1.Ending) (*retryv1.Facts, error) {
	m := &retryv1.Facts{
		Upstream: f.Upstream,
		Call: &retryv1.Call{
			Method: f.Method, Path: f.Path, RouteOperation: f.Operation, IdempotencyKeys: f.Key,
		},
		Body: new(retryv1.Body), Attempt: f.Attempt, Earlier: new(retryv1.Earlier), Ending: ending,
	}
	var errs [7]error
	m.Call.Idempotency, errs[0] = enum[retryv1.Idempotency]("class", "IDEMPOTENCY_", f.Class, retryv1.Idempotency_value)
	m.Body.Kind, errs[1] = enum[retryv1.BodyKind]("body", "BODY_KIND_", f.Body, retryv1.BodyKind_value)
	m.Earlier.Execution, errs[2] = enum[retryv1.Execution]("executed", "EXECUTION_", f.Executed, retryv1.Execution_value)
	m.Earlier.Certainty, errs[3] = enum[retryv1.Certainty]("certainty", "CERTAINTY_", f.Certainty, retryv1.Certainty_value)
	m.Delivery, errs[4] = enum[retryv1.Delivery]("delivery", "DELIVERY_", f.Delivery, retryv1.Delivery_value)
	m.EarlyData, errs[5] = enum[retryv1.EarlyData]("early-data", "EARLY_DATA_", f.EarlyData, retryv1.EarlyData_value)
	m.Credential, errs[6] = enum[retryv1.Credential]("credential", "CREDENTIAL_", f.Credential, retryv1.Credential_value)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if f.PreviousWait != nil {
		m.PreviousWait = durationpb.New(*f.PreviousWait)
	}
	if f.MaxWait != nil {
		m.MaxWait = durationpb.New(*f.MaxWait)
	}
	switch f.Deadline {
	case "":
	case "none":
		m.Deadline = &retryv1.Facts_NoDeadline{NoDeadline: new(emptypb.Empty)}
	default:
		left, err := time.ParseDuration(f.Deadline)
		if err != nil {
			return nil, badArgumentf("--deadline: %q is neither a time such as 1.5s nor none", f.Deadline)
		}
		m.Deadline = &retryv1.Facts_Remaining{Remaining: durationpb.New(left)}
	}
	return m, nil
}
