package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// maxRequest bounds a call in bytes.
const maxRequest = 1 << 20

// call is a method of the gRPC API, asked in protobuf's JSON form.
type call func(ctx context.Context, request []byte) (proto.Message, error)

// calls are the methods that the page uses. Decide, Withdraw and their like, which take tokens, are not
// among them.
func calls(o Options) map[string]call {
	return map[string]call{
		"retry.v1.DecisionService/Explain":      unary(o.Decisions.Explain),
		"retry.v1.LedgerService/Get":            unary(o.Ledger.Get),
		"retry.v1.LedgerService/List":           unary(o.Ledger.List),
		"retry.v1.LedgerService/Resolve":        unary(o.Ledger.Resolve),
		"retry.v1.AdminService/DrainUpstream":   unary(o.Admin.DrainUpstream),
		"retry.v1.AdminService/UndrainUpstream": unary(o.Admin.UndrainUpstream),
		"retry.v1.AdminService/SetKillSwitch":   unary(o.Admin.SetKillSwitch),
		"retry.v1.AdminService/Why":             unary(o.Admin.Why),
	}
}

func unary[Q any, Req interface {
	*Q
	proto.Message
}, Resp proto.Message](method func(context.Context, Req) (Resp, error)) call {
	return func(ctx context.Context, request []byte) (proto.Message, error) {
		req := Req(new(Q))
		if err := protojson.Unmarshal(request, req); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		return method(ctx, req)
	}
}

func (c *Console) call(w http.ResponseWriter, r *http.Request) {
	method, ok := c.calls[r.PathValue("service")+"/"+r.PathValue("method")]
	if !ok {
		refuse(w, http.StatusNotFound, "there is no such call")
		return
	}
	in := http.NewResponseController(w)
	in.SetReadDeadline(time.Now().Add(c.stalled)) // a body that does not come holds nobody
	request, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		refuse(w, http.StatusRequestEntityTooLarge, "the request is too large")
		return
	} else if err != nil {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusRequestTimeout, "the request did not arrive") // if anybody is there to hear it
		return
	}
	in.SetReadDeadline(time.Time{})
	resp, err := method(asCaller(r), request)
	if err != nil {
		answerError(w, status.Convert(err))
		return
	}
	text, err := protojson.Marshal(resp)
	if err != nil {
		answerError(w, status.New(codes.Internal, "the answer cannot be written as JSON"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// asCaller says who calls as gRPC does, for the service's log.
func asCaller(r *http.Request) context.Context {
	caller := &peer.Peer{Addr: remote(r.RemoteAddr)}
	if r.TLS != nil {
		caller.AuthInfo = credentials.TLSInfo{State: *r.TLS}
	}
	return peer.NewContext(r.Context(), caller)
}

type remote string

func (remote) Network() string  { return "tcp" }
func (a remote) String() string { return string(a) }

// failure is what the page shows instead of an answer.
type failure struct {
	Message string       `json:"message"`
	Fields  []fieldFault `json:"fields,omitempty"`
}

type fieldFault struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

var httpStatus = map[codes.Code]int{
	codes.InvalidArgument:   http.StatusBadRequest,
	codes.NotFound:          http.StatusNotFound,
	codes.ResourceExhausted: http.StatusTooManyRequests,
	codes.Unavailable:       http.StatusServiceUnavailable,
	codes.DeadlineExceeded:  http.StatusGatewayTimeout,
	codes.Canceled:          http.StatusServiceUnavailable,
}

func answerError(w http.ResponseWriter, s *status.Status) {
	f := failure{Message: s.Message()}
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, v := range bad.GetFieldViolations() {
				f.Fields = append(f.Fields, fieldFault{v.GetField(), v.GetDescription()})
			}
		}
	}
	code, ok := httpStatus[s.Code()]
	if !ok {
		code = http.StatusInternalServerError
	}
	answerFailure(w, code, f)
}

func refuse(w http.ResponseWriter, code int, words string) {
	answerFailure(w, code, failure{Message: words})
}

func answerFailure(w http.ResponseWriter, code int, f failure) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(f) // a caller that has left hears nothing
}
