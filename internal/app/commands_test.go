package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// command runs extproc with the given arguments and returns its exit code and outputs.
func command(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var stdout, stderr strings.Builder
	code = Run(ctx, args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// startService runs `extproc serve` with its API and admin listeners on Unix sockets and returns them.
func startService(t *testing.T, args ...string) (api, admin string) {
	t.Helper()
	dir := t.TempDir()
	api, admin = "unix:"+filepath.Join(dir, "api"), "unix:"+filepath.Join(dir, "admin")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var log strings.Builder // read when the service has ended
	args = append([]string{"serve", "--drain-time=0s", "--data-plane=unix:" + filepath.Join(dir, "data"), "--admin=" + admin, "--api=" + api}, args...)
	go func() { done <- Run(ctx, args, &log, &log) }()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 {
			t.Errorf("serve: exit code %d\n%s", code, &log)
		}
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if code, _, errors := command(t, "budget", "list", "--server="+admin); code == 0 {
			return api, admin
		} else if time.Now().After(end) {
			t.Fatal(errors)
		}
	}
}

func TestDecideAlone(t *testing.T) {
	config := file(t, `
upstreams:
- clusters: [app]
  operations: [{pattern: "POST /search", idempotency: safe}]
`)
	reset := []string{"decide", "--method=POST", "--path=/search?q=1", "--body=bytes", "--deadline=none", "--stage=connection_reset"}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"undeclared", append(reset, "--config="+config, "--upstream=other"), `"verdict":"VERDICT_AMBIGUOUS"`},
		{"declared", append(reset, "--config="+config, "--upstream=app"), `"verdict":"VERDICT_RETRY"`},
		{"tightened", append(reset, "--config="+config, "--upstream=app", "--class=non_idempotent"), `"verdict":"VERDICT_AMBIGUOUS"`},
		{"table", append(reset, "--explain"), "8  possibly_executed           ambiguous(sent_no_response)\n"},
		{"an HTTP answer", []string{"decide", "--method=GET", "--status=404", "--deadline=1s", "--body=none", "--delivery=not_delivered"}, `"reason":"REASON_STATUS_NOT_RETRYABLE"`},
		{"Envoy's words", []string{"classify", "--details=no_healthy_upstream", "--wire-bytes=0", "--tries=1"}, "not_sent: "},
		{"a certificate", []string{"classify", "--details=upstream_reset_before_response_started{remote_connection_failure|TLS_error:x}", "--transport=CERTIFICATE_VERIFY_FAILED", "--wire-bytes=0", "--tries=1"}, "not_sent, permanent (certificate): "},
		{"version", []string{"version"}, "go1."},
	} {
		if code, out, errors := command(t, c.args...); code != 0 || !strings.Contains(out, c.want) || errors != "" {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", c.name, code, c.want, out, errors)
		}
	}
}

func TestDecideRefusesBadFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`--class: "sav" is none of idempotent, idempotent_with_key, non_idempotent, safe`: {"decide", "--class=sav"},
		`--deadline: "soon" is neither`:   {"decide", "--deadline=soon"},
		`--header: "x" is not NAME:VALUE`: {"classify", "--header=x"},
		`--stage: it says by itself`:      {"classify", "--stage=dns", "--evidence=not_sent"},
		`--details: it is missing`:        {"classify", "--tries=0"},
		`facts.attempt: must be less`:     {"decide", "--attempt=1000001"},
		`can't be used together`:          {"decide", "--explain", "--stdin"},
		`Unavailable`:                     {"decide", "--server=unix:/nobody/listens/here"},
	} {
		if code, out, errors := command(t, args...); code == 0 || out != "" || !strings.Contains(errors, want) {
			t.Errorf("%q: exit code %d, no %q in\n%s%s", args, code, want, out, errors)
		}
	}
}

