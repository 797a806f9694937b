package listeners

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/test/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const listed = "spiffe://example.org/envoy"

// lab is a listener whose connections are echoed, and the authorities around it.
type lab struct {
	t        *testing.T
	dir      string
	servers  *pki.Authority // signs what the listener shows
	clients  *pki.Authority // signs whom it believes
	settings *retryv1.Listener
	listener *TLS
	log      logBuffer

	mu      sync.Mutex
	refused map[Refusal]int
}

// start starts a listener for mTLS with an allow-list, that looks at its files every 10 ms.
func start(t *testing.T, change func(*Options)) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), servers: pki.NewAuthority(t, "servers"), clients: pki.NewAuthority(t, "clients"), refused: make(map[Refusal]int)}
	cert, key := l.servers.Server(t).Write(t, l.dir, "server")
	ca := pki.WriteFile(t, filepath.Join(l.dir, "clients.pem"), l.clients.PEM)
	l.settings = &retryv1.Listener{
		Tls:            &retryv1.ServerTLS{CertFile: cert, KeyFile: key, ClientCaFile: &ca},
		AllowedClients: []string{listed, "Envoy.example"},
	}
	o := Options{
		Log:     slog.New(slog.NewTextHandler(&l.log, nil)),
		Refused: func(_ string, why Refusal) { l.mu.Lock(); defer l.mu.Unlock(); l.refused[why]++ },
		Every:   10 * time.Millisecond,
		Timeout: 20 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	inner, err := Open("127.0.0.1:0", 0)
	if err != nil {
		t.Fatal(err)
	}
	if l.listener, err = NewTLS(inner, "data_plane", l.settings, []string{"h2"}, o); err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() {
		l.listener.Close()
		serving.Wait()
	})
	return l
}

// client is how a client with this certificate connects.
func (l *lab) client(certs ...pki.Certificate) *tls.Config {
	c := &tls.Config{RootCAs: pki.Pool(l.servers), ServerName: "localhost", NextProtos: []string{"h2"}}
	for _, cert := range certs {
		c.Certificates = append(c.Certificates, cert.TLS(l.t))
	}
	return c
}

// good is a client that is listed.
func (l *lab) good() *tls.Config { return l.client(l.clients.Client(l.t, listed)) }

func (l *lab) dial(c *tls.Config) (net.Conn, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 20 * time.Second}, "tcp", l.listener.Addr().String(), c)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn, nil
}

// ask sends a word and waits for it: with TLS 1.3 a client learns only then that it is refused.
func ask(conn net.Conn) error {
	if _, err := io.WriteString(conn, "hello"); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, len("hello")))
	return err
}

func (l *lab) try(c *tls.Config) error {
	conn, err := l.dial(c)
	if err != nil {
		return err
	}
	defer conn.Close()
	return ask(conn)
}

func (l *lab) count(why Refusal) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused[why]
}

// wait polls for what is to happen within twenty seconds.
func (l *lab) wait(what string, happened func() bool) {
	l.t.Helper()
	for end := time.Now().Add(20 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("waiting until %s\n%s", what, l.log.String())
		}
	}
}

type logBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
