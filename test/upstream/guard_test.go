package upstream

import "testing"

func TestWhoIsLetIn(t *testing.T) {
	s := start(t)
	c := dial(t, s.Addrs().H1)
	ask := func(id, script string, lines ...string) (status int, challenge string) {
		t.Helper()
		head := append([]string{"POST / HTTP/1.1", "Host: up", "X-Test-Id: " + id, "X-Fault: " + script, "Content-Length: 0"}, lines...)
		c.send(append(head, "", "")...)
		resp, _ := c.response("POST")
		return resp.StatusCode, resp.Header.Get("Www-Authenticate")
	}
	s.Accept("Bearer a")
	s.Accept("Bearer b")
	for i, test := range []struct {
		script string
		lines  []string
		want   int
	}{
		{"guarded", []string{"authorization: Bearer a"}, 200},
		{"guarded", []string{"authorization: Bearer b"}, 200},
		{"guarded:503", []string{"authorization: Bearer b"}, 503},
		{"guarded:503", []string{"authorization: Bearer c"}, 401},
		{"guarded", nil, 401},
		{"guarded", []string{"authorization: Bearer a", "authorization: Bearer a"}, 401},
		{"ok", nil, 200},
	} {
		id := string(rune('a' + i))
		status, challenge := ask(id, test.script, test.lines...)
		if status != test.want || (challenge == "Bearer") != (status == 401) {
			t.Errorf("%s %q: status %d, challenge %q; want %d", test.script, test.lines, status, challenge, test.want)
		}
		effects := 1
		if test.want == 401 {
			effects = 0
		}
		wantHits(t, s, id, 1, effects)
	}
	s.Reject("Bearer a")
	if status, _ := ask("y", "guarded", "authorization: Bearer a"); status != 401 {
		t.Errorf("status %d after it is accepted no more", status)
	}
	if status, _ := ask("z", "guarded", "authorization: Bearer b"); status != 200 {
		t.Errorf("status %d after another was rejected", status)
	}
}
