package budgettest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// A Breach is one place where an event log breaks the payment law.
type Breach struct {
	Rule     string // which of Check's rules
	Process  string
	Account  string
	At       int64  // the instant, monotonic nanoseconds
	Line     int    // of the log: the last event that had a part in it
	Retries  int64  // what was granted, net, in the rule's window
	PaidFrom int64  // what could have paid for it, in milli-tokens
	Detail   string // the rule with its figures
}

func (b *Breach) Error() string {
	return fmt.Sprintf("line %d: %s broken at %d ns, process %q, account %q: %s",
		b.Line, b.Rule, b.At, b.Process, b.Account, b.Detail)
}

// Check reads an event log and returns the earliest Breach, or nil; any other error names a line that
// is not an event. A last line without a newline is not read: its writer died before any effect.
// settings tells the loosest settings that an account had while the log was written. It is asked for
// the shared account ("") too, whose ratio is the largest of all.
//
// The rules, for each process and account, in integers, with R the grants that were not returned:
//
//   - law: for every instant t, R(t-I, t] <= ratio x F(t-2I, t] + M.
//   - reserve: for every t, at most M of R(t-I, t] came from the reserve.
//   - payment: the earned grants can be paid by deposits dated in (t-I, t] at a grant's t, each
//     milli-token once. (Oldest first finds a payment if there is any.)
//   - deposit: n first attempts earn at most n x ratio.
//   - grant: it has a source that these settings allow, costs 1000, and is given once.
//   - return: it takes back a grant of the same account, once, with the same source.
//   - time: an account's events do not run back.
//
// It is written from the law, and shares no arithmetic with the backends.
func Check(log io.Reader, settings func(account string) budget.Settings) error {
	breaches, err := breaches(log, settings)
	if err != nil || len(breaches) == 0 {
		return err
	}
	return slices.MinFunc(breaches, func(x, y *Breach) int { return cmp.Compare(x.At, y.At) })
}

// breaches is the earliest one of each rule for each account.
func breaches(log io.Reader, settings func(account string) budget.Settings) ([]*Breach, error) {
	accounts, err := read(log)
	var all []*Breach
	for _, a := range accounts {
		all = append(all, a.check(settings(a.account))...)
	}
	return all, err
}

type event struct {
	budget.Event
	line int
}

type history struct {
	process, account string
	events           []event
}

func read(log io.Reader) ([]*history, error) {
	var all []*history
	byKey := map[[2]string]*history{}
	in := bufio.NewReader(log)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if err != nil {
			return all, nil // what is left has no newline: a torn write, which had no effect
		}
		e := event{line: line}
		if err := json.Unmarshal(text, &e.Event); err != nil {
			return nil, fmt.Errorf("line %d: not an event: %w", line, err)
		}
		key := [2]string{e.Process, e.Account}
		if byKey[key] == nil {
			byKey[key] = &history{process: e.Process, account: e.Account}
			all = append(all, byKey[key])
		}
		byKey[key].events = append(byKey[key].events, e)
	}
}

func (h *history) breach(rule string, e event, detail string, args ...any) *Breach {
	return &Breach{
		Rule: rule, Process: h.process, Account: h.account, At: e.Mono, Line: e.line,
		Detail: fmt.Sprintf(detail, args...),
	}
}

func (h *history) check(s budget.Settings) []*Breach {
	if s.IsNever() {
		s = budget.Settings{Interval: budget.MaxInterval} // whatever is granted is too much
	}
	deposits, grants, bad := h.net(s)
	all := []*Breach{bad}
	if !s.IsUnlimited() {
		all = append(all,
			h.checkLaw(s, deposits, grants), h.checkReserve(s, grants), h.checkPayment(s, deposits, grants))
	}
	return slices.DeleteFunc(all, func(b *Breach) bool { return b == nil })
}

