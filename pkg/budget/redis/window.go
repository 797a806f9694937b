package redis

import "github.com/verdictproxy/verdict/pkg/budget"

// A window counts what happened here in the current time bucket and the 49 before it, by the
// monotonic clock.
type window struct {
	slots [budget.Buckets]counts
}

type counts struct{ bucket, firsts, retries, refused int64 }

func (w *window) slot(bucket int64) *counts {
	s := &w.slots[uint64(bucket)%budget.Buckets]
	if s.bucket != bucket {
		*s = counts{bucket: bucket}
	}
	return s
}

func (w *window) sum(bucket int64) (sum counts) {
	for _, s := range w.slots {
		if s.bucket > bucket-budget.Buckets && s.bucket <= bucket {
			sum.firsts += s.firsts
			sum.retries += s.retries
			sum.refused += s.refused
		}
	}
	return sum
}
