// Command imports writes the .proto files that Verdict's own import, so that buf can compile without
// a module registry: `go run ./api/proto/imports DIR`.
//
// The source is the descriptor inside the Go module that the service links, so the version is the
// one in go.mod. Comments and options are left out: neither changes what is generated for a file
// that imports these.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: imports DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1], validate.File_buf_validate_validate_proto); err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(1)
	}
}

func write(dir string, file protoreflect.FileDescriptor) error {
	path := filepath.Join(dir, filepath.FromSlash(file.Path()))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(source(file)), 0o644)
}
