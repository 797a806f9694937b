package redis

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func enter(l *Ledger, prefix string, n int) {
	for i := range n {
		l.Enter(ledger.Entry{CaseID: fmt.Sprint(prefix, i), Upstream: "app"})
	}
}

func wantListed(t *testing.T, l *Ledger, want ...string) {
	t.Helper()
	var got []string
	ledgertest.Eventually(t, "a list", func() bool {
		page, err := l.List(t.Context(), ledger.Filter{}, 0, 1000)
		if err != nil {
			return false
		}
		got = strings.Fields(ledgertest.IDs(page.Cases))
		slices.Reverse(got)
		return slices.Equal(got, want)
	})
}

// What a server can do to its clients: entering goes on, asking says that nothing is known, and when it is
// over all that was entered is there, once and in order.
func TestOutages(t *testing.T) {
	t.Parallel()
	type fault struct {
		begin, end func(*redistest.Server, redistest.Raw, *redistest.Proxy)
	}
	mode := func(m redistest.Mode) func(*redistest.Server, redistest.Raw, *redistest.Proxy) {
		return func(_ *redistest.Server, _ redistest.Raw, p *redistest.Proxy) { p.Set(m) }
	}
	do := func(commands ...string) func(*redistest.Server, redistest.Raw, *redistest.Proxy) {
		return func(_ *redistest.Server, r redistest.Raw, _ *redistest.Proxy) {
			for _, c := range commands {
				r.Do(strings.Fields(c)...)
			}
		}
	}
	faults := map[string]fault{
		"restarted": {
			func(s *redistest.Server, _ redistest.Raw, _ *redistest.Proxy) { s.Kill() },
			func(s *redistest.Server, _ redistest.Raw, _ *redistest.Proxy) { s.Restart() },
		},
		"cut":             {mode(redistest.Cutting), mode(redistest.Passing)},
		"black hole":      {mode(redistest.Swallowing), mode(redistest.Passing)},
		"replies dropped": {mode(redistest.DroppingReplies), mode(redistest.Passing)},
		"read only":       {do("REPLICAOF 127.0.0.1 1"), do("REPLICAOF NO ONE")},
		"out of memory":   {do("CONFIG SET maxmemory 1"), do("CONFIG SET maxmemory 0")},
		"password": {
			do("CONFIG SET requirepass x", "CLIENT KILL TYPE normal SKIPME yes"),
			func(_ *redistest.Server, r redistest.Raw, _ *redistest.Proxy) {
				r.Do("CONFIG", "SET", "requirepass", "")
			},
		},
		"too few replicas": {do("CONFIG SET min-replicas-to-write 1"), do("CONFIG SET min-replicas-to-write 0")},
		"loading": {
			func(s *redistest.Server, r redistest.Raw, _ *redistest.Proxy) {
				for i := range 200 {
					r.Do("SET", fmt.Sprint("filler ", i), strings.Repeat("x", 100))
				}
				s.Kill()
				s.Restart("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
			},
			func(*redistest.Server, redistest.Raw, *redistest.Proxy) {},
		},
		"busy": {
			func(_ *redistest.Server, r redistest.Raw, _ *redistest.Proxy) {
				r.Do("CONFIG", "SET", "lua-time-limit", "10")
				go r.Try("EVAL", "while true do end", "0")
			},
			func(s *redistest.Server, _ redistest.Raw, _ *redistest.Proxy) {
				c, err := net.Dial("tcp", s.Address)
				if err == nil {
					defer c.Close()
					_, err = c.Write([]byte("SCRIPT KILL\r\n"))
				}
				if err == nil {
					_, err = c.Read(make([]byte, 100))
				}
				if err != nil {
					panic(err)
				}
			},
		},
	}
	for _, key := range []string{"cases", "order", "resolved", "count", "events"} {
		key = "fleet:ledger:" + key
		faults[key+" is of another type"] = fault{
			do("RENAME "+key+" saved", "SET "+key+" nonsense"),
			do("DEL "+key, "RENAME saved "+key),
		}
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Binary(t), "--appendonly", "yes", "--appendfsync", "always")
			proxy := redistest.NewProxy(t, server.Address)
			raw := redistest.Dial(t, server.Address)
			var log lines
			before := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:"})
			enter(before, "before-", 3)
			settle(t, before)
			for _, id := range []string{"before-0", "before-1"} {
				if _, err := before.Resolve(t.Context(), id, retryv1.CaseState_CASE_STATE_EXECUTED, ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := before.Close(); err != nil {
				t.Fatal(err)
			}
			l := mustNew(t, Options{Server: at(proxy.Address()), Prefix: "fleet:", Timeout: 300 * time.Millisecond, Logger: log.logger()})
			wantListed(t, l, "before-0", "before-1", "before-2")
			f.begin(server, raw, proxy)
			enter(l, "during-", 3)
			ledgertest.Eventually(t, "cut off", func() bool { return !l.Connected() })
			if c, err := l.Get(t.Context(), "during-1"); err != nil || c.GetUpstream() != "app" {
				t.Errorf("what waits here: %v, %v", c, err)
			}
			if _, err := l.Resolve(t.Context(), "before-2", retryv1.CaseState_CASE_STATE_EXECUTED, ""); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("resolving: %v", err)
			}
			reads := "read only too few replicas out of memory"
			if !strings.Contains(reads, name) && !strings.HasPrefix(name, "fleet:") {
				if _, err := l.Get(t.Context(), "before-2"); !errors.Is(err, ledger.ErrUnavailable) {
					t.Errorf("getting: %v", err)
				}
				if _, err := l.List(t.Context(), ledger.Filter{}, 0, 10); !errors.Is(err, ledger.ErrUnavailable) {
					t.Errorf("listing: %v", err)
				}
			}
			f.end(server, raw, proxy)
			ledgertest.Eventually(t, "connected again", l.Connected)
			enter(l, "after-", 2)
			settle(t, l)
			wantListed(t, l, "before-0", "before-1", "before-2", "during-0", "during-1", "during-2", "after-0", "after-1")
			ledgertest.Eventually(t, "counted", func() bool { open, lost := l.Count(); return open == 6 && lost == 0 })
			if away, back := log.count("does not answer"), log.count("answers again"); away != back || away == 0 {
				t.Errorf("%d lines say that it is away, %d that it is back", away, back)
			}
			if events := redistest.Dial(t, server.Address).Do("XLEN", "fleet:ledger:events").(int64); events != 10 {
				t.Errorf("%d events, want one of each case and of each resolving", events)
			}
		})
	}
}

