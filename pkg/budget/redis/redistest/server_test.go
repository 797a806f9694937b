package redistest

import (
	"errors"
	"net"
	"testing"
	"time"
)

// A port that somebody holds for a moment costs a server no more than that moment.
func TestPortTaken(t *testing.T) {
	for name, binary := range Binaries(t) {
		t.Run(name, func(t *testing.T) { testPortTaken(t, binary) })
	}
}

func testPortTaken(t *testing.T, binary string) {
	s := Start(t, binary)
	s.Kill()
	l, err := net.Listen("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.start(nil); !errors.Is(err, errPortTaken) {
		t.Errorf("a server whose port is taken: %v", err)
	}
	time.AfterFunc(200*time.Millisecond, func() { l.Close() })
	s.Restart()
	if got := Dial(t, s.Address).Do("PING"); got != "PONG" {
		t.Errorf("ping: %v", got)
	}
}
