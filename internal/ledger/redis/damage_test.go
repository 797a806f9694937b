package redis

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/internal/ledger/ledgertest"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

const executed = retryv1.CaseState_CASE_STATE_EXECUTED

func encoded(t testing.TB, c *ledger.Case) string {
	t.Helper()
	b, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What somebody has written into one case costs that case, and entering it again mends it.
func TestDamagedCases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	raw := redistest.Dial(t, server.Address)
	l := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:"})
	const cases, order, resolved = "fleet:ledger:cases", "fleet:ledger:order", "fleet:ledger:resolved"
	for name, damage := range map[string]func(id string){
		"bytes that are no message": func(id string) { raw.Do("HSET", cases, id, "\xff\xff\xff") },
		"cut short":                 func(id string) { raw.Do("HSET", cases, id, raw.Do("HGET", cases, id).(string)[:9]) },
		"another case":              func(id string) { raw.Do("HSET", cases, id, encoded(t, &ledger.Case{CaseId: "other"})) },
		"a message without a name":  func(id string) { raw.Do("HSET", cases, id, encoded(t, &ledger.Case{Upstream: "x"})) },
		"large":                     func(id string) { raw.Do("HSET", cases, id, strings.Repeat("x", 1<<20)) },
	} {
		enter(l, name, 3)
		settle(t, l)
		damage(name + "1")
		page, err := l.List(t.Context(), ledger.Filter{}, 0, 2)
		if got := ledgertest.IDs(page.Cases); err != nil || got != name+"2 "+name+"0" {
			t.Errorf("%s: the others are %q, %v", name, got, err)
		}
		if _, err := l.Get(t.Context(), name+"1"); !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("%s: getting: %v", name, err)
		}
		if _, err := l.Resolve(t.Context(), name+"1", executed, ""); !errors.Is(err, ledger.ErrDamaged) {
			t.Errorf("%s: resolving: %v", name, err)
		}
		raw.Do("CONFIG", "SET", "min-replicas-to-write", "1")
		enter(l, name, 2)
		if c, err := l.Get(t.Context(), name+"1"); err != nil || c.GetUpstream() != "app" {
			t.Errorf("%s: entered again, and not yet there: %v, %v", name, c, err)
		}
		raw.Do("CONFIG", "SET", "min-replicas-to-write", "0")
		enter(l, name, 2)
		settle(t, l)
		if c, err := l.Get(t.Context(), name+"1"); err != nil || c.GetUpstream() != "app" {
			t.Errorf("%s: entered again: %v, %v", name, c, err)
		}
		if _, err := l.Resolve(t.Context(), name+"1", executed, ""); err != nil {
			t.Errorf("%s: resolving it then: %v", name, err)
		}
	}
	for name, damage := range map[string]func(id string){
		"removed":         func(id string) { raw.Do("HDEL", cases, id) },
		"empty":           func(id string) { raw.Do("HSET", cases, id, "") },
		"and the counter": func(id string) { raw.Do("HDEL", cases, id); raw.Do("DEL", "fleet:ledger:count") },
	} {
		enter(l, name, 3)
		settle(t, l)
		if _, err := l.Resolve(t.Context(), name+"1", executed, ""); err != nil {
			t.Fatal(err)
		}
		damage(name + "1")
		if _, err := l.Get(t.Context(), name+"1"); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: getting: %v", name, err)
		}
		if _, err := l.Resolve(t.Context(), name+"1", executed, ""); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("%s: resolving: %v", name, err)
		}
		enter(l, name, 2)
		settle(t, l)
		if c, err := l.Get(t.Context(), name+"1"); err != nil || c.GetState() != retryv1.CaseState_CASE_STATE_OPEN {
			t.Errorf("%s: entered again: %v, %v", name, c, err)
		}
		if n := raw.Do("ZSCORE", resolved, name+"1"); n != nil && name == "removed" {
			t.Errorf("%s: entered again, and resolved: %v", name, n)
		}
	}
	before, err := l.List(t.Context(), ledger.Filter{}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	// Numbers that none of ours are.
	for id, number := range map[string]string{"inf": "inf", "-inf": "-inf", "huge": "1e300", "half": "2.5", "minus": "-7"} {
		raw.Do("ZADD", order, number, id)
		raw.Do("HSET", cases, id, encoded(t, &ledger.Case{CaseId: id}))
		raw.Do("ZADD", resolved, number, id)
	}
	raw.Do("HSET", "fleet:ledger:count", "last", "many", "resolved", "-3", "lost", "1e99")
	after, err := l.List(t.Context(), ledger.Filter{}, 0, 1000)
	if err != nil || len(after.Cases) < len(before.Cases) {
		t.Errorf("%d cases, %v; %d before", len(after.Cases), err, len(before.Cases))
	}
	for next := uint64(0); ; { // every walk ends
		page, err := l.List(t.Context(), ledger.Filter{}, next, 3)
		if err != nil {
			t.Fatal(err)
		}
		if next != 0 && page.Next >= next {
			t.Fatalf("the page behind %d begins at %d", next, page.Next)
		}
		if next = page.Next; next == 0 {
			break
		}
	}
}

