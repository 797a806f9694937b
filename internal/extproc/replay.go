package extproc

import (
	"context"
	"net/http"
	"time"

	"github.com/verdictproxy/verdict/internal/credential"
	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// CredentialSource issues the credential of an upstream's attempts; *credential.Source says what its
// methods promise.
type CredentialSource interface {
	Current(context.Context) (authorization string, err error)
	Mark(authorization string) string
	RecognizeMarked(authorization, mark string) credential.Origin
	Refresh(ctx context.Context, rejected string) error
}

// ours is the credential of a failed attempt that the upstream's own source has issued, and the upstream
// has answered with 401.
type ours struct {
	source   CredentialSource
	rejected evidence.Credential
}

func (s *Server) credential(upstream string) CredentialSource {
	if s.Credentials == nil {
		return nil
	}
	return s.Credentials(upstream)
}

// identify says what is known of the credential that the upstream has answered with 401. Only one that
// its own source has issued is ever replaced: a client's bad one must not become the service's. Of the
// attempts before the second nothing is remembered, so there it counts as refreshed.
func (j *judge) identify(f *failure, carried evidence.Credential) {
	answered := f.facts.Evidence == decision.ResponseReceived || f.facts.Evidence == decision.PartialResponse
	if !answered || f.facts.Status != http.StatusUnauthorized || carried.Authorization == "" {
		return
	}
	source := j.server.credential(f.Cluster)
	if source == nil || source.RecognizeMarked(carried.Authorization, carried.Mark) == credential.NotOurs {
		return
	}
	f.ours = &ours{source, carried}
	f.facts.Credential = decision.CredentialRefreshed
	if f.facts.Attempt == 1 {
		f.facts.Credential = decision.CredentialRefreshable
	}
}

// refresh gets another credential while the answer is held, and decides anew. Without another credential
// a replay would be rejected again. heard is false where nobody is left to be told.
func (j *judge) refresh(ctx context.Context, f *failure) (d decision.Decision, heard bool) {
	longest := f.longestHold()
	limited, cancel := context.WithTimeout(ctx, longest-longest/4) // the replay, or the denial, is still in time
	defer cancel()
	begin := time.Now()
	err := f.ours.source.Refresh(limited, f.ours.rejected.Authorization)
	f.ours = nil // it has been told
	if ctx.Err() != nil {
		return d, false
	}
	held := time.Since(begin)
	f.facts.Remaining -= held
	if f.facts.MaxWait -= held; f.facts.MaxWait == 0 {
		f.facts.MaxWait = -1 // 0 is no limit
	}
	d = j.decideAgain(f)
	if err != nil {
		j.deciding.span.Event("credential not refreshed")
		return d.Deny(decision.ReasonCredentialRejected), true
	}
	j.deciding.span.Event("credential refreshed")
	return d, true
}

// longestHold is how long the answer can be held: as long as Envoy lets the judge wait, and as the
// deadline leaves an attempt that is worth beginning.
func (f *failure) longestHold() time.Duration {
	if f.facts.Deadline == decision.DeadlineNone {
		return f.facts.MaxWait
	}
	return min(f.facts.MaxWait, f.facts.Remaining-f.policy.MinAttemptBudget)
}

// tell lets the source know that its credential was rejected by an answer that no replay follows, so that
// later requests get another one. Nobody waits for it; how often it asks, the source bounds.
func (f *failure) tell() {
	if f.ours == nil {
		return
	}
	left, cancel := context.WithCancel(context.Background())
	cancel()
	_ = f.ours.source.Refresh(left, f.ours.rejected.Authorization)
	f.ours = nil
}
