// Command demo starts Envoy, Verdict and a faulty upstream on free loopback ports, plays one scenario
// for each way in which an attempt can end, and prints what happened as a table. It exits 0 only if
// every scenario went as expected.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/verdictproxy/verdict/test/stack"
)

func main() {
	var cli struct {
		Play   playCmd   `cmd:"" default:"1" help:"Play the scenarios once and print what came of them (the default)."`
		Up     upCmd     `cmd:"" help:"Keep the three running until interrupted, and print requests to try."`
		Load   loadCmd   `cmd:"" help:"Play the scenarios over and over against three that run already."`
		Health healthCmd `cmd:"" help:"Exit 0 only if a URL answers 200."`
	}
	command := kong.Parse(&cli, kong.Name("demo"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	command.FatalIfErrorf(command.Run())
}

type (
	playCmd struct{}
	upCmd   struct{}
)

// errReported is the failure of a command that has said everything already.
var errReported = errors.New("not as expected")

// Run plays each scenario once.
func (playCmd) Run() error {
	return run(play)
}

// Run keeps the three running.
func (upCmd) Run(ctx context.Context) error {
	return run(func(_ stack.TB, s *stack.Stack, _ tokenFile) {
		fmt.Print(tryLines(s))
		<-ctx.Done()
	})
}

func run(f func(stack.TB, *stack.Stack, tokenFile)) error {
	if !stack.Run("demo", os.Stderr, func(t stack.TB) {
		s, token := start(t)
		f(t, s, token)
	}) {
		return errReported
	}
	return nil
}

func start(t stack.TB) (*stack.Stack, tokenFile) {
	begin := time.Now()
	root, err := stack.Root()
	if err != nil {
		t.Fatalf("demo: %v", err)
	}
	config, err := os.ReadFile(filepath.Join(root, "envoy", "verdict.yaml"))
	if err != nil {
		t.Fatalf("demo: %v", err)
	}
	dir, err := os.MkdirTemp("", "verdict-demo-")
	if err != nil {
		t.Fatalf("demo: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	token, err := newTokenFile(dir)
	if err != nil {
		t.Fatalf("demo: %v", err)
	}
	fmt.Fprintln(os.Stderr, "building the service ...")
	binary, err := stack.BuildExtproc(dir)
	if err != nil {
		t.Fatalf("demo: %v", err)
	}
	fmt.Fprintln(os.Stderr, "starting upstream, Verdict and Envoy ...")
	s := stack.Start(t, stack.Options{
		Extproc:     binary,
		Config:      string(config) + labConfig + token.config(),
		ExtprocArgs: []string{"--log-level", "debug", "--log-format", "json"},
		Patches:     append([]stack.Patch{stack.LabClusters()}, credentialPatches()...),
	})
	fmt.Fprintf(os.Stderr, "ready after %.1f s\n\n", time.Since(begin).Seconds())
	return s, token
}

func tryLines(s *stack.Stack) string {
	curl := func(args, target string) string {
		return fmt.Sprintf("  curl -i %s'%s%s'\n", args, s.URL(), target)
	}
	return "Envoy is at " + s.URL() + ". The query says what the upstream plays, one entry for each attempt:\n\n" +
		curl("", "/?id=a&fault=reset,ok") +
		curl("-X POST ", "/?id=b&fault=reset") +
		curl("-X POST -H 'idempotency-key: k1' ", "/orders?id=c&fault=reset,ok") +
		curl("-X POST ", "/?id=d&fault=503") +
		curl("-X POST -H 'host: closed.example' ", "/") +
		"\nThe console:              " + s.ServiceAdminURL(0) + "/console/" +
		"\nWhat the upstream saw:    curl 'http://" + s.Upstream.Addrs().Control + "/hits?id=a'" +
		"\nWhat Verdict counted:     curl " + s.ServiceAdminURL(0) + "/metrics" +
		"\nWhat Verdict decided:     go run ./cmd/extproc ledger list --server " + strings.TrimPrefix(s.ServiceAdminURL(0), "http://") +
		"\nEnvoy's admin interface:  " + s.AdminURL() +
		"\n\nCtrl-C ends all three.\n"
}