// Redis is away from the beginning, and comes later.
func TestBeginsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	server.Kill()
	l := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:"})
	enter(l, "a", 3)
	if _, err := l.Get(t.Context(), "b"); !errors.Is(err, ledger.ErrUnavailable) {
		t.Error(err)
	}
	if err := l.Watch(t.Context(), ledger.Filter{}, nil); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("watching: %v", err)
	}
	server.Restart()
	settle(t, l)
	wantListed(t, l, "a0", "a1", "a2")
}

// When too many wait, the oldest are lost, and counted: here at once, and for the fleet when the server is
// there again.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	raw := redistest.Dial(t, server.Address)
	var log lines
	const size = 300 // more than is under way at once
	l := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:", Size: size, Logger: log.logger()})
	l.queue.size = size
	other := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:", Size: size})
	enter(l, "old", 1)
	settle(t, l)
	raw.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	l.Enter(ledger.Entry{CaseID: "new"})
	ledgertest.Eventually(t, "cut off", func() bool { return !l.Connected() })
	l.Enter(ledger.Entry{CaseID: "old0", Key: "k"})
	if c, err := l.Get(t.Context(), "old0"); err != nil || c.GetIdempotencyKey() != "k" || c.GetUpstream() != "app" {
		t.Errorf("what is there and what waits here: %v, %v", c, err)
	}
	enter(l, "c", size+50)
	waiting, lost := l.Waiting()
	if waiting != size || lost != 52 {
		t.Errorf("%d wait, %d lost", waiting, lost)
	}
	if _, lost := l.Count(); lost != 52 {
		t.Errorf("%d counted as lost", lost)
	}
	if n := log.count("uncertain outcomes are lost"); n != 1 {
		t.Errorf("%d lines say so", n)
	}
	raw.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	settle(t, l)
	ledgertest.Eventually(t, "the fleet knows", func() bool { open, lost := other.Count(); return open == size && lost == 53 })
	if page, err := other.List(t.Context(), ledger.Filter{}, 0, 1000); err != nil || page.Lost != 53 || len(page.Cases) != size || page.Cases[size-1].GetCaseId() != "c50" {
		t.Errorf("%d cases, %d lost, %v", len(page.Cases), page.Lost, err)
	}
	if _, lost := l.Count(); lost != 53 {
		t.Errorf("%d counted as lost", lost)
	}
}