// A ledger whose indices were spoilt still takes cases, and keeps its size.
func TestDamagedIndices(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	raw := redistest.Dial(t, server.Address)
	l := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:", Size: 5})
	for name, commands := range map[string][]string{
		"resolved, and not there":  {"ZADD fleet:ledger:resolved 1 ghost 2 spirit"},
		"in order, and not there":  {"ZADD fleet:ledger:order 1 ghost 2 spirit"},
		"the counter says nothing": {"HSET fleet:ledger:count last x resolved y lost z"},
		"no order":                 {"DEL fleet:ledger:order"},
		"no resolved":              {"DEL fleet:ledger:resolved"},
		"no counter":               {"DEL fleet:ledger:count"},
		"no events":                {"DEL fleet:ledger:events"},
		"events of another's":      {"XADD fleet:ledger:events * nonsense x"},
	} {
		enter(l, name+"a", 5)
		settle(t, l)
		if _, err := l.Resolve(t.Context(), name+"a3", executed, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, c := range commands {
			raw.Do(strings.Fields(c)...)
		}
		enter(l, name+"b", 7)
		settle(t, l)
		page, err := l.List(t.Context(), ledger.Filter{}, 0, 100)
		want := ""
		for _, i := range []string{"6", "5", "4", "3", "2"} {
			want += " " + name + "b" + i
		}
		if got := " " + ledgertest.IDs(page.Cases); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
		if n := raw.Do("ZCARD", "fleet:ledger:order"); n != int64(5) {
			t.Errorf("%s: %v in order", name, n)
		}
	}
}

// What a newer version has written is kept by an older one that merges and resolves.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	raw := redistest.Dial(t, server.Address)
	l := mustNew(t, Options{Server: at(server.Address), Prefix: "fleet:"})
	enter(l, "c", 1)
	settle(t, l)
	c, err := l.Get(t.Context(), "c0")
	if err != nil {
		t.Fatal(err)
	}
	news := protowire.AppendString(protowire.AppendTag(nil, 5000, protowire.BytesType), "news")
	c.ProtoReflect().SetUnknown(news)
	c.State = 77
	raw.Do("HSET", "fleet:ledger:cases", "c0", encoded(t, c))
	l.Enter(ledger.Entry{CaseID: "c0", Cause: "cut off"})
	settle(t, l)
	want := func(state retryv1.CaseState) {
		t.Helper()
		c, err := l.Get(t.Context(), "c0")
		if err != nil || string(c.ProtoReflect().GetUnknown()) != string(news) || c.GetCause() != "cut off" || c.GetState() != state {
			t.Errorf("%v, %v", c, err)
		}
	}
	want(77)
	if _, err := l.Resolve(t.Context(), "c0", executed, ""); err != nil {
		t.Fatal(err)
	}
	want(executed)
}
