package console

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// admin notes what it was asked to drain.
type admin struct {
	retryv1.UnimplementedAdminServiceServer
	drain  func(string) error
	caller *peer.Peer // of the last call
}

func (a *admin) DrainUpstream(ctx context.Context, req *retryv1.DrainUpstreamRequest) (*retryv1.DrainUpstreamResponse, error) {
	a.caller, _ = peer.FromContext(ctx)
	return new(retryv1.DrainUpstreamResponse), a.drain(req.GetUpstream())
}

type lab struct {
	*Console
	drained []string
	admin   *admin
	url     string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := new(lab)
	switches := &admin{drain: func(upstream string) error {
		if upstream == "full" {
			return status.Error(codes.ResourceExhausted, "too many upstreams are drained")
		}
		l.drained = append(l.drained, upstream)
		return nil
	}}
	c, err := New(Options{
		Decisions: retryv1.UnimplementedDecisionServiceServer{}, Budgets: retryv1.UnimplementedBudgetServiceServer{},
		Ledger: retryv1.UnimplementedLedgerServiceServer{}, Admin: switches,
		Counts: func() map[string]*telemetry.Counts { return map[string]*telemetry.Counts{"app": {Upstream: "app"}} },
		Cases:  func() (int, uint64) { return 3, 4 }, Draining: func() bool { return true },
		Shadow:    func(upstream string) bool { return upstream == "app" },
		DataPlane: "127.0.0.1:<9002>", Every: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Console, l.admin = c, switches
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Stop)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	l.url = server.URL
	return l
}

func (l *lab) do(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

const drainCall = Path + "call/retry.v1.AdminService/DrainUpstream"

// TestHeaders: whatever is answered, the browser is told to trust nothing else.
func TestHeaders(t *testing.T) {
	l := newLab(t)
	for _, path := range []string{Path, Path + "assets/main.js", Path + "assets/style.css", Path + "assets/icon.svg", Path + "nothing", drainCall} {
		resp, body := l.do(t, "GET", path, "")
		h := resp.Header
		csp := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: no %s in %q", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
		if path == Path && (strings.Contains(body, "<9002>") || !strings.Contains(body, "127.0.0.1:&lt;9002&gt;") || strings.Contains(body, "{{") || strings.Contains(body, "://")) {
			t.Errorf("the page:\n%s", body)
		}
		if path == drainCall && resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET of a call: status %d", resp.StatusCode)
		}
	}
}

// TestWhoMayCall: what a browser sends for another site's page, or under a name that somebody else may
// own, changes nothing.
func TestWhoMayCall(t *testing.T) {
	l := newLab(t)
	host := strings.TrimPrefix(l.url, "http://")
	port := host[strings.LastIndexByte(host, ':'):]
	for _, test := range []struct {
		name   string
		header []string
		want   int
	}{
		{"the page", []string{"Origin", l.url, "Sec-Fetch-Site", "same-origin"}, 200},
		{"a program", nil, 200},
		{"an old browser's page", []string{"Origin", l.url}, 200},
		{"localhost", []string{"Host", "localhost" + port, "Origin", "http://localhost" + port}, 200},
		{"IPv6", []string{"Host", "[::1]" + port, "Origin", "http://[::1]" + port}, 200},
		{"another site", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of this machine", []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, 403},
		{"another site, an old browser", []string{"Origin", "https://evil.example"}, 403},
		{"a sandboxed frame", []string{"Origin", "null", "Sec-Fetch-Site", "cross-site"}, 403},
		{"a name that was made to lead here", []string{"Host", "evil.example" + port, "Origin", "http://evil.example" + port, "Sec-Fetch-Site", "same-origin"}, 421},
		{"one that looks like an address", []string{"Host", "127.0.0.1.evil.example"}, 421},
		{"one that looks local", []string{"Host", "evillocalhost"}, 421},
		{"a form", []string{"Content-Type", "text/plain"}, 415},
		{"a form's own type", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"no type", []string{"Content-Type", ""}, 415},
	} {
		l.drained = nil
		resp, body := l.do(t, "POST", drainCall, `{"upstream":"app"}`, append([]string{"Content-Type", "application/json"}, test.header...)...)
		if resp.StatusCode != test.want || (len(l.drained) == 1) != (test.want == 200) {
			t.Errorf("%s: status %d, want %d; drained %q\n%s", test.name, resp.StatusCode, test.want, l.drained, body)
		}
		if test.want != 200 {
			wantWords(t, body)
		}
	}
	for _, path := range []string{"live", "assets/main.js"} {
		if resp, _ := l.do(t, "GET", Path+path, "", "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 403 {
			t.Errorf("%s for another site's page: status %d", path, resp.StatusCode)
		}
	}
	if resp, _ := l.do(t, "GET", Path, "", "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 200 {
		t.Errorf("a link to the page: status %d", resp.StatusCode)
	}
	if resp, _ := l.do(t, "GET", Path, "", "Host", "evil.example"); resp.StatusCode != 421 {
		t.Errorf("the page under another name: status %d", resp.StatusCode)
	}
	if !hostOK(&http.Request{Host: "verdict.example", TLS: new(tls.ConnectionState)}) {
		t.Error("with TLS a name is refused")
	}
}

func wantWords(t *testing.T, body string) {
	t.Helper()
	var f failure
	if err := json.Unmarshal([]byte(body), &f); err != nil || len(f.Message) < 10 {
		t.Errorf("%q says nothing: %v", body, err)
	}
}

// TestCalls: errors come in words, and only what the page needs can be called.
func TestCalls(t *testing.T) {
	l := newLab(t)
	for _, test := range []struct {
		path, body string
		want       int
	}{
		{drainCall, `{"upstream":"full"}`, 429},
		{drainCall, `{"upstream":7}`, 400},
		{drainCall, `{"upstreams":"app"}`, 400},
		{drainCall, `[`, 400},
		{drainCall, ``, 400},
		{drainCall, `"` + strings.Repeat("x", maxRequest) + `"`, 413},
		{Path + "call/retry.v1.LedgerService/Get", `{}`, 500},
		{Path + "call/retry.v1.DecisionService/Decide", `{}`, 404},
		{Path + "call/retry.v1.BudgetService/Withdraw", `{}`, 404},
		{Path + "call/retry.v1.AdminService/..%2fDrainUpstream", `{}`, 404},
	} {
		resp, body := l.do(t, "POST", test.path, test.body, "Content-Type", "application/json")
		if resp.StatusCode != test.want {
			t.Errorf("%s %.30s: status %d, want %d: %s", test.path, test.body, resp.StatusCode, test.want, body)
		}
		wantWords(t, body)
	}
	if resp, body := l.do(t, "POST", drainCall, `{"upstream":"app"}`, "Content-Type", "application/json; charset=utf-8"); resp.StatusCode != 200 || body != "{}" {
		t.Errorf("status %d, %s", resp.StatusCode, body)
	}
	if host, _, err := net.SplitHostPort(l.admin.caller.Addr.String()); host != "127.0.0.1" {
		t.Errorf("the caller is %v, %v", l.admin.caller, err)
	}
}

// TestCaller: who was named by a certificate is named to the service.
func TestCaller(t *testing.T) {
	certificate := &x509.Certificate{DNSNames: []string{"on-call.example"}}
	r := &http.Request{RemoteAddr: "@", TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}}
	p, ok := peer.FromContext(asCaller(r))
	info, isTLS := p.AuthInfo.(credentials.TLSInfo)
	if !ok || !isTLS || info.State.PeerCertificates[0] != certificate || p.Addr.String() != "@" {
		t.Errorf("%v", p)
	}
}

// TestOptions: the page offers every word of an enum.
func TestOptions(t *testing.T) {
	found, err := options("KillSwitch")
	if err != nil || len(found) != 2 || found[0] != (option{"KILL_SWITCH_OFF", "off"}) {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := options("Nothing"); err == nil {
		t.Error("an enum that is not there")
	}
}
