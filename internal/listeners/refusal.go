package listeners

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// Refusal is why a connection did not get through the handshake: one of a closed list.
type Refusal uint8

// The refusals. The zero value is any other reason.
const (
	Other            Refusal = iota
	NotTLS                   // it speaks something else, such as plaintext HTTP
	NoCommonProtocol         // no version, cipher suite or application protocol that both sides have
	NoCertificate            // it showed none
	UnknownAuthority         // none of client_ca_file has signed its certificate
	OutOfTime                // its certificate, or its authority's, has expired or is not yet valid
	BadCertificate           // its certificate is otherwise not good, such as one for servers
	Unlisted                 // it has none of the names in allowed_clients
	ByClient                 // the client refused what it was shown
	TimedOut                 // it did not complete the handshake in time
	CrowdedOut               // too many handshakes were open, and it was the oldest
	Gone                     // the client left before the end

	refusals
)

var refusalWords = [refusals]string{"other", "not_tls", "no_common_protocol", "no_certificate", "unknown_authority",
	"out_of_time", "bad_certificate", "unlisted", "by_client", "timed_out", "crowded_out", "gone"}

// String is the metric's label and the log's word.
func (r Refusal) String() string {
	if r >= refusals {
		return refusalWords[Other]
	}
	return refusalWords[r]
}

// Refusals is every Refusal.
func Refusals() []Refusal {
	all := make([]Refusal, refusals)
	for r := range all {
		all[r] = Refusal(r)
	}
	return all
}

var errCrowdedOut = errors.New("too many handshakes are open")

// refusal reads the error of a handshake.
func refusal(err error) Refusal {
	var (
		unlisted    unlisted
		header      tls.RecordHeaderError
		unverified  *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		invalid     x509.CertificateInvalidError
		operation   *net.OpError
		isOperation = errors.As(err, &operation)
	)
	switch {
	case errors.Is(err, errCrowdedOut):
		return CrowdedOut
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.As(err, &unlisted):
		return Unlisted
	case errors.As(err, &header):
		return NotTLS
	case errors.As(err, &authority):
		return UnknownAuthority
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return OutOfTime
	case errors.As(err, &unverified):
		return BadCertificate
	case isOperation && operation.Op == "remote error":
		return ByClient
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return Gone
	}
	// crypto/tls has no types for these; the tests hold its words.
	text := err.Error()
	for words, r := range map[string]Refusal{
		"didn't provide a certificate":     NoCertificate,
		"unsupported versions":             NoCommonProtocol,
		"no cipher suite supported":        NoCommonProtocol,
		"unsupported application protocol": NoCommonProtocol,
		"failed to parse":                  BadCertificate,
	} {
		if strings.Contains(text, words) {
			return r
		}
	}
	return Other
}
