package credential

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"
)

// replica is another process with the same configuration and the same secret.
func replica(t *testing.T, f *fixture, yaml string) *fixture {
	t.Helper()
	return start(t, strings.ReplaceAll(yaml, "SECRET", f.secret))
}

func TestMarks(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	yaml := oauth(e.URL, "")
	one := start(t, yaml)
	two := replica(t, one, yaml)
	a, b := one.Source("app"), two.Source("app")
	ours, theirs := current(t, a), current(t, b)
	mark := a.Mark(ours)
	if len(mark) != 43 || strings.ContainsFunc(mark, func(c rune) bool { return c <= ' ' || c > '~' }) {
		t.Fatalf("%q", mark)
	}
	if b.Recognize(ours) != NotOurs {
		t.Error("recognized without a mark")
	}
	for _, s := range []*Source{a, b} {
		if got := s.RecognizeMarked(ours, mark); got == NotOurs {
			t.Error("not recognized by its mark")
		}
	}
	if a.RecognizeMarked(ours, "garbage") != Latest || b.RecognizeMarked(ours, mark) != Earlier || b.RecognizeMarked(theirs, "") != Latest {
		t.Error("another origin")
	}
	// What one has not issued, one does not vouch for.
	for _, foreign := range []string{theirs, "Bearer mine", ""} {
		if got := a.Mark(foreign); got != "" {
			t.Errorf("%q is vouched for", foreign)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(mark)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 1
		if b.RecognizeMarked(ours, base64.RawURLEncoding.EncodeToString(raw)) != NotOurs {
			t.Errorf("byte %d does not count", i)
		}
		raw[i] ^= 1
	}
	for name, got := range map[string]Origin{
		"another token":         b.RecognizeMarked("Bearer mine", mark),
		"the token, blank":      b.RecognizeMarked(ours+" ", mark),
		"no mark":               b.RecognizeMarked(ours, ""),
		"half a mark":           b.RecognizeMarked(ours, mark[:20]),
		"a mark and more":       b.RecognizeMarked(ours, mark+"AA"),
		"a line break":          b.RecognizeMarked(ours, mark[:20]+"\n"+mark[20:]),
		"a huge mark":           b.RecognizeMarked(ours, strings.Repeat(mark, 1000)),
		"a huge token":          b.RecognizeMarked(strings.Repeat(ours, 10000), mark),
		"the last bits changed": b.RecognizeMarked(ours, mark[:42]+string(mark[42]+1)),
	} {
		if got != NotOurs {
			t.Errorf("%s: %v", name, got)
		}
	}
	if n := e.requests.Load(); n != 2 {
		t.Errorf("%d requests, want one of each process", n)
	}
}

// A mark holds for one upstream, endpoint, client and secret.
func TestMarksAreBound(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	yaml := oauth(e.URL, "")
	f := start(t, yaml)
	s := f.Source("app")
	ours := current(t, s)
	mark := s.Mark(ours)
	for what, other := range map[string]*Source{
		"upstream": replica(t, f, strings.Replace(yaml, "[app]", "[other]", 1)).Source("other"),
		"endpoint": replica(t, f, oauth(e.URL+"/other", "")).Source("app"),
		"client":   replica(t, f, strings.Replace(yaml, "client_id: me", "client_id: you", 1)).Source("app"),
		"secret":   start(t, strings.Replace(yaml, "SECRET", write(t, "another"), 1)).Source("app"),
		"file":     start(t, tokenFile(write(t, "abc"))).Source("app"),
	} {
		current(t, other)
		if got := other.RecognizeMarked(ours, mark); got != NotOurs {
			t.Errorf("another %s: %v", what, got)
		}
	}
	if got := replica(t, f, oauth(e.URL, ", scopes: [a], endpoint_params: [{name: a, value: b}]")).Source("app").RecognizeMarked(ours, mark); got != Earlier {
		t.Errorf("a replica with a newer configuration: %v", got)
	}
}

// While a client secret is being replaced, replicas meet marks of both, and nobody needs a restart.
func TestMarksWhileTheSecretIsReplaced(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	yaml := oauth(e.URL, "")
	one := start(t, yaml)
	two := replica(t, one, yaml)
	a, b := one.Source("app"), two.Source("app")
	before := current(t, a)
	markBefore := a.Mark(before)
	current(t, b)
	writeTo(t, one.secret, "the next secret")
	if err := refresh(t, a, before); err != nil {
		t.Fatal(err)
	}
	after := current(t, a)
	markAfter := a.Mark(after)
	if b.RecognizeMarked(after, markAfter) != Earlier || b.RecognizeMarked(before, markBefore) != Earlier {
		t.Error("a mark is not recognized")
	}
	if err := os.Remove(one.secret); err != nil {
		t.Fatal(err)
	}
	if b.RecognizeMarked(after, markAfter) != Earlier || b.RecognizeMarked(after, markBefore) != NotOurs {
		t.Error("a secret that is gone changes what is known")
	}
	three := replica(t, one, yaml)
	if three.Source("app").RecognizeMarked(after, markAfter) != NotOurs {
		t.Error("recognized with no secret")
	}
}

// A token file's processes read the same tokens; their holders could forge any mark.
func TestTokenFilesHaveNoMarks(t *testing.T) {
	t.Parallel()
	s := start(t, tokenFile(write(t, "abc"))).Source("app")
	if mark := s.Mark(current(t, s)); mark != "" || s.RecognizeMarked("Bearer abc", "x") != Latest || s.RecognizeMarked("Bearer x", "x") != NotOurs {
		t.Errorf("%q", mark)
	}
}