// net looks at each event by itself, and separates the deposits from the grants that stand. It stops
// at the first bad event.
func (h *history) net(s budget.Settings) (deposits, grants []event, bad *Breach) {
	type given struct {
		event
		back bool
	}
	var order []*given
	byID := map[string]*given{}
	defer func() {
		for _, g := range order {
			if !g.back {
				grants = append(grants, g.event)
			}
		}
	}()
	ratio, now := int64(s.Ratio), int64(0)
	for i, e := range h.events {
		if i > 0 && e.Mono < now {
			return deposits, grants, h.breach("time", e, "dated %d ns before the event in front of it", now-e.Mono)
		}
		now = e.Mono
		switch e.Kind {
		case budget.KindDeposit:
			if e.Milli < 0 || e.Milli > int64(e.Firsts)*ratio {
				return deposits, grants, h.breach("deposit", e, "%d first attempts earned %d milli-tokens, %d each are allowed", e.Firsts, e.Milli, ratio)
			}
			deposits = append(deposits, e)
		case budget.KindGrant:
			if byID[e.Grant] != nil || e.Grant == "" {
				return deposits, grants, h.breach("grant", e, "id %q was given before, or is empty", e.Grant)
			}
			free := e.Source == budget.SourceUnlimited && s.IsUnlimited()
			paid := e.Source == budget.SourceEarned || e.Source == budget.SourceReserve
			if e.Milli != budget.Token || !free && !paid {
				return deposits, grants, h.breach("grant", e, "%d milli-tokens of source %v", e.Milli, e.Source)
			}
			g := &given{event: e}
			byID[e.Grant] = g
			order = append(order, g)
		case budget.KindReturn:
			g := byID[e.Grant]
			if g == nil || g.back || g.Source != e.Source || e.Milli != budget.Token {
				return deposits, grants, h.breach("return", e, "grant %q: never given, returned before, or not the same", e.Grant)
			}
			g.back = true
		default:
			return deposits, grants, h.breach("event", e, "unknown kind %q", e.Kind)
		}
	}
	return deposits, grants, nil
}

// checkLaw looks at the instants at which the law can begin to be broken: where a grant enters the
// window of R, and where a deposit leaves the window of F.
func (h *history) checkLaw(s budget.Settings, deposits, grants []event) *Breach {
	interval := int64(s.Interval)
	var instants []event
	instants = append(instants, grants...)
	for _, d := range deposits {
		d.Mono += 2 * interval
		instants = append(instants, d)
	}
	slices.SortStableFunc(instants, func(x, y event) int { return cmp.Compare(x.Mono, y.Mono) })
	var r, f window
	for _, t := range instants {
		retries := r.slide(grants, t.Mono-interval, t.Mono, func(event) int64 { return 1 })
		earned := f.slide(deposits, t.Mono-2*interval, t.Mono, func(e event) int64 { return e.Milli })
		if retries*budget.Token > earned+int64(s.Reserve)*budget.Token {
			b := h.breach("law", t, "%d retries in the last %v; first attempts of the last %v earned %d milli-tokens, and the reserve gives %d tokens",
				retries, s.Interval, 2*s.Interval, earned, s.Reserve)
			b.Retries, b.PaidFrom = retries, earned+int64(s.Reserve)*budget.Token
			return b
		}
	}
	return nil
}

func (h *history) checkReserve(s budget.Settings, grants []event) *Breach {
	var r window
	for _, t := range grants {
		spent := r.slide(grants, t.Mono-int64(s.Interval), t.Mono, func(e event) int64 {
			if e.Source == budget.SourceReserve {
				return 1
			}
			return 0
		})
		if spent > int64(s.Reserve) {
			b := h.breach("reserve", t, "%d tokens of the reserve in the last %v, %d are allowed", spent, s.Interval, s.Reserve)
			b.Retries, b.PaidFrom = spent, int64(s.Reserve)*budget.Token
			return b
		}
	}
	return nil
}

func (h *history) checkPayment(s budget.Settings, deposits, grants []event) *Breach {
	left := make([]int64, len(deposits))
	for i, d := range deposits {
		left[i] = d.Milli
	}
	oldest := 0
	for _, g := range grants {
		if g.Source != budget.SourceEarned {
			continue
		}
		due := int64(budget.Token)
		for ; oldest < len(deposits) && deposits[oldest].line < g.line; oldest++ {
			if deposits[oldest].Mono > g.Mono-int64(s.Interval) {
				paid := min(left[oldest], due)
				left[oldest] -= paid
				if due -= paid; due == 0 {
					break
				}
			}
		}
		if due > 0 {
			b := h.breach("payment", g, "deposits of the last %v that paid for nothing else hold %d milli-tokens of the 1000", s.Interval, budget.Token-due)
			b.Retries, b.PaidFrom = 1, budget.Token-due
			return b
		}
	}
	return nil
}

// window sums over the events dated in (from, to], as from and to move forward.
type window struct {
	in, out int // events that have entered, that have left
	sum     int64
}

func (w *window) slide(events []event, from, to int64, value func(event) int64) int64 {
	for ; w.in < len(events) && events[w.in].Mono <= to; w.in++ {
		w.sum += value(events[w.in])
	}
	for ; w.out < w.in && events[w.out].Mono <= from; w.out++ {
		w.sum -= value(events[w.out])
	}
	return w.sum
}
