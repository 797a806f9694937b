package compose

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// behind is how long a case may still be on its way to the store once the client has its answer, on a busy
// machine. A replica that is killed takes with it what is on its way.
const behind = 2 * time.Second

// testLedger: each uncertain outcome of which a client was told is a case that the operator finds, at
// any replica. Excepted are those that a killed replica had on their way, and Envoy's own
// word (no_evidence) while there was no Verdict that could look at an answer.
func (p *project) testLedger(t *testing.T, l *load) {
	conn, err := grpc.NewClient("passthrough:///"+p.addr(t, "verdict-2", 9003), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ledger := retryv1.NewLedgerServiceClient(conn)
	onTheWay := func(u uncertain) bool {
		return slices.ContainsFunc(p.killed, func(at time.Time) bool {
			return u.End.After(at.Add(-behind)) && u.End.Before(at.Add(behind))
		})
	}
	missing := l.report(t).Uncertain
	found, silent, lost := 0, 0, 0
	within(t, 30*time.Second, "every case is in the ledger", func() string {
		still, text := missing[:0:0], ""
		for _, u := range missing {
			switch _, err := ledger.Get(t.Context(), &retryv1.LedgerServiceGetRequest{CaseId: u.Case}); {
			case err == nil:
				found++
			case status.Code(err) == codes.NotFound && u.Reason == "no_evidence":
				silent++
			case status.Code(err) == codes.NotFound && onTheWay(u):
				lost++
			default:
				still = append(still, u)
				text += fmt.Sprintf("case %s of %q (%s), answered %s: %v\n", u.Case, u.Scenario, u.Reason, u.End.Format(time.TimeOnly), err)
			}
		}
		missing = still
		return text
	})
	t.Logf("%d cases are in the ledger; of %d Envoy alone has spoken, and %d were lost with a replica that was killed", found, silent, lost)
	if found < 50 || found < silent || lost > 20 {
		t.Error("that is more than a kill, and a machine too busy for health checks, explain")
	}
}
