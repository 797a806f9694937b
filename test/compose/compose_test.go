// Package compose runs docker-compose.yml on a container engine, drives it, takes its parts away one after
// the other, and holds it to what Verdict promises. `make compose-test`
//
// The load generator of the compose file plays the demo's scenarios all the time and compares what the
// client saw with the upstream's own record: see demo/promises.go.
package compose

import (
	"testing"
	"time"
)

const root = "../.."

// hold is how long something stays away: some rounds of health checks, and more than an interval of the
// shortest budget.
const hold = 7 * time.Second

func TestCompose(t *testing.T) {
	p := start(t)
	t.Run("image", p.testImage)
	t.Run("contained", p.testContained)
	t.Run("grafana is provisioned", p.testProvisioning)

	l := newLoad(p, t)
	t.Run("all is well", func(t *testing.T) { l.allAsExpected(t) })
	t.Run("a replica is killed", func(t *testing.T) {
		p.kill(t, "verdict-1")
		l.goesOn(t, hold)
		l.allAsExpected(t) // by the other one
		p.revive(t, "verdict-1")
	})
	t.Run("both replicas are killed", func(t *testing.T) {
		p.kill(t, "verdict-1")
		p.kill(t, "verdict-2")
		l.goesOn(t, hold)
		l.healthyAnswersPass(t)
		p.revive(t, "verdict-1")
		p.revive(t, "verdict-2")
		l.allAsExpected(t)
	})
	t.Run("the store is killed", func(t *testing.T) {
		p.kill(t, "valkey")
		l.withoutStore(t)
		p.revive(t, "valkey")
		l.storeIsBack(t)
	})
	t.Run("the store is cut off", func(t *testing.T) {
		id, network := p.container(t, "valkey"), name+"_store"
		docker(t, "network", "disconnect", network, id)
		l.withoutStore(t)
		docker(t, "network", "connect", "--alias", "valkey", network, id)
		l.storeIsBack(t)
	})
	t.Run("the upstream is killed", func(t *testing.T) {
		p.kill(t, "upstream")
		l.goesOn(t, hold)
		p.revive(t, "upstream")
	})
	t.Run("all is well again", func(t *testing.T) { l.allAsExpected(t) })

	t.Run("what docs/compose.md says to try", p.testReadme)
	t.Run("promises", l.testPromises)
	t.Run("ledger", func(t *testing.T) { p.testLedger(t, l) })
	t.Run("payment law", p.testPaymentLaw)
	t.Run("dashboard", p.testDashboard)
	t.Run("down leaves nothing", p.testDown)
}
