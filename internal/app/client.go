package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Admin is how a command reaches a running service's admin listener.
type Admin struct {
	Server string `default:"127.0.0.1:9003" placeholder:"ADDR" help:"The admin listener of a running service, or its API: HOST:PORT or unix:PATH."`
	TLSFlags
}

// Validate is called by kong.
func (a Admin) Validate() error {
	return cmp.Or(checkAddress("--server", a.Server), a.TLSFlags.Validate())
}

// printJSON writes a message as one line in protobuf's JSON form.
func printJSON(w io.Writer, m proto.Message, zeros bool) error {
	text, err := protojson.MarshalOptions{EmitDefaultValues: zeros}.Marshal(m)
	if err != nil {
		return err
	}
	return printLine(w, text)
}

// printLine takes out the blanks with which protojson keeps its readers from relying on them.
func printLine(w io.Writer, text []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	line.WriteByte('\n')
	_, err := w.Write(line.Bytes())
	return err
}

// printStream writes each message that a call sends, until ctx ends.
func printStream[M any](ctx context.Context, w io.Writer, stream grpc.ServerStreamingClient[M]) error {
	for {
		m, err := stream.Recv()
		if err == io.EOF || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := printJSON(w, any(m).(proto.Message), true); err != nil {
			return err
		}
	}
}

// enum reads a word of an enum, "" as its zero value: SAFE or safe for IDEMPOTENCY_SAFE.
func enum[E ~int32](flag, prefix, word string, values map[string]int32) (E, error) {
	if word == "" {
		return 0, nil
	}
	if n, ok := values[prefix+strings.ToUpper(word)]; ok && n != 0 {
		return E(n), nil
	}
	var words []string
	for name, n := range values {
		if n != 0 {
			words = append(words, strings.ToLower(strings.TrimPrefix(name, prefix)))
		}
	}
	slices.Sort(words)
	return 0, badArgumentf("--%s: %q is none of %s", flag, word, strings.Join(words, ", "))
}
