package app

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
	"github.com/verdictproxy/verdict/internal/decisionapi"
	"github.com/verdictproxy/verdict/pkg/budget"
	"github.com/verdictproxy/verdict/pkg/budget/memory"
)

// DecideCmd decides on one attempt given by flags, or on one a line from the standard input.
type DecideCmd struct {
	Asked
	FactFlags
	EndingFlags
	RequestID string `help:"The caller's name for the request."`
	DryRun    bool   `help:"Take no token."`
	Explain   bool   `xor:"form" help:"Show what each of the nine rules says, as a table. Takes no token."`
	Stdin     bool   `xor:"form" help:"Read one DecideRequest a line in protobuf's JSON form, and write one DecideResponse a line, or {\"error\": ...}."`
}

// Asked is whom decide and classify ask.
type Asked struct {
	Server string `placeholder:"ADDR" help:"A running service's API: HOST:PORT or unix:PATH. Without it the command answers by itself, with a budget that has not been touched."`
	TLSFlags
	Config string `placeholder:"FILE" type:"path" help:"Without --server: the configuration. Without one the defaults hold for every upstream."`
}

// Validate is called by kong.
func (a Asked) Validate() error {
	return cmp.Or(checkAddress("--server", a.Server), a.TLSFlags.Validate())
}

// maxLine bounds a line of the standard input.
const maxLine = 1 << 20

// Run answers 1 where a line was not understood; the lines behind it are answered all the same.
func (c DecideCmd) Run(ctx context.Context, s streams) error {
	return c.ask(func(asked retryv1.DecisionServiceClient) error {
		if c.Stdin {
			if !c.saysNothing() {
				return badArgumentf("--stdin: what the lines say cannot be said by flags too")
			}
			return decideLines(ctx, asked, s)
		}
		ending, err := c.EndingFlags.message()
		if err != nil {
			return err
		}
		facts, err := c.FactFlags.message(ending)
		if err != nil {
			return err
		}
		if c.Explain {
			resp, err := asked.Explain(ctx, &retryv1.ExplainRequest{Facts: facts})
			if err != nil {
				return err
			}
			return printExplained(s.out, resp)
		}
		resp, err := asked.Decide(ctx, &retryv1.DecideRequest{Facts: facts, DryRun: c.DryRun, RequestId: c.RequestID})
		if err != nil {
			return err
		}
		return printJSON(s.out, resp, false)
	})
}

// ask uses a running service, or one that lives as long as the command.
func (a Asked) ask(use func(retryv1.DecisionServiceClient) error) error {
	if a.Server != "" {
		return a.call(a.Server, func(conn *grpc.ClientConn) error {
			return use(retryv1.NewDecisionServiceClient(conn))
		})
	}
	cfg, err := config.Load(a.Config)
	if err != nil {
		return err
	}
	tokens := memory.New(func(upstream string) budget.Settings { return cfg.Upstream(upstream).Budget() }, memory.Options{})
	defer tokens.Close()
	err = use(alone{&decisionapi.Decisions{
		Declared: func() decisionapi.Declarations { return declarations{cfg} },
		Budget:   tokens,
		Grants:   decisionapi.NewGrants(),
	}})
	if s, ok := status.FromError(err); ok && err != nil {
		return fmt.Errorf("%s: %s", s.Code(), s.Message())
	}
	return err
}

// alone is a client of the service in this very process. What ends with it is not named: neither a grant
// nor a case could be asked for again.
type alone struct{ service *decisionapi.Decisions }

func (a alone) Decide(ctx context.Context, req *retryv1.DecideRequest, _ ...grpc.CallOption) (*retryv1.DecideResponse, error) {
	resp, err := a.service.Decide(ctx, req)
	if err != nil {
		return nil, err
	}
	return &retryv1.DecideResponse{Decision: resp.GetDecision()}, nil
}

func (a alone) Explain(ctx context.Context, req *retryv1.ExplainRequest, _ ...grpc.CallOption) (*retryv1.ExplainResponse, error) {
	return a.service.Explain(ctx, req)
}

