package redis

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// model is script.lua in Go, line by line, for simulations in which time is virtual. A differential
// test holds the two together.
type model struct {
	now       func() int64 // us
	run       string
	keys      map[string]*entry
	noExpiry  bool
	forgetful bool // mutant: the reserve forgets at the end of a lease
	trusting  bool // mutant: no epochs
}

type entry struct {
	text    string
	hash    map[string]string
	expires int64 // us; 0 is never
}

func newModel(now func() int64, run string) *model {
	return &model{now: now, run: run, keys: map[string]*entry{}}
}

// clone is what a replica has.
func (m *model) clone(run string) *model {
	c := newModel(m.now, run)
	c.forgetful, c.trusting = m.forgetful, m.trusting
	for k, e := range m.keys {
		c.keys[k] = &entry{e.text, maps.Clone(e.hash), e.expires}
	}
	return c
}

func (m *model) get(key string) *entry {
	e := m.keys[key]
	if e != nil && e.expires != 0 && e.expires <= m.now() && !m.noExpiry {
		delete(m.keys, key)
		return nil
	}
	return e
}

func atoi(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (m *model) eval(keys, argv []string) []any {
	interval, reserve := atoi(argv[0]), atoi(argv[1])
	width := interval * 20
	now := m.now()
	cur := now / width
	damaged := false
	account := m.get(keys[0])
	if account != nil && account.hash == nil {
		delete(m.keys, keys[0])
		account, damaged = nil, true
	}
	earned, spent, field := map[int64]int64{}, map[int64]int64{}, map[string]string{}
	if account != nil {
		for f, v := range account.hash {
			b, err := strconv.ParseInt(strings.TrimLeft(f, "er"), 10, 64)
			if err != nil || len(f) < 2 {
				field[f] = v
				continue
			}
			x, err := strconv.ParseInt(v, 10, 64)
			switch {
			case err != nil || x < 0 || x > 1e15:
				damaged = true
			case f[0] == 'e':
				earned[b] = x
			default:
				spent[b] = x
			}
		}
		if x, err := strconv.ParseInt(field["time"], 10, 64); err != nil || x < 0 {
			damaged = true
		} else {
			for _, of := range []map[int64]int64{earned, spent} {
				for b := range of {
					damaged = damaged || b > cur+2 && atoi(field["time"]) <= now
				}
			}
		}
	}
	epoch := ""
	if e := m.get(keys[1]); e != nil {
		if e.hash != nil {
			damaged = true
		}
		epoch = e.text
	}
	var owner string
	var since, number int64
	if part := strings.Split(epoch, ":"); len(part) == 3 {
		owner, since, number = part[0], atoi(part[1]), atoi(part[2])
	}
	same := epoch == argv[3] || argv[3] == ""
	if owner != m.run || damaged || since > now || account != nil && atoi(field["time"]) > now ||
		same && (argv[4] == "1" || now < atoi(argv[5])) {
		if !m.trusting || owner == "" || damaged {
			since = now
			if m.trusting && owner == "" {
				since = 1
			}
			epoch = fmt.Sprintf("%s:%d:%d", m.run, since, number%1000000+1)
			m.keys[keys[1]] = &entry{text: epoch}
		}
	}
	if field["epoch"] != epoch || field["interval"] != argv[0] {
		at := since
		if field["epoch"] == epoch {
			at = now
		}
		delete(m.keys, keys[0])
		account = nil
		clear(earned)
		clear(spent)
		if b := at/width + 2; b > cur-51 && reserve > 0 {
			spent[b] = reserve
		}
	}
	keep := int64(51)
	if m.forgetful {
		keep = 1
	}
	maps.DeleteFunc(earned, func(b, _ int64) bool { return b <= cur-50 })
	maps.DeleteFunc(spent, func(b, _ int64) bool { return b <= cur-keep })
	var total, used int64
	for _, x := range earned {
		total += x
	}
	for _, x := range spent {
		used += x
	}
	earn := func(b, milli int64) {
		milli = min(milli, 1e15-total)
		if b <= cur && b > cur-50 && milli > 0 {
			earned[b] += milli
			total += milli
		}
	}
	counted := int64(0)
	if epoch == argv[3] && now-atoi(argv[5]) <= 5*width {
		counted = 1
	}
	if sequence := atoi(argv[2]); counted == 1 && sequence > 0 {
		last := int64(0)
		if e := m.get(keys[2]); e != nil {
			last = atoi(e.text)
		}
		if sequence > last {
			n := int(atoi(argv[7]))
			for i := 8; i < 8+2*n; i += 2 {
				earn(atoi(argv[i]), atoi(argv[i+1]))
			}
			for i := 8 + 2*n; i < len(argv); i += 3 {
				b, tokens := atoi(argv[i+1]), atoi(argv[i+2])
				if argv[i] == "e" {
					earn(b, tokens*1000)
				} else if _, ok := spent[b]; ok {
					back := min(tokens, spent[b])
					spent[b] -= back
					used -= back
				}
			}
			m.keys[keys[2]] = &entry{text: argv[2], expires: now + 2000*interval}
		}
	}
	var lots []any
	want := atoi(argv[6])
	var order []int64
	for b, x := range earned {
		if x > 0 {
			order = append(order, b)
		}
	}
	slices.Sort(order)
	// Token by token, unlike the script, which takes whole buckets.
	for want > 0 && total >= 1000 {
		for earned[order[0]] == 0 {
			order = order[1:]
		}
		oldest := order[0]
		for due, i := int64(1000), 0; due > 0; i++ {
			paid := min(earned[order[i]], due)
			earned[order[i]] -= paid
			due -= paid
		}
		total, want = total-1000, want-1
		if n := len(lots); n > 0 && lots[n-2] == oldest {
			lots[n-1] = lots[n-1].(int64) + 1
		} else {
			lots = append(lots, "e", oldest, int64(1))
		}
	}
	if granted := min(want, reserve-used); granted > 0 {
		spent[cur+2] += granted
		used += granted
		lots = append(lots, "r", cur+2, granted)
	}
	hash := map[string]string{"epoch": epoch, "interval": argv[0], "time": strconv.FormatInt(now, 10)}
	for b, x := range earned {
		hash[fmt.Sprint("e", b)] = strconv.FormatInt(x, 10)
	}
	for b, x := range spent {
		hash[fmt.Sprint("r", b)] = strconv.FormatInt(x, 10)
	}
	m.keys[keys[0]] = &entry{hash: hash, expires: now + 2000*interval}
	return append([]any{now, epoch, since, counted, total, max(reserve-used, 0)}, lots...)
}
