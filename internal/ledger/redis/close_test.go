package redis

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// The end brings what waits, and where nobody takes it, ends all the same and says so.
func TestClose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	proxy := redistest.NewProxy(t, server.Address)
	for range 5 {
		prefix := freshPrefix()
		var log lines
		l := mustNew(t, Options{Server: at(proxy.Address()), Prefix: prefix, Logger: log.logger()})
		enter(l, "c", 1000)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		if log.b.Len() > 0 {
			t.Errorf("the log says %s", log.b.String())
		}
		l.Enter(ledger.Entry{CaseID: "too late"})
		if _, err := l.Get(t.Context(), "c1"); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("after the end: %v", err)
		}
		after := mustNew(t, Options{Server: at(proxy.Address()), Prefix: prefix})
		if page, err := after.List(t.Context(), ledger.Filter{}, 0, 2000); len(page.Cases) != 1000 || err != nil {
			t.Errorf("%d cases, %v", len(page.Cases), err)
		}
	}
	for name, mode := range map[string]redistest.Mode{"cut": redistest.Cutting, "black hole": redistest.Swallowing} {
		var log lines
		l := mustNew(t, Options{Server: at(proxy.Address()), Prefix: freshPrefix(), Timeout: 200 * time.Millisecond, Logger: log.logger()})
		settle(t, l)
		watching := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			watching <- l.Watch(t.Context(), ledger.Filter{}, func(*ledger.Case, uint64) error {
				select {
				case <-begun:
				default:
					close(begun)
				}
				return nil
			})
		}()
		n := 0
		ledgertest.Eventually(t, "somebody watches", func() bool {
			n++
			l.Enter(ledger.Entry{CaseID: fmt.Sprint("w", n)})
			select {
			case <-begun:
				return true
			default:
				return false
			}
		})
		settle(t, l)
		proxy.Set(mode)
		enter(l, "c", 7)
		if err := l.Close(); err == nil || log.count("7 uncertain outcomes could not be brought") != 1 {
			t.Errorf("%s: %v, %s", name, err, log.b.String())
		}
		if err := <-watching; !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: watching ends with %v", name, err)
		}
		proxy.Set(redistest.Passing)
	}
}
