// Command demo starts Envoy, Verdict and a faulty upstream on free loopback ports, plays one scenario
// for each way in which an attempt can end, and prints what happened as a table. It exits 0 only if
// every scenario went as expected.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/verdictproxy/verdict/test/stack"
)

func main() {
	up := len(os.Args) == 2 && os.Args[1] == "up"
	if len(os.Args) > 1 && !up {
		fmt.Fprintln(os.Stderr, "usage: demo [up]\n\nup keeps the three running until interrupted, and prints requests to try.")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok := stack.Run("demo", os.Stderr, func(t stack.TB) {
		s := start(t)
		if up {
			fmt.Print(tryLines(s))
			<-ctx.Done()
			return
		}
		play(t, s)
	})
	stop()
	if !ok {
		os.Exit(1)
	}
}

func start(t stack.TB) *stack.Stack {
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
	fmt.Fprintln(os.Stderr, "building the service ...")
	binary, err := stack.BuildExtproc(dir)
	if err != nil {
		t.Fatalf("demo: %v", err)
	}
	fmt.Fprintln(os.Stderr, "starting upstream, Verdict and Envoy ...")
	s := stack.Start(t, stack.Options{
		Extproc:     binary,
		Config:      string(config) + labConfig,
		ExtprocArgs: []string{"--log-level", "debug", "--log-format", "json"},
		Patches:     []stack.Patch{stack.LabClusters()},
	})
	fmt.Fprintf(os.Stderr, "ready after %.1f s\n\n", time.Since(begin).Seconds())
	return s
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
		"\nWhat the upstream saw:    curl 'http://" + s.Upstream.Addrs().Control + "/hits?id=a'" +
		"\nWhat Verdict counted:     curl " + s.ServiceAdminURL(0) + "/metrics" +
		"\nEnvoy's admin interface:  " + s.AdminURL() +
		"\n\nCtrl-C ends all three.\n"
}