func (a alone) Classify(ctx context.Context, req *retryv1.ClassifyRequest, _ ...grpc.CallOption) (*retryv1.ClassifyResponse, error) {
	return a.service.Classify(ctx, req)
}

func decideLines(ctx context.Context, asked retryv1.DecisionServiceClient, s streams) error {
	lines := bufio.NewScanner(s.in)
	lines.Buffer(nil, maxLine)
	var failed error
	n := 1
	for ; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := decideLine(ctx, asked, s.out, line); err != nil {
			fmt.Fprintf(s.err, "line %d: %s\n", n, status.Convert(err).Message())
			if err := printError(s.out, err); err != nil {
				return err
			}
			failed = errReported
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d, and what is behind it, is not answered: %w", n, tooLong(err))
	}
	return failed
}

func tooLong(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("it has more than %d bytes", maxLine)
	}
	return err
}

// saysNothing reports whether no flag says anything of an attempt.
func (c DecideCmd) saysNothing() bool {
	said := c.FactFlags
	said.Attempt = 0 // it has a default
	return reflect.ValueOf(said).IsZero() && reflect.ValueOf(c.EndingFlags).IsZero() && c.RequestID == "" && !c.DryRun
}

func decideLine(ctx context.Context, asked retryv1.DecisionServiceClient, w io.Writer, line []byte) error {
	req := new(retryv1.DecideRequest)
	if err := protojson.Unmarshal(line, req); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	resp, err := asked.Decide(ctx, req)
	if err != nil {
		return err
	}
	return printJSON(w, resp, false)
}

// printError writes a google.rpc.Status, so that each line of the input has its own in the output.
func printError(w io.Writer, err error) error {
	text, jsonErr := protojson.Marshal(status.Convert(err).Proto())
	if jsonErr != nil {
		return jsonErr
	}
	return printLine(w, fmt.Appendf(nil, `{"error":%s}`, text))
}

func printExplained(w io.Writer, e *retryv1.ExplainResponse) error {
	d := e.GetDecision()
	fmt.Fprint(w, answer(d.GetVerdict(), d.GetReason()))
	if d.GetCategory() != 0 {
		fmt.Fprintf(w, ", %s", word("PERMANENT_CATEGORY_", d.GetCategory()))
	}
	if d.GetRule() > 0 {
		fmt.Fprintf(w, ", by rule %d", d.GetRule())
	}
	if d.GetWait() != nil {
		fmt.Fprintf(w, ", wait %v", d.GetWait().AsDuration())
	}
	execution := "unknown"
	if d.GetExecution() != 0 {
		execution = word("EXECUTION_", d.GetExecution())
	}
	fmt.Fprintf(w, "\nevidence %s, execution %s, %s\nclass %s", word("EVIDENCE_", d.GetEvidence()), execution,
		word("CERTAINTY_", d.GetCertainty()), word("IDEMPOTENCY_", d.GetIdempotency()))
	if d.GetOperation() != "" {
		fmt.Fprintf(w, ", operation %s", d.GetOperation())
	}
	fmt.Fprint(w, "\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range e.GetRules() {
		fmt.Fprintf(table, "%d\t%s\t%s\n", r.GetNumber(), r.GetName(), says(r))
	}
	return table.Flush()
}

// says is what a rule made of the facts, "-" where it had no objection.
func says(r *retryv1.RuleOutcome) string {
	if r.GetVerdict() == 0 {
		return "-"
	}
	return answer(r.GetVerdict(), r.GetReason())
}

func answer(v retryv1.Verdict, r retryv1.Reason) string {
	if r == 0 {
		return word("VERDICT_", v)
	}
	return word("VERDICT_", v) + "(" + word("REASON_", r) + ")"
}

func word(prefix string, e fmt.Stringer) string {
	return strings.ToLower(strings.TrimPrefix(e.String(), prefix))
}
