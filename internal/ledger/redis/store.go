package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/ledger"
	"github.com/verdictproxy/verdict/pkg/budget/redis/conn"
)

var (
	//go:embed put.lua
	putText string
	//go:embed list.lua
	listText string
	//go:embed events.lua
	eventsText string

	putScript    = conn.NewScript(putText)
	listScript   = conn.NewScript(listText)
	eventsScript = conn.NewScript(eventsText)
)

// keptEvents is how many events the server keeps for watchers at least; they read them ten times a second.
const keptEvents = 4096

// A store is the ledger on the server.
type store struct {
	conn *conn.Conn
	size int
	keep int // events

	cases, order, resolved, count, events string // keys
}

func newStore(c *conn.Conn, prefix string, size, keep int) *store {
	key := func(name string) string { return prefix + "ledger:" + name }
	return &store{
		conn: c, size: size, keep: keep,
		cases: key("cases"), order: key("order"), resolved: key("resolved"), count: key("count"), events: key("events"),
	}
}

// A change is a case as it is to be, where it still is what was seen.
type change struct {
	id       string
	seen     string // encoded, "" for none
	to       *ledger.Case
	resolves bool
}

// outcome of a change: done, or what is there instead.
type outcome struct {
	done  bool
	there string // encoded, "" for none
}

// errReply is a reply that no script of ours gives.
var errReply = errors.New("the ledger's Redis gave a reply that is none")

// put makes changes, each for itself, and says how many cases are open and lost by then.
func (s *store) put(ctx context.Context, dropped uint64, changes ...change) (outcomes []outcome, open int, lost uint64, err error) {
	args := []string{strconv.Itoa(s.size), strconv.Itoa(s.keep), strconv.FormatUint(dropped, 10)}
	for _, c := range changes {
		encoded, err := proto.Marshal(c.to)
		if err != nil {
			return nil, 0, 0, err
		}
		flag := ""
		if c.resolves {
			flag = "r"
		}
		args = append(args, c.id, c.seen, string(encoded), flag)
	}
	reply, err := s.eval(ctx, putScript, []string{s.cases, s.order, s.resolved, s.count, s.events}, args)
	if err != nil {
		return nil, 0, 0, err
	}
	if len(reply) != 2+len(changes) {
		return nil, 0, 0, errReply
	}
	n, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return nil, 0, 0, errReply
	}
	if lost, err = strconv.ParseUint(reply[1], 10, 64); err != nil {
		return nil, 0, 0, errReply
	}
	for _, word := range reply[2:] {
		switch {
		case word == "=":
			outcomes = append(outcomes, outcome{done: true})
		case word == "-":
			outcomes = append(outcomes, outcome{})
		case len(word) > 1 && word[0] == '+':
			outcomes = append(outcomes, outcome{there: word[1:]})
		default: // such as '+' alone: a case of no bytes, which is none
			outcomes = append(outcomes, outcome{})
		}
	}
	return outcomes, int(max(n, 0)), lost, nil
}

// get returns a case encoded, "" for none.
func (s *store) get(ctx context.Context, id string) (string, error) {
	v, err := s.conn.Do(ctx, "HGET", s.cases, id)
	if err != nil {
		return "", err
	}
	encoded, _ := v.(string)
	return encoded, nil
}

// A listed case has been given the number when it was entered.
type listed struct {
	id, encoded string
	number      uint64
}

// list returns at most n cases, the last entered first, of those with a number below before; 0 is all.
func (s *store) list(ctx context.Context, before uint64, n int) (cases []listed, lost uint64, err error) {
	reply, err := s.eval(ctx, listScript, []string{s.cases, s.order, s.count}, []string{strconv.FormatUint(before, 10), strconv.Itoa(n)})
	if err != nil {
		return nil, 0, err
	}
	if len(reply)%3 != 1 {
		return nil, 0, errReply
	}
	lost, _ = strconv.ParseUint(reply[0], 10, 64) // somebody wrote no number: none is known
	for i := 1; i < len(reply); i += 3 {
		number, err := strconv.ParseUint(reply[i+1], 10, 64)
		if err != nil {
			return nil, 0, errReply
		}
		cases = append(cases, listed{id: reply[i], number: number, encoded: reply[i+2]})
	}
	return cases, lost, nil
}

// An event is what a case came to be.
type event struct {
	number  uint64
	encoded string
}

// since returns at most n events behind a number, and the number of the last there is.
func (s *store) since(ctx context.Context, number uint64, n int) (events []event, last uint64, err error) {
	return s.happened(ctx, strconv.FormatUint(number+1, 10), n)
}

// last returns the number of the last event, 0 for none.
func (s *store) last(ctx context.Context) (uint64, error) {
	_, last, err := s.happened(ctx, "", 0)
	return last, err
}

func (s *store) happened(ctx context.Context, from string, n int) (events []event, last uint64, err error) {
	reply, err := s.eval(ctx, eventsScript, []string{s.events}, []string{from, strconv.Itoa(n)})
	if err != nil {
		return nil, 0, err
	}
	if len(reply)%2 != 1 {
		return nil, 0, errReply
	}
	if last, err = strconv.ParseUint(reply[0], 10, 64); err != nil {
		return nil, 0, errReply
	}
	for i := 1; i < len(reply); i += 2 {
		number, err := strconv.ParseUint(reply[i], 10, 64)
		if err != nil {
			return nil, 0, errReply
		}
		events = append(events, event{number, reply[i+1]})
	}
	return events, last, nil
}

// eval runs a script whose reply is strings.
func (s *store) eval(ctx context.Context, script conn.Script, keys, args []string) ([]string, error) {
	v, err := s.conn.Eval(ctx, script, keys, args)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, errReply
	}
	words := make([]string, len(list))
	for i, v := range list {
		if words[i], ok = v.(string); !ok {
			return nil, errReply
		}
	}
	return words, nil
}

// decode reads a case. An error is ledger.ErrDamaged: what is there is no case, or another one's.
func decode(id, encoded string) (*ledger.Case, error) {
	c := new(ledger.Case)
	if err := proto.Unmarshal([]byte(encoded), c); err != nil {
		return nil, fmt.Errorf("%w: %v", ledger.ErrDamaged, err)
	}
	if c.GetCaseId() == "" || id != "" && c.GetCaseId() != id {
		return nil, fmt.Errorf("%w: it is of case %q", ledger.ErrDamaged, c.GetCaseId())
	}
	if c.GetState() == retryv1.CaseState_CASE_STATE_UNSPECIFIED {
		c.State = retryv1.CaseState_CASE_STATE_OPEN
	}
	return c, nil
}
