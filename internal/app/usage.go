package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

func newParser(c *cli, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, kong.Name("extproc"),
		kong.Description("Verdict decides whether a failed HTTP attempt may be sent again."),
		kong.Writers(stdout, stderr), kong.Exit(exit), kong.ValueFormatter(withDefault))
}

// withDefault adds a flag's default where kong shows a placeholder in its place.
func withDefault(value *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(value)
	if f := value.Flag; f != nil && value.HasDefault && f.PlaceHolder != "" {
		help += " Default: " + value.Default + "."
	}
	return help
}

// badArgument is an argument that is not understood, as far as the program finds that out by itself.
type badArgument struct{ error }

func badArgumentf(format string, args ...any) error {
	return badArgument{fmt.Errorf(format, args...)}
}

// complain writes what is wrong with the arguments, and which help there is.
func complain(w io.Writer, err error) {
	fmt.Fprintln(w, "extproc:", err)
	help := "extproc"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context.Selected() != nil {
		help = parse.Context.Selected().FullPath()
	}
	fmt.Fprintf(w, "See %s --help.\n", help)
}

// checkAddress refuses what neither a listener nor a client understands; "" is left out.
func checkAddress(flag, address string) error {
	path, unix := strings.CutPrefix(address, "unix:")
	if address == "" || unix && path != "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return badArgumentf("%s: %q is neither HOST:PORT nor unix:PATH", flag, address)
	}
	return nil
}
