package redis

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// watch is what the hooks and the log said.
type watch struct {
	connected, lost, local, calls atomic.Int64

	mu  sync.Mutex
	log bytes.Buffer
}

func (w *watch) options(o Options) Options {
	o.OnConnected = func(yes bool) {
		if yes {
			w.connected.Add(1)
		} else {
			w.lost.Add(1)
		}
	}
	o.OnLocalGrant = func() { w.local.Add(1) }
	o.OnCall = func(time.Duration, error) { w.calls.Add(1) }
	o.Logger = slog.New(slog.NewTextHandler(w, nil))
	return o
}

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *watch) lines(word string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), word)
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("not in 15 s: %s", what)
}

// What a server can do to its clients: decisions go on, from what this process earns by itself; a line
// and a metric say so; and when it is over, the fleet's budget is there again without a restart.
func TestOutages(t *testing.T) {
	const loading = 100 // keys
	for name, c := range map[string]struct {
		begin, end func(*redistest.Server, raw)
		unseen     bool // not an outage
	}{
		"refused":    {begin: func(s *redistest.Server, _ raw) { s.Kill() }, end: func(s *redistest.Server, _ raw) { s.Restart() }},
		"black hole": {begin: func(s *redistest.Server, _ raw) { s.Pause() }, end: func(s *redistest.Server, _ raw) { s.Continue() }},
		"read-only": {
			begin: func(_ *redistest.Server, r raw) { r.Do("REPLICAOF", "127.0.0.1", "1") },
			end:   func(_ *redistest.Server, r raw) { r.Do("REPLICAOF", "NO", "ONE") },
		},
		"out of memory": {
			begin: func(_ *redistest.Server, r raw) { r.Do("CONFIG", "SET", "maxmemory", "1") },
			end:   func(_ *redistest.Server, r raw) { r.Do("CONFIG", "SET", "maxmemory", "0") },
		},
		"another password": {
			begin: func(_ *redistest.Server, r raw) {
				r.Do("CONFIG", "SET", "requirepass", "x")
				r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			},
			end: func(_ *redistest.Server, r raw) { r.Do("CONFIG", "SET", "requirepass", "") },
		},
		"loading": {
			begin: func(s *redistest.Server, r raw) {
				for i := range loading {
					r.Do("SET", "some key "+string(rune('a'+i%26))+string(rune('a'+i/26)), strings.Repeat("x", 100))
				}
				r.Do("SAVE")
				s.Kill()
				s.Restart("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
			},
			end: func(*redistest.Server, raw) {},
		},
		"busy": {
			begin: func(_ *redistest.Server, r raw) {
				r.Do("CONFIG", "SET", "lua-time-limit", "10")
				go r.Try("EVAL", "while true do end", "0")
			},
			end: func(s *redistest.Server, _ raw) {
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
		"script flushed": {unseen: true, begin: func(_ *redistest.Server, r raw) { r.Do("SCRIPT", "FLUSH") }, end: func(*redistest.Server, raw) {}},
		"flushed":        {unseen: true, begin: func(_ *redistest.Server, r raw) { r.Do("FLUSHALL") }, end: func(*redistest.Server, raw) {}},
		"corrupt values": {unseen: true, begin: func(_ *redistest.Server, r raw) {
			keys := r.Do("KEYS", "verdict:*").([]any)
			if len(keys) < 3 {
				t.Errorf("only %v to corrupt", keys)
			}
			for _, k := range keys {
				r.Do("DEL", k.(string))
				r.Do("LPUSH", k.(string), "nonsense")
			}
		}, end: func(*redistest.Server, raw) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.Binary(t))
			r := dial(t, s.Address)
			var w watch
			b := mustNew(t, same(budget.Settings{Ratio: 1000, Reserve: 2, Interval: 10 * time.Second}),
				w.options(Options{Server: at(s.Address), Timeout: 100 * time.Millisecond}))
			a := b.Account("u")
			granted := func() bool {
				a.Deposit(1)
				begun := time.Now()
				_, ok := a.TryWithdraw(t.Context())
				if d := time.Since(begun); d > time.Second {
					t.Errorf("a decision waited %v", d)
				}
				return ok
			}
			shared := func() bool {
				local := w.local.Load()
				return granted() && w.local.Load() == local
			}
			eventually(t, "a grant by lease", shared)
			c.begin(s, r)
			if !c.unseen {
				eventually(t, "cut off", func() bool { granted(); return b.down.Load() })
				local := w.local.Load()
				eventually(t, "grants by what was earned here", func() bool { granted(); return w.local.Load() > local+3 })
				if w.lost.Load() == 0 || w.lines("does not answer") == 0 {
					t.Error("nobody was told")
				}
			}
			c.end(s, r)
			eventually(t, "connected again", func() bool { return !b.down.Load() })
			eventually(t, "a grant by lease again", shared)
			if c.unseen && w.lost.Load() > 0 {
				t.Errorf("it counted as an outage: %s", &w.log)
			}
			if n := w.lost.Load(); n > 3 || int64(w.lines("does not answer")) != n {
				t.Errorf("cut off %d times, %d lines", n, w.lines("does not answer"))
			}
		})
	}
}

func TestStartsWithoutServer(t *testing.T) {
	s := redistest.Start(t, redistest.Binary(t))
	s.Kill()
	var w watch
	b := mustNew(t, same(budget.Settings{Ratio: 500, Interval: 10 * time.Second}), w.options(Options{Server: at(s.Address)}))
	a := b.Account("u")
	a.Deposit(5)
	for want := range 3 {
		if _, ok := a.TryWithdraw(t.Context()); ok != (want < 2) {
			t.Fatalf("grant %d of 2.5 tokens: %v", want+1, ok)
		}
	}
	if w.local.Load() != 2 || w.lost.Load() != 1 || w.lines("does not answer") != 1 {
		t.Errorf("%d local grants, lost %d times: %s", w.local.Load(), w.lost.Load(), &w.log)
	}
	s.Restart()
	eventually(t, "connected", func() bool { return w.connected.Load() == 1 })
	// The half token that was left is flushed, and makes one with another.
	eventually(t, "flushed", func() bool { return a.State().EarnedMilli == 500 })
	a.Deposit(1)
	eventually(t, "a grant by lease", func() bool { _, ok := a.TryWithdraw(t.Context()); return ok && w.local.Load() == 2 })
}

func TestPassword(t *testing.T) {
	s := redistest.Start(t, redistest.Binary(t), "--requirepass", "secret")
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong\n")
	var w watch
	b := mustNew(t, nil, w.options(Options{Server: conn.Options{Addresses: []string{s.Address}, PasswordFile: file}}))
	if !b.down.Load() || w.lines("WRONGPASS") != 1 {
		t.Errorf("a wrong password: %s", &w.log)
	}
	write("secret\n")
	eventually(t, "connected", func() bool { return !b.down.Load() })
}

// A reply that is lost is spent: what it may have leased is not asked for again, and what the request
// brought counts once.
func TestLostReply(t *testing.T) {
	s := redistest.Start(t, redistest.Binary(t))
	p := redistest.NewProxy(t, s.Address)
	r := dial(t, s.Address)
	settings := budget.Settings{Ratio: 1000, Interval: time.Minute}
	var w watch
	o := w.options(Options{Server: at(p.Address()), Prefix: r.longUp(), Timeout: 100 * time.Millisecond, Wait: patience, Flush: time.Hour})
	b := mustNew(t, same(settings), o)
	a := b.Account("u")
	a.State() // it knows its epoch
	a.Deposit(10)
	p.Set(redistest.DroppingReplies)
	if _, ok := a.TryWithdraw(t.Context()); ok {
		t.Fatal("granted, with the reply dropped and the deposits under way")
	}
	eventually(t, "cut off", b.down.Load)
	if p.Dropped() == 0 {
		t.Fatal("no reply was dropped")
	}
	p.Set(redistest.Passing)
	// Ten were brought once, though sent twice; one was leased in the reply that was lost.
	own := b.Account("u").(*account)
	eventually(t, "connected", func() bool { b.shared().probe(); return !b.down.Load() })
	own.refresh(int64(patience))
	left := 0
	for {
		if _, ok := a.TryWithdraw(t.Context()); !ok {
			break
		}
		left++
	}
	if left != 9 || w.local.Load() != 0 {
		t.Fatalf("%d tokens left, %d of them local, want 9: ten less the one in the lost reply", left, w.local.Load())
	}
}

func TestNoEviction(t *testing.T) {
	for policy, want := range map[string]int{"noeviction": 0, "allkeys-lru": 1} {
		s := redistest.Start(t, redistest.Binary(t), "--maxmemory-policy", policy)
		var w watch
		mustNew(t, nil, w.options(Options{Server: at(s.Address)}))
		if n := w.lines("set maxmemory-policy noeviction"); n != want {
			t.Errorf("%s: %d lines, want %d: %s", policy, n, want, &w.log)
		}
	}
}
