package extproc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/credential"
)

// scriptedSource is a credential source whose tokens, refusals and slowness the script says:
//
//	latest=T1     the token in use; none: there is no token to be had
//	refresh=T2    what a refresh gets; without it a refresh fails
//	takes=100ms   how long Current and Refresh take
//	marks=M       the mark that belongs to every token
type scriptedSource struct {
	latest, next, marks string
	takes               time.Duration
	issued              []string
	calls               []string
}

func newScriptedSource(t *testing.T, args []string) *scriptedSource {
	v := values(args, map[string]string{"latest": "T1", "takes": "0s"})
	return &scriptedSource{latest: v["latest"], next: v["refresh"], marks: v["marks"], takes: duration(t, v["takes"]), issued: []string{v["latest"]}}
}

func (l *lab) credentials(upstream string) CredentialSource {
	if upstream != "app" {
		return nil
	}
	return l.source
}

func (s *scriptedSource) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.takes):
		return nil
	}
}

func (s *scriptedSource) Current(ctx context.Context) (string, error) {
	if err := s.wait(ctx); err != nil {
		return "", err
	}
	if s.latest == "none" {
		return "", errors.New("no token is to be had")
	}
	return "Bearer " + s.latest, nil
}

func (s *scriptedSource) Mark(string) string { return s.marks }

func (s *scriptedSource) RecognizeMarked(authorization, mark string) credential.Origin {
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	switch {
	case bearer && token == s.latest:
		return credential.Latest
	case bearer && s.marks != "" && mark == s.marks:
		return credential.Earlier
	}
	return credential.NotOurs
}

func (s *scriptedSource) Refresh(ctx context.Context, rejected string) error {
	if ctx.Err() != nil {
		s.calls = append(s.calls, "told of "+rejected)
		return ctx.Err()
	}
	s.calls = append(s.calls, "refreshed for "+rejected)
	if err := s.wait(ctx); err != nil {
		return err
	}
	if s.next == "" {
		return errors.New("no other token is to be had")
	}
	s.latest = s.next
	return nil
}
