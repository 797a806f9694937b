// Command faultyupstream runs the faulty upstream of package upstream as a process of its own. It
// prints its addresses as one line of JSON when all of them are ready, and ends on SIGTERM or SIGINT.
package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/verdictproxy/verdict/test/upstream"
)

func main() {
	var addrs upstream.Addrs
	cli := kong.Parse(&addrs, kong.Description("An upstream that plays the fault a request asks for."))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	server, err := upstream.Start(addrs)
	cli.FatalIfErrorf(err)
	cli.FatalIfErrorf(json.NewEncoder(os.Stdout).Encode(server.Addrs()))
	<-ctx.Done()
	cli.FatalIfErrorf(server.Close())
}
