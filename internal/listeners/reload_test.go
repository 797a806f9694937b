package listeners

import (
	"bytes"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/test/pki"
)

// shown is the certificate that the listener shows to a good client.
func (l *lab) shown() string {
	l.t.Helper()
	conn, err := l.dial(l.good())
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	return string(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw)
}

// TestRotation: under load the certificate changes, and with it the key, several times; no connection
// fails, and one that was open before stays.
func TestRotation(t *testing.T) {
	l := start(t, nil)
	open, err := l.dial(l.good())
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	good := l.good()
	var connected atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := l.try(good); err != nil {
					t.Errorf("after %d connections: %v", connected.Load(), err)
					return
				}
				connected.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 5 {
		before, certificate := l.listener.NotAfter(), l.servers.Server(t)
		was := l.shown()
		certificate.Write(t, l.dir, "server") // first one file, then the other
		l.wait("the new certificate is shown", func() bool { return l.shown() != was })
		if l.listener.NotAfter().Before(before) {
			t.Error("NotAfter went back")
		}
	}
	close(stop)
	load.Wait()
	if err := ask(open); err != nil {
		t.Errorf("the connection that was open: %v", err)
	}
	if connected.Load() == 0 {
		t.Error("there was no load")
	}
}

// TestBrokenFiles: what is not good does not replace what was, is said once, and is got over.
func TestBrokenFiles(t *testing.T) {
	l := start(t, nil)
	was := l.shown()
	other := l.servers.Server(t)
	for _, test := range []struct {
		name   string
		change func()
		says   string
	}{
		{"a new certificate with the old key", func() { pki.WriteFile(t, l.settings.Tls.CertFile, other.Cert) }, "listeners.data_plane.tls.cert_file"},
		{"no certificate in the file", func() { pki.WriteFile(t, l.settings.Tls.CertFile, []byte("soon")) }, "failed to find any PEM data"},
		{"no key in the file", func() { pki.WriteFile(t, l.settings.Tls.KeyFile, other.Cert) }, "tls.key_file"},
		{"half a file", func() { pki.WriteFile(t, l.settings.Tls.CertFile, other.Cert[:len(other.Cert)/2]) }, "tls.cert_file"},
		{"no file", func() { os.Remove(l.settings.Tls.KeyFile) }, "no such file"},
		{"an empty list of authorities", func() { pki.WriteFile(t, *l.settings.Tls.ClientCaFile, nil) }, "client_ca_file: " + *l.settings.Tls.ClientCaFile + ": no certificate is in it"},
		{"a list that breaks off", func() {
			pki.WriteFile(t, *l.settings.Tls.ClientCaFile, append(slices.Clone(l.clients.PEM), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...))
		}, "certificate 2: "},
		{"a list that is being written", func() {
			pki.WriteFile(t, *l.settings.Tls.ClientCaFile, append(slices.Clone(l.clients.PEM), l.clients.PEM[:len(l.clients.PEM)/2]...))
		}, "2 certificates begin in it, and 1 can be read"},
		{"a chain that is being written", func() {
			mine, _ := os.ReadFile(l.settings.Tls.CertFile)
			pki.WriteFile(t, l.settings.Tls.CertFile, append(mine, l.servers.PEM[:len(l.servers.PEM)/2]...))
		}, "tls.cert_file: " + l.settings.Tls.CertFile + ": 2 certificates begin"},
		{"a key among the authorities", func() {
			pki.WriteFile(t, *l.settings.Tls.ClientCaFile, append(slices.Clone(l.clients.PEM), other.Key...))
		}, "a PRIVATE KEY is in it"},
		{"a pipe that nobody writes into", func() {
			os.Remove(l.settings.Tls.CertFile)
			if err := syscall.Mkfifo(l.settings.Tls.CertFile, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is no regular file"},
		{"a file without end", func() { pki.WriteFile(t, l.settings.Tls.CertFile, make([]byte, maxFileBytes+1)) }, "has more than"},
	} {
		good := make(map[string][]byte)
		for _, path := range paths(l.settings.Tls) {
			good[path], _ = os.ReadFile(path)
		}
		lines := func() int { return strings.Count(l.log.String(), test.says) }
		before := lines()
		test.change()
		l.wait(test.name+" is said", func() bool { return lines() > before })
		time.Sleep(50 * time.Millisecond) // a few more looks
		if said := lines() - before; said != 1 {
			t.Errorf("%s: it is said %d times", test.name, said)
		}
		if l.shown() != was {
			t.Errorf("%s: another certificate is shown", test.name)
		}
		for path, data := range good {
			if now, _ := readFile(path); !bytes.Equal(now, data) {
				pki.WriteFile(t, path, data)
			}
		}
		l.wait(test.name+" is got over", func() bool {
			l.listener.reading.Lock()
			defer l.listener.reading.Unlock()
			return l.listener.trouble == ""
		})
	}
	if strings.Contains(l.log.String(), "BEGIN") {
		t.Error("a file's content is in the log")
	}
	other.Write(t, l.dir, "server")
	l.wait("a good pair is taken", func() bool { return l.shown() != was })
}

// TestAuthorityRotation: old, then both, then new; each client gets in exactly while its authority is listed.
func TestAuthorityRotation(t *testing.T) {
	l := start(t, nil)
	next := pki.NewAuthority(t, "clients")
	old, young := l.good(), l.client(next.Client(t, listed))
	open, err := l.dial(old)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	for _, step := range []struct {
		trusted    []byte
		old, young bool
	}{
		{l.clients.PEM, true, false},
		{append(append([]byte{}, l.clients.PEM...), next.PEM...), true, true},
		{next.PEM, false, true},
	} {
		pki.WriteFile(t, *l.settings.Tls.ClientCaFile, step.trusted)
		l.wait("the authorities are read", func() bool {
			return (l.try(old) == nil) == step.old && (l.try(young) == nil) == step.young
		})
	}
	if err := ask(open); err != nil {
		t.Errorf("the connection that was open: %v", err)
	}
}

// TestNoResumption: a client that has been here before is looked at again.
func TestNoResumption(t *testing.T) {
	l := start(t, nil)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := l.good()
		c.MaxVersion, c.ClientSessionCache = version, tls.NewLRUClientSessionCache(8)
		for range 3 {
			conn, err := l.dial(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := ask(conn); err != nil {
				t.Fatal(err)
			}
			if conn.(*tls.Conn).ConnectionState().DidResume {
				t.Errorf("%s: a session was resumed", tls.VersionName(version))
			}
			conn.Close()
		}
	}
}

// TestPrepare: other names hold from the next connection on; settings that are not good change nothing.
func TestPrepare(t *testing.T) {
	l := start(t, nil)
	old, young := l.good(), l.client(l.clients.Client(t, "young.example"))
	open, err := l.dial(old)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	// The files that are in force do, whatever stands in their place.
	pki.WriteFile(t, l.settings.Tls.CertFile, nil)
	apply, err := l.listener.Prepare(&retryv1.Listener{Tls: l.settings.Tls, AllowedClients: []string{"young.example"}})
	if err != nil {
		t.Fatal(err)
	}
	if l.try(old) != nil || l.try(young) == nil {
		t.Error("the new list holds before its time")
	}
	apply()
	check := func() {
		t.Helper()
		if l.try(old) == nil || l.try(young) != nil {
			t.Error("the new list does not hold")
		}
	}
	check()
	missing := filepath.Join(l.dir, "missing")
	_, err = l.listener.Prepare(&retryv1.Listener{Tls: &retryv1.ServerTLS{CertFile: l.settings.Tls.CertFile, KeyFile: missing}})
	if err == nil || !strings.Contains(err.Error(), "listeners.data_plane.tls.key_file: open "+missing) {
		t.Errorf("the error is %v", err)
	}
	check()
	l.listener.Reload()
	check()
	if err := ask(open); err != nil {
		t.Errorf("the connection that was open: %v", err)
	}
}

// TestStart: what cannot be read names its field, and the listener stays the caller's.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	cert, key := pki.NewAuthority(t, "a").Server(t).Write(t, dir, "a")
	_, other := pki.NewAuthority(t, "b").Server(t).Write(t, dir, "b")
	missing := filepath.Join(dir, "missing")
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	for says, tls := range map[string]*retryv1.ServerTLS{
		"listeners.admin.tls.cert_file: open " + missing:                                   {CertFile: missing, KeyFile: key},
		"listeners.admin.tls.key_file: open " + missing:                                    {CertFile: cert, KeyFile: missing},
		"listeners.admin.tls.client_ca_file: open " + missing:                              {CertFile: cert, KeyFile: key, ClientCaFile: &missing},
		"listeners.admin.tls.client_ca_file: " + key + ": a PRIVATE KEY is in it":          {CertFile: cert, KeyFile: key, ClientCaFile: &key},
		"listeners.admin.tls.cert_file " + cert + ", tls.key_file " + other + ": tls: pri": {CertFile: cert, KeyFile: other},
		"listeners.admin.tls.cert_file: " + dir + ": is no regular file":                   {CertFile: dir, KeyFile: key},
	} {
		if _, err := NewTLS(inner, "admin", &retryv1.Listener{Tls: tls}, nil, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	if conn, err := net.Dial("tcp", inner.Addr().String()); err != nil {
		t.Errorf("the listener was closed: %v", err)
	} else {
		conn.Close()
	}
}

// TestExpiredOwn: that it is the listener's own certificate which has expired is said.
func TestExpiredOwn(t *testing.T) {
	l := start(t, nil)
	l.servers.Client(t, "localhost", pki.Expired).Write(t, l.dir, "server")
	l.wait("it is said", func() bool { return strings.Contains(l.log.String(), "the certificate of a listener has expired") })
}
