package redis

import "github.com/verdictproxy/verdict/pkg/budget"

// A window counts what happened here in the current time bucket and the 49 before it, by the
// monotonic clock.
type window struct {
	width int64 // of a bucket, ns
	end   int64 // of the current bucket
	cur   *counts
	slots [budget.Buckets]counts
}

type counts struct{ bucket, firsts, retries, refused int64 }

// at returns the counts of the bucket of now.
func (w *window) at(now int64) *counts {
	if now < w.end && w.cur != nil { // a clock that steps back counts on where it was
		return w.cur
	}
	bucket := now / w.width
	w.cur, w.end = &w.slots[uint64(bucket)%budget.Buckets], (bucket+1)*w.width
	if w.cur.bucket != bucket {
		*w.cur = counts{bucket: bucket}
	}
	return w.cur
}

func (w *window) sum(now int64) (sum counts) {
	bucket := now / w.width
	for _, s := range w.slots {
		if s.bucket > bucket-budget.Buckets && s.bucket <= bucket {
			sum.firsts += s.firsts
			sum.retries += s.retries
			sum.refused += s.refused
		}
	}
	return sum
}
