// Command extproc is Verdict: the service that Envoy's ext_proc filters call, and its tools.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/verdictproxy/verdict/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := app.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(code)
}
