package decisionapi

import (
	"errors"
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

const (
	maxBodyDepth = 8
	maxBodies    = 100
	// maxViolations bounds an error: the reader of a longer list has lost anyway.
	maxViolations = 20
)

// validate checks the rules that the schema states. An error is INVALID_ARGUMENT with a BadRequest that
// names the fields.
func validate(m proto.Message) error {
	if f, ok := m.(interface{ GetFacts() *retryv1.Facts }); ok {
		if err := validateBody(f.GetFacts().GetBody()); err != nil {
			return err
		}
		if requestIDOK(m) && wellFormed(f.GetFacts()) {
			return nil
		}
	}
	if err := validateTimes(m); err != nil {
		return err
	}
	return validateRules(m)
}

func requestIDOK(m proto.Message) bool {
	d, ok := m.(*retryv1.DecideRequest)
	return !ok || len(d.GetRequestId()) <= 256 && printable(d.GetRequestId())
}

// validateRules evaluates the rules that stand in the schema.
func validateRules(m proto.Message) error {
	err := protovalidate.Validate(m)
	if err == nil {
		return nil
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) { // a rule that cannot be evaluated, such as for a duration out of range
		return malformed("", err.Error())
	}
	bad := new(errdetails.BadRequest)
	for _, v := range invalid.Violations[:min(len(invalid.Violations), maxViolations)] {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field:       protovalidate.FieldPathString(v.Proto.GetField()),
			Description: v.Proto.GetMessage(),
		})
	}
	return badRequest(bad)
}

// validateTimes refuses durations and times that are none (nanoseconds out of range or of the other
// sign), on which the schema's own rules say nothing.
func validateTimes(m proto.Message) error {
	switch m := m.(type) {
	case interface{ GetFacts() *retryv1.Facts }:
		f := m.GetFacts()
		return errors.Join(
			validDuration("facts.previous_wait", f.GetPreviousWait()),
			validDuration("facts.remaining", f.GetRemaining()),
			validDuration("facts.max_wait", f.GetMaxWait()))
	case *retryv1.BudgetServiceWatchRequest:
		return validDuration("every", m.GetEvery())
	case interface{ GetFilter() *retryv1.CaseFilter }:
		return errors.Join(
			validTime("filter.since", m.GetFilter().GetSince()),
			validTime("filter.until", m.GetFilter().GetUntil()))
	}
	return nil
}

func validDuration(field string, d *durationpb.Duration) error {
	if d == nil || d.IsValid() {
		return nil
	}
	return malformed(field, d.CheckValid().Error())
}

func validTime(field string, t *timestamppb.Timestamp) error {
	if t == nil || t.IsValid() {
		return nil
	}
	return malformed(field, t.CheckValid().Error())
}

// text is what protobuf takes for a string: what a client sent may be any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// malformed is INVALID_ARGUMENT for one field, "" for the whole message.
func malformed(field, description string) error {
	return badRequest(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: field, Description: description},
	}})
}

func badRequest(bad *errdetails.BadRequest) error {
	var text []string
	for _, v := range bad.GetFieldViolations() {
		if v.GetField() == "" {
			text = append(text, v.GetDescription())
		} else {
			text = append(text, v.GetField()+": "+v.GetDescription())
		}
	}
	s := status.New(codes.InvalidArgument, strings.ToValidUTF8(strings.Join(text, "; "), "?"))
	if detailed, err := s.WithDetails(bad); err == nil {
		s = detailed
	}
	return s.Err()
}

// validateBody bounds the tree of parts before anything walks over all of it.
func validateBody(b *retryv1.Body) error {
	if b == nil || len(b.Parts) == 0 {
		return nil
	}
	left := maxBodies
	field, ok := walkBody(b, "facts.body", maxBodyDepth, &left)
	if ok {
		return nil
	}
	return malformed(field, fmt.Sprintf("more than %d bodies in all, or more than %d deep", maxBodies, maxBodyDepth))
}

// walkBody returns the path of the first body that is too much.
func walkBody(b *retryv1.Body, field string, depth int, left *int) (string, bool) {
	if b == nil {
		return "", true
	}
	*left--
	if depth == 0 || *left < 0 {
		return field, false
	}
	for i, part := range b.GetParts() {
		if at, ok := walkBody(part, fmt.Sprintf("%s.parts[%d]", field, i), depth-1, left); !ok {
			return at, false
		}
	}
	return "", true
}
