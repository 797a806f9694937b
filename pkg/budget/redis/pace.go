package redis

// At most 100 calls in any second to one account: 80 a second and 20 at once.
const (
	callEvery = int64(1e9) / 80
	callBurst = 20
)

// A pace bounds the calls to one account. The zero value is full.
type pace struct{ next int64 }

// at is the instant from which on a call is allowed, at most 0 if at once.
func (p *pace) at() int64 { return p.next - (callBurst-1)*callEvery }

// take counts a call, if it is allowed now.
func (p *pace) take(now int64) bool {
	if now < p.at() {
		return false
	}
	p.next = max(p.next, now) + callEvery
	return true
}
