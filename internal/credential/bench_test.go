package credential

import (
	"strings"
	"testing"
)

// BenchmarkAttempt is what a credential costs an attempt: the current one and its mark, of a token of
// about 1 KiB, as a JWT has.
func BenchmarkAttempt(b *testing.B) {
	f, s := benchSource(b)
	defer f.Close()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			authorization, err := s.Current(b.Context())
			if err != nil || s.Mark(authorization) == "" {
				b.Error("no credential, or no mark")
			}
		}
	})
}

// BenchmarkRecognize is what a 401 costs: one of ours, and one that is not.
func BenchmarkRecognize(b *testing.B) {
	f, s := benchSource(b)
	defer f.Close()
	ours, err := s.Current(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	mark := s.Mark(ours)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			s.RecognizeMarked(ours, mark)
		}
	})
	b.Run("forged", func(b *testing.B) {
		for b.Loop() {
			s.RecognizeMarked(ours+"x", mark)
		}
	})
}

func benchSource(b *testing.B) (*fixture, *Source) {
	e := newEndpoint(b)
	e.answers(says(`{"access_token":"` + strings.Repeat("x", 1024) + `"}`))
	f := start(b, oauth(e.URL, ""))
	return f, f.Source("app")
}
