package credential

import (
	"bytes"
	"context"
	"time"

	"github.com/verdictproxy/verdict/internal/config"
)

const (
	// fileRenewal is how often a token file is read while it is used. (A projected token is replaced when
	// 80 % of its life, or 24 h, have passed; its life is at least ten minutes.)
	fileRenewal = 10 * time.Second
	// fileLifetime is how long what was read counts without being read again.
	fileLifetime = time.Minute
)

// fileGrants is a token file.
type fileGrants struct{ path string }

func (f fileGrants) fetch(context.Context) (grant, error) {
	text, err := readSecret(f.path, maxToken+2)
	if err != nil {
		return grant{}, err
	}
	if err := checkToken(text); err != nil {
		return grant{}, failed(resultInvalid, "%s: %v", f.path, err)
	}
	return grant{token: text, renew: fileRenewal, lifetime: fileLifetime}, nil
}

// readSecret reads a file without the line feed, or CR LF, at its end.
func readSecret(path string, limit int) (string, error) {
	data, err := config.ReadFile(path, limit)
	if err != nil {
		return "", failed(resultFile, "%v", err)
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(data) == 0 {
		return "", failed(resultInvalid, "%s: is empty", path)
	}
	return string(data), nil
}