// Each line of the input has its line in the output, whatever it is.
func TestDecideLines(t *testing.T) {
	input := strings.Join([]string{
		`{"facts":{"upstream":"app","call":{"method":"GET"},"attempt":1,"body":{"kind":"BODY_KIND_NONE"},"noDeadline":{},"ending":{"observation":{"stage":"STAGE_DNS"}}}}`,
		`{"facts":{"call":5}}`,
		``,
		`{"facts":{"runtime":7}}`,
		`not json`,
		`{"facts":{}}`,
	}, "\n")
	var out, errors strings.Builder
	err := DecideCmd{Stdin: true}.Run(t.Context(), streams{in: strings.NewReader(input), out: &out, err: &errors})
	if err != errReported {
		t.Errorf("%v", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{`"VERDICT_RETRY"`, `{"error":{"code":3,`, `"field":"facts.runtime"`, `{"error":{"code":3,`, `"REASON_MAX_ATTEMPTS"`} {
		if len(lines) != 5 || !strings.Contains(lines[i], want) {
			t.Fatalf("no %q in line %d of\n%s", want, i, &out)
		}
	}
	for _, want := range []string{"line 2: ", "line 4: facts.runtime: ", "line 5: "} {
		if !strings.Contains(errors.String(), want) {
			t.Errorf("no %q in\n%s", want, &errors)
		}
	}
}

// A line that is too long ends the answers, and is named.
func TestDecideLinesTooLong(t *testing.T) {
	input := `{"facts":{}}` + "\n" + strings.Repeat("a", maxLine+1) + "\n" + `{"facts":{}}`
	var out, errors strings.Builder
	err := DecideCmd{Stdin: true}.Run(t.Context(), streams{in: strings.NewReader(input), out: &out, err: &errors})
	if err == nil || !strings.HasPrefix(err.Error(), "line 2, and what is behind it, is not answered: it has more than 1048576 bytes") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v\n%s%s", err, &out, &errors)
	}
}

// A command that asks a server that is not what it means says so.
func TestCommandsAgainstAnotherServer(t *testing.T) {
	api, _ := startService(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for server, want := range map[string]string{
		api:                          "This listener does not answer that: ask the admin listener.",
		web.Listener.Addr().String(): "An HTTP server answers there, and not Verdict",
	} {
		if code, _, errors := command(t, "drain", "--server="+server); code != 1 || !strings.Contains(errors, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s", server, code, want, errors)
		}
	}
}

func TestCommandsAgainstAService(t *testing.T) {
	api, admin := startService(t)
	refused := []string{"decide", "--server=" + api, "--upstream=app", "--method=GET", "--body=none", "--deadline=none", "--stage=connect"}
	for _, step := range []struct {
		code int
		args []string
		want string
	}{
		{0, refused, `"grant":"`},
		{0, []string{"budget", "get", "app", "--server=" + api}, `"retries":"1"`},
		{0, []string{"budget", "deposit", "app", "5", "--server=" + api}, ""},
		{0, []string{"budget", "withdraw", "app", "--server=" + api}, `"source":"SOURCE_EARNED"`},
		{0, []string{"budget", "list", "--server=" + admin}, `"firstAttempts":"5"`},
		{1, []string{"budget", "deposit", "app", "0", "--server=" + api}, "deposits[0].first_attempts"},
		{0, []string{"drain", "app", "--server=" + admin}, `"upstreams":["app"]`},
		{0, refused, "REASON_RUNTIME_DRAINING"},
		{0, []string{"undrain", "app", "--server=" + admin}, `"upstreams":[]`},
		{0, []string{"budget", "drain", "app", "--server=" + admin}, `"upstreams":["app"]`},
		{0, refused, "REASON_RUNTIME_DRAINING"},
		{0, []string{"undrain", "app", "--server=" + admin}, `"upstreams":[]`},
		{0, refused, "VERDICT_RETRY"},
		{0, []string{"drain", "--all", "--server=" + admin}, "KILL_SWITCH_ON"},
		{0, refused, "REASON_RUNTIME_DRAINING"},
		{0, []string{"undrain", "--all", "--server=" + admin}, "KILL_SWITCH_OFF"},
		{0, append(refused, "--explain"), "retry, by rule 9"},
		// The operator's switches are not on the API's listener.
		{1, []string{"drain", "app", "--server=" + api}, "Unimplemented"},
	} {
		code, out, errors := command(t, step.args...)
		if code != step.code || !strings.Contains(out+errors, step.want) {
			t.Errorf("%q: exit code %d, want %d, no %q in\n%s%s", step.args, code, step.code, step.want, out, errors)
		}
	}
}

// A watcher is told at once, and its end does not hold up the service's.
func TestBudgetWatch(t *testing.T) {
	api, admin := startService(t)
	for _, server := range []string{api, admin} {
		reader, writer := pipe(t)
		ctx, cancel := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		go func() {
			watched <- BudgetWatchCmd{Admin: Admin{Server: server}, Every: 100 * time.Millisecond}.Run(ctx, streams{out: writer})
		}()
		if code, _, errors := command(t, "budget", "deposit", "app", "1", "--server="+server); code != 0 {
			t.Fatal(errors)
		}
		if line := reader(); !strings.Contains(line, `"upstream":"app"`) {
			t.Errorf("%q", line)
		}
		cancel()
		if err := <-watched; err != nil {
			t.Error(err)
		}
	}
}

// plain HTTP and gRPC share the admin listener.
func TestAdminListenerIsPlainHTTPToo(t *testing.T) {
	_, admin := startService(t)
	client := &http.Client{Transport: &http.Transport{DialContext: dialUnix(strings.TrimPrefix(admin, "unix:")), DisableKeepAlives: true}}
	for _, path := range []string{"/healthz", "/metrics"} {
		resp, err := client.Get("http://admin" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// What is drained holds in the replica that was told.
func TestDrainIsOfOneReplica(t *testing.T) {
	_, told := startService(t)
	_, other := startService(t)
	for _, step := range []struct{ args, want string }{
		{"drain app --server=" + told, `{"killSwitch":"KILL_SWITCH_OFF","upstreams":["app"]}`},
		{"drain --all --server=" + told, `{"killSwitch":"KILL_SWITCH_ON","upstreams":["app"]}`},
		{"drain --server=" + other, `{"killSwitch":"KILL_SWITCH_OFF","upstreams":[]}`},
	} {
		if code, out, errors := command(t, strings.Fields(step.args)...); code != 0 || strings.TrimSpace(out) != step.want {
			t.Errorf("%s: exit code %d\n%s%s", step.args, code, out, errors)
		}
	}
}

func TestLedgerCommands(t *testing.T) {
	api, admin := startService(t)
	for range 3 {
		code, out, errors := command(t, "decide", "--server="+api, "--upstream=app", "--method=POST", "--path=/pay", "--key=k", "--body=bytes", "--deadline=none", "--stage=connection_reset", "--request-id=r-1")
		if code != 0 || !strings.Contains(out, `"caseId"`) {
			t.Fatalf("exit code %d\n%s%s", code, out, errors)
		}
	}
	for limit, want := range map[string]int{"0": 3, "2": 2, "100": 3} {
		if code, out, errors := command(t, "ledger", "list", "--limit="+limit, "--server="+admin); code != 0 || strings.Count(out, "\n") != want {
			t.Errorf("limit %s: exit code %d, want %d lines:\n%s%s", limit, code, want, out, errors)
		}
	}
	for want, args := range map[string][]string{
		`"idempotencyKey":"k"`: {"--upstream=app", "--newer=1h", "--state=open"},
		"":                     {"--older=1h"},
		`--state: "closed" is`: {"--state=closed"},
	} {
		if _, out, errors := command(t, append([]string{"ledger", "list", "--server=" + admin}, args...)...); !strings.Contains(out+errors, want) || want == "" && out != "" {
			t.Errorf("%q: no %q in\n%s%s", args, want, out, errors)
		}
	}
}

func TestWhy(t *testing.T) {
	api, admin := startService(t)
	for attempt, stage := range []string{"connect", "connection_reset"} {
		code, _, errors := command(t, "decide", "--server="+api, "--upstream=app", "--method=POST", "--path=/pay", "--body=bytes", "--deadline=none",
			"--stage="+stage, "--request-id=r-1", "--attempt="+strconv.Itoa(attempt+1), "--executed=not_executed", "--certainty=certain")
		if code != 0 {
			t.Fatal(errors)
		}
	}
	code, out, errors := command(t, "why", "r-1", "--server="+admin)
	if code != 0 || strings.Index(out, "attempt 1: retry, by rule 9") > strings.Index(out, "attempt 2: ambiguous(sent_no_response), by rule 8") {
		t.Errorf("exit code %d\n%s%s", code, out, errors)
	}
	for _, want := range []string{"POST /pay to \"app\"", "evidence sent_no_response, execution unknown, uncertain", "STAGE_CONNECTION_RESET", "\n  case ",
		"\n  9 status_and_failure: retry\n", "\n  7 permanent_failure: -\n  8 possibly_executed: ambiguous(sent_no_response)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code, out, errors := command(t, "why", "r-2", "--server="+admin); code != 1 || out != "" || !strings.Contains(errors, `nothing is remembered of "r-2"`) {
		t.Errorf("exit code %d\n%s%s", code, out, errors)
	}
}
