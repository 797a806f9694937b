package decisionapi

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"sync"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// maxGrants is how many grants can still be returned; an older one counts as spent. A slot takes about
// 100 bytes.
const maxGrants = 1 << 16

// Grants keeps the tokens that API callers hold, under names that cannot be guessed.
type Grants struct {
	mu    sync.Mutex
	last  uint64      // from 1
	slots []keptGrant // maxGrants, from the first grant on
}

type keptGrant struct {
	number  uint64 // 0: empty
	secret  uint64
	account budget.Account
	grant   budget.Grant
}

// NewGrants returns an empty one.
func NewGrants() *Grants { return new(Grants) }

// keep returns the grant's name: its number, and what only its holder knows.
func (g *Grants) keep(a budget.Account, grant budget.Grant) string {
	k := keptGrant{account: a, grant: grant, secret: rand.Uint64()} // ChaCha8, seeded by the system
	g.mu.Lock()
	if g.slots == nil {
		g.slots = make([]keptGrant, maxGrants)
	}
	g.last++
	k.number = g.last
	g.slots[k.number%maxGrants] = k
	g.mu.Unlock()
	return grantName(k.number, k.secret)
}

// giveBack returns a grant at most once. A name that was never given, or that was used, changes nothing.
func (g *Grants) giveBack(name string) {
	raw, err := hex.DecodeString(name)
	if err != nil || len(raw) != 16 {
		return
	}
	number, secret := binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])
	g.mu.Lock()
	if g.slots == nil {
		g.mu.Unlock()
		return
	}
	slot := &g.slots[number%maxGrants]
	kept := *slot
	ok := number != 0 && kept.number == number && kept.secret == secret
	if ok {
		*slot = keptGrant{}
	}
	g.mu.Unlock()
	if ok {
		kept.account.Return(kept.grant)
	}
}

func grantName(number, secret uint64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], number)
	binary.BigEndian.PutUint64(raw[8:], secret)
	var name [32]byte
	hex.Encode(name[:], raw[:])
	return string(name[:])
}
