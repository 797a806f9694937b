package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/redis/redistest"
)

// A fleet behind a Sentinel whose master dies: it goes on at the replica, whose past is not believed.
// While both may have been masters, each may have spent the reserve.
func TestSentinelFailover(t *testing.T) {
	sentinel, master, replica := redistest.StartFailover(t, redistest.Binary(t))
	f := &fleet{
		T: t, rnd: newRand(1), dir: t.TempDir(), accounts: 1, server: master,
		settings: budget.Settings{Ratio: 200, Reserve: 10, Interval: time.Second},
	}
	f.sentinel = sentinel
	const run = 9 * time.Second
	for range 4 {
		f.spawn(run, 4*time.Millisecond, 0.5)
	}
	time.Sleep(2 * time.Second)
	died := machineClock()
	master.Kill()
	eventually(t, "the replica is the master", func() bool { return strings.Contains(redistest.Role(replica.Address), "master") })
	promoted := machineClock()
	f.ended.Wait()
	events := f.events()
	before, after, reserve := 0, 0, 0
	for _, e := range events {
		if e.Kind != budget.KindGrant {
			continue
		}
		if e.Mono < died {
			before++
		} else if e.Mono > promoted {
			after++
			if e.Source == budget.SourceReserve {
				reserve++
			}
		}
	}
	t.Logf("fail-over in %v; %d grants before, %d after, %d of them of the new master's reserve",
		time.Duration(promoted-died), before, after, reserve)
	if before < 50 || after < 50 || reserve < 10 {
		t.Error("too few grants")
	}
	f.settings.Reserve *= 2
	if err := f.check(events); err != nil {
		t.Error(err)
	}
}
