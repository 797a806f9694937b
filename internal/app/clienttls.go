package app

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
)

// TLSFlags are how a command speaks to a listener with TLS. Any of them means TLS.
type TLSFlags struct {
	TLS           bool   `name:"tls" help:"The server speaks TLS. Any of the next four says so too."`
	TLSCA         string `name:"tls-ca" placeholder:"FILE" help:"The authorities (PEM) that its certificate may be of. Without it, those of this system."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"The certificate (PEM) to show it."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"Its key."`
	TLSServerName string `name:"tls-server-name" placeholder:"NAME" help:"The name that its certificate must have. Without it, the host of --server."`
}

// Validate is called by kong.
func (f TLSFlags) Validate() error {
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key belong together")
	}
	return nil
}

func (f TLSFlags) encrypted() bool { return f != TLSFlags{} }

func (f TLSFlags) credentials() (credentials.TransportCredentials, error) {
	if !f.encrypted() {
		return insecure.NewCredentials(), nil
	}
	c, err := config.ClientTLS(&retryv1.ClientTLS{CaFile: f.TLSCA, CertFile: f.TLSCert, KeyFile: f.TLSKey, ServerName: f.TLSServerName})
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(c), nil
}

// call runs one use of a connection. An error is the server's own words, and its code.
func (f TLSFlags) call(address string, use func(*grpc.ClientConn) error) error {
	creds, err := f.credentials()
	if err != nil {
		return err
	}
	target := address
	if !strings.HasPrefix(address, "unix:") {
		target = "passthrough:///" + address
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := use(conn); err != nil {
		return f.explained(address, err)
	}
	return nil
}

func (f TLSFlags) explained(address string, err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("%s: %s: %s", address, s.Code(), plainly(s.Message()))
	if hint := f.hint(s.Code(), s.Message()); hint != "" {
		text += "\n" + hint
	}
	return errors.New(text)
}

// dialing is what grpc-go says around the cause of a connection that failed.
var dialing = regexp.MustCompile(`^connection error: desc = "(?:transport: )?(?:Error while dialing: )?(.*)"$`)

func plainly(message string) string {
	if cause := dialing.FindStringSubmatch(message); cause != nil {
		return cause[1]
	}
	return message
}

// hint says what to do about a connection that failed.
func (f TLSFlags) hint(code codes.Code, message string) string {
	says := func(words string) bool { return strings.Contains(message, words) }
	switch {
	case code == codes.Unimplemented && says("unknown service"):
		return "This listener does not answer that: ask the admin listener."
	case says("unexpected HTTP status code"), says("looked like an HTTP/1.1 header"):
		return "An HTTP server answers there, and not Verdict: ask its admin listener or its API."
	case says("connect: connection refused"), says("connect: no such file or directory"):
		return "Nothing listens there: does the service run, and is --server its admin listener or its API?"
	case !f.encrypted() && says("error reading server preface"):
		return "Does the server speak TLS? Then --tls, or --tls-ca, is missing."
	case says("first record does not look like a TLS handshake"):
		return "The server speaks plaintext: leave the --tls flags out."
	case says("tls: failed to verify certificate"):
		return "The server is not who it should be: see --tls-ca and --tls-server-name."
	case says("tls: certificate required") && f.TLSCert == "":
		return "The server asks for a certificate: --tls-cert and --tls-key."
	case says("tls: certificate required"): // it says whose it takes, and others are not shown
		return "The certificate of --tls-cert is of no authority that the server asks for."
	case says("remote error: tls:"):
		return "The server has refused the certificate of --tls-cert; its log says why."
	}
	return ""
}
