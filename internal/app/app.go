// Package app wires the program: flags and configuration, servers, ordered shutdown.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

type cli struct {
	Serve    ServeCmd    `cmd:"" help:"Run the service that Envoy asks."`
	Check    CheckCmd    `cmd:"" help:"Say what a configuration file means, or everything that is wrong with it."`
	Decide   DecideCmd   `cmd:"" help:"Say whether a failed request may be sent again."`
	Classify ClassifyCmd `cmd:"" help:"Say what a symptom proves about how far an attempt got."`
	Budget   BudgetCmd   `cmd:"" help:"The retry budget of a running service."`
	Ledger   LedgerCmd   `cmd:"" help:"The uncertain outcomes of a running service."`
	Drain    DrainCmd    `cmd:"" help:"Deny every retry towards upstreams, without a change in Envoy."`
	Undrain  UndrainCmd  `cmd:"" help:"Allow retries again."`
	Why      WhyCmd      `cmd:"" help:"Say what was decided on a request, and why."`
	Health   HealthCmd   `cmd:"" help:"Exit with 0 only if a running service serves: the health check of a container without a shell."`
	Version  VersionCmd  `cmd:"" help:"Say which build this is."`
}

// Run runs the program with the given arguments until its work is done or ctx ends, and returns the
// exit code: 0, 1 for a failure, 2 for arguments that are not understood.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c cli
	exited := -1
	parser, err := newParser(&c, stdout, stderr, func(code int) { exited = code })
	if err != nil {
		panic(err) // a mistake in the cli struct; every test meets it
	}
	command, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		complain(stderr, err)
		return 2
	}
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(streams{os.Stdin, stdout, stderr})
	var bad badArgument
	switch {
	case err == nil:
		return 0
	case errors.As(err, &bad):
		fmt.Fprintln(stderr, "extproc:", err)
		return 2
	case !errors.Is(err, errReported):
		fmt.Fprintln(stderr, "extproc:", err)
	}
	return 1
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// errReported is the failure of a command that has said everything already.
var errReported = errors.New("reported")
