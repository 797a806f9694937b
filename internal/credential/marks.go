package credential

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"sync"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// markBytes is the length of a mark.
var markBytes = base64.RawURLEncoding.EncodedLen(sha256.Size)

// marks vouches for tokens towards other processes of the fleet that have the same client secret: a mark
// is an HMAC-SHA256 of the authorization value, under a key derived from the secret for this upstream,
// endpoint and client alone. Who sees both the mark and the token can try secrets against them, which a
// generated secret withstands and a chosen one may not.
type marks struct {
	file string
	info string

	mu   sync.Mutex
	keys [][]byte // of the secret last read, and of the one before; none until one was read
}

func newMarks(upstream string, o *retryv1.OAuth2) *marks {
	return &marks{
		file: o.GetClientSecretFile(),
		info: strings.Join([]string{"verdict credential mark 1", upstream, o.GetTokenUrl(), o.GetClientId()}, "\n"),
	}
}

// readSecret reads the client's secret and derives the key of what is marked from now on.
func (m *marks) readSecret() (string, error) {
	text, err := readSecret(m.file, maxSecret)
	if err != nil {
		return "", err
	}
	key, err := hkdf.Key(sha256.New, []byte(text), nil, m.info, sha256.Size)
	if err != nil {
		return "", failed(resultInvalid, "%s: no key can be derived", m.file)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.keys) == 0 || !hmac.Equal(m.keys[0], key) {
		m.keys = slices.Insert(m.keys, 0, key)
		m.keys = m.keys[:min(len(m.keys), 2)]
	}
	return text, nil
}

func (m *marks) known() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.keys)
}

func (m *marks) mark(authorization string) string {
	keys := m.known()
	if len(keys) == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(mac(keys[0], authorization))
}

// vouches reports whether mark was made of authorization by a process with the same secret. The secret is
// read again before it says no: another process may have met a new one already.
func (m *marks) vouches(authorization, mark string) bool {
	if len(mark) != markBytes || len(authorization) > maxToken+64 {
		return false
	}
	sum, err := base64.RawURLEncoding.Strict().DecodeString(mark)
	if err != nil || len(sum) != sha256.Size {
		return false
	}
	if verify(m.known(), authorization, sum) {
		return true
	}
	if _, err := m.readSecret(); err != nil {
		return false
	}
	return verify(m.known(), authorization, sum)
}

func verify(keys [][]byte, authorization string, sum []byte) bool {
	found := 0
	for _, key := range keys {
		if hmac.Equal(mac(key, authorization), sum) {
			found++
		}
	}
	return found > 0
}

func mac(key []byte, authorization string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(authorization))
	return h.Sum(nil)
}

// Mark vouches for an authorization value towards every process that has this source with the same
// client secret; it is 43 bytes of visible ASCII. It is "" for what this process did not issue, and
// for a token file: there processes read the same tokens, and have no secret that a token's holder does
// not have.
func (s *Source) Mark(authorization string) string {
	if s.marks == nil || s.Recognize(authorization) == NotOurs {
		return ""
	}
	return s.marks.mark(authorization)
}

// RecognizeMarked is Recognize for a value that came with a mark: one that another process issued is
// Earlier.
func (s *Source) RecognizeMarked(authorization, mark string) Origin {
	origin := s.Recognize(authorization)
	if origin == NotOurs && s.marks != nil && mark != "" && s.marks.vouches(authorization, mark) {
		return Earlier
	}
	return origin
}
