package app

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// shown is an account as `extproc budget` writes it; protojson writes 64-bit integers as strings.
type shown struct {
	Upstream    string
	EarnedMilli int64 `json:",string"`
	ReserveLeft int64 `json:",string"`
	Firsts      int64 `json:"firstAttempts,string"`
	Retries     int64 `json:",string"`
	RatioMilli  uint32
	Reserve     uint32
	Interval    string
}

func accounts(t *testing.T, args ...string) (all []shown) {
	t.Helper()
	code, out, errors := command(t, append([]string{"budget"}, args...)...)
	if code != 0 {
		t.Fatalf("%q: exit code %d\n%s", args, code, errors)
	}
	for line := range strings.Lines(out) {
		var a shown
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, a)
	}
	return all
}

// What is shown of a shared account: the fleet's tokens, and this process's own first attempts and retries.
// Without Redis the commands answer all the same.
func TestBudgetCommandsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Binary(t))
	config := file(t, `
budget: {backend: redis, address: "`+server.Address+`"}
defaults: {budget: {ratio: 0.5, min_retries_per_second: 0, interval: 60s}}
`)
	one, two := serve(t, "--drain-time=0s", "--config="+config), serve(t, "--drain-time=0s", "--config="+config)
	get := func(p *program, want shown) {
		t.Helper()
		var got []shown
		defer func() {
			if t.Failed() {
				t.Logf("got %+v, want %+v", got, want)
			}
		}()
		p.wait(t, "the account is shown", func() bool {
			got = accounts(t, "get", want.Upstream, "--server="+p.admin)
			return len(got) == 1 && got[0] == want
		})
	}
	u := shown{Upstream: "u", RatioMilli: 500, Interval: "60s"}
	with := func(earned, firsts, retries int64) shown {
		a := u
		a.EarnedMilli, a.Firsts, a.Retries = earned, firsts, retries
		return a
	}
	get(one, with(0, 0, 0))
	accounts(t, "deposit", "u", "10", "--server="+one.admin)
	get(one, with(5000, 10, 0))
	get(two, with(5000, 0, 0))
	two.wait(t, "two pays from what was earned at one", func() bool {
		code, _, _ := command(t, "budget", "withdraw", "u", "--server="+two.admin)
		return code == 0
	})
	get(two, with(4000, 0, 1))
	get(one, with(4000, 10, 0))
	accounts(t, "deposit", "v", "1", "--server="+two.admin)
	two.wait(t, "all accounts are shown, in order", func() bool {
		all := accounts(t, "list", "--server="+two.admin)
		return len(all) == 2 && all[0].Upstream == "u" && all[0].EarnedMilli == 4000 && all[1].Upstream == "v" && all[1].EarnedMilli == 500
	})

	server.Kill()
	accounts(t, "deposit", "w", "4", "--server="+one.admin)
	w := with(2000, 4, 0)
	w.Upstream = "w"
	get(one, w)
	if all := accounts(t, "list", "--server="+one.admin); len(all) != 2 || all[0].Upstream != "u" || all[1] != w {
		t.Errorf("without Redis: %+v", all)
	}
	server.Restart()
	one.wait(t, "what was earned before is gone, and the new Redis says so", func() bool {
		all := accounts(t, "get", "u", "--server="+two.admin)
		return len(all) == 1 && all[0].EarnedMilli == 0 && all[0].Retries == 1
	})
}
