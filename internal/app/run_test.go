package app

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a whole `extproc serve` in this process.
type program struct {
	dataPlane, admin string
	signal           context.CancelFunc // as SIGTERM does
	log              *buffer
	code             chan int
}

// serve starts the program on free ports, or where args say, and waits until it serves.
func serve(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{signal: cancel, log: &buffer{}, code: make(chan int, 1)}
	args = append([]string{"serve", "--data-plane=127.0.0.1:0", "--admin=127.0.0.1:0"}, args...)
	go func() { p.code <- Run(ctx, args, p.log, p.log) }()
	t.Cleanup(func() {
		cancel()
		p.wantExit(t, 0)
	})
	serving := regexp.MustCompile(`msg=serving data_plane=(\S+) admin=(\S+)`)
	var found []string
	p.wait(t, "the program serves", func() bool {
		found = serving.FindStringSubmatch(p.log.String())
		return found != nil
	})
	p.dataPlane, p.admin = found[1], found[2]
	return p
}

// wait polls for what is to happen within 20 seconds.
func (p *program) wait(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		select {
		case code := <-p.code:
			p.code <- code
			t.Fatalf("waiting until %s: exit code %d\n%s", what, code, p.log)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s\n%s", what, p.log)
		}
	}
}

// wantExit waits for the end. It may be called again.
func (p *program) wantExit(t *testing.T, want int) {
	t.Helper()
	select {
	case code := <-p.code:
		p.code <- code
		if code != want {
			t.Errorf("exit code %d, want %d\n%s", code, want, p.log)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("the program does not end\n%s", p.log)
	}
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = "unix:" + address
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// TestExitCodes: 2 for arguments that are not understood, 1 for what cannot be done, and a message that
// says what.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	takenSocket, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer takenSocket.Close()
	bad := file(t, "defaults:\n  max_attempts: many\n")
	addresses := []string{"--data-plane=127.0.0.1:0", "--admin=127.0.0.1:0"}
	on := func(args ...string) []string { return slices.Concat([]string{"serve"}, addresses, args) }
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{nil, 2, []string{"expected one of"}},
		{[]string{"sreve"}, 2, []string{"unexpected argument sreve"}},
		{[]string{"serve", "--no-such-flag"}, 2, []string{"unknown flag --no-such-flag"}},
		{[]string{"serve", "--drain-time=soon"}, 2, []string{"--drain-time", "soon"}},
		{[]string{"serve", "--log-level=loud"}, 2, []string{`--log-level: "loud" is none of debug, info, warn, error`}},
		{[]string{"serve", "--log-format=xml"}, 2, []string{"--log-format", "xml"}},
		{[]string{"serve", "file.yaml"}, 2, []string{"unexpected argument file.yaml"}},
		{[]string{"--help"}, 0, []string{"Usage: extproc <command>"}},
		{[]string{"why", "--help"}, 0, []string{"127.0.0.1:9003."}},
		{[]string{"why"}, 2, []string{`expected "<id>"`, "See extproc why --help."}},
		{[]string{"undrain"}, 2, []string{"which upstream, or --all?"}},
		{[]string{"ledger", "list", "--limit=-3"}, 2, []string{"--limit", "-3"}},
		{[]string{"ledger", "list", "--state=opn"}, 2, []string{`--state: "opn" is none of`}},
		{[]string{"ledger", "list", "--server=http://127.0.0.1:9003"}, 2, []string{`--server: "http://127.0.0.1:9003" is neither`}},
		{[]string{"decide", "--server=localhost"}, 2, []string{"--server: ", "is neither"}},
		{[]string{"decide", "--deadline=2"}, 2, []string{`--deadline: "2" is neither`}},
		{[]string{"decide", "--stdin", "--method=GET"}, 2, []string{"--stdin: "}},
		{[]string{"health", "--server=unix:" + filepath.Join(dir, "none")}, 1, []string{"none: Unavailable: dial unix ", "Nothing listens there"}},
		{on("--config=" + filepath.Join(dir, "none.yaml")), 1, []string{"none.yaml", "no such file"}},
		{on("--config=" + bad), 1, []string{bad + ":2:17: "}},
		{on("--data-plane=" + taken.Addr().String()), 1, []string{"--data-plane: ", taken.Addr().String(), "address already in use"}},
		{on("--admin=" + taken.Addr().String()), 1, []string{taken.Addr().String(), "address already in use"}},
		{on("--data-plane=unix:" + socket), 1, []string{socket, "another process listens there"}},
		{on("--data-plane=unix:" + bad), 1, []string{bad, "address already in use"}},
		{on("--data-plane=nowhere"), 2, []string{`--data-plane: "nowhere" is neither HOST:PORT nor unix:PATH`, "See extproc serve --help."}},
		{on("--api=http://127.0.0.1:9004"), 2, []string{"--api: ", "is neither"}},
		{on("--admin=127.0.0.1:65536"), 2, []string{"--admin: ", "is neither"}},
		{on("--admin=unix:"), 2, []string{"--admin: ", "is neither"}},
		{on("--ledger-size=0"), 2, []string{"--ledger-size: 0 is less than 1"}},
		{on("--drain-time=-1s"), 2, []string{"--drain-time: -1s is less than 0s"}},
		{on("--event-log=" + dir), 1, []string{"--event-log: ", dir, "is a directory"}},
	} {
		var out buffer
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if code := Run(ctx, test.args, &out, &out); code != test.code {
			t.Errorf("%q: exit code %d, want %d\n%s", test.args, code, test.code, &out)
		}
		cancel()
		for _, word := range test.says {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%q says nothing of %q:\n%s", test.args, word, &out)
			}
		}
	}
}
