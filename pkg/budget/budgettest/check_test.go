package budgettest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verdictproxy/verdict/pkg/budget"
)

// logOf makes an event log of words: "deposit@1.5 3" is three first attempts at 1.5 s, "earned@2 x",
// "reserve@2 x" and "free@2 x" grant x, "return@3 x" returns it, with the source it was given by.
func logOf(t *testing.T, words string, ratio int64) string {
	t.Helper()
	var b strings.Builder
	log := budget.NewEventLog(&b, "p", nil)
	source := map[string]budget.Source{}
	for _, w := range strings.Split(words, ",") {
		var what, id string
		var at float64
		if _, err := fmt.Sscanf(strings.Replace(w, "@", " ", 1), "%s %g %s", &what, &at, &id); err != nil {
			t.Fatalf("%q: %v", w, err)
		}
		e := budget.Event{Mono: int64(at * 1e9), Account: "a", Milli: budget.Token, Grant: id, Kind: budget.KindGrant}
		switch what {
		case "deposit":
			e.Kind, e.Grant = budget.KindDeposit, ""
			if _, err := fmt.Sscan(id, &e.Firsts); err != nil {
				t.Fatalf("%q: %v", w, err)
			}
			e.Milli = int64(e.Firsts) * ratio
		case "earned":
			source[id] = budget.SourceEarned
		case "reserve":
			source[id] = budget.SourceReserve
		case "free":
			source[id] = budget.SourceUnlimited
		case "return":
			e.Kind = budget.KindReturn
		default:
			t.Fatalf("%q", w)
		}
		if e.Grant != "" {
			e.Source = source[id]
		}
		if err := log.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	none := budget.Settings{Ratio: 500, Interval: 10 * time.Second}
	two := budget.Settings{Ratio: 500, Reserve: 2, Interval: 10 * time.Second}
	for _, c := range []struct {
		teaches  string
		settings budget.Settings
		log      string
		want     string // each rule's earliest breach, as rule@seconds
	}{
		{"the reserve is M", two, "reserve@1 a,reserve@1 b", ""},
		{"and no more", two, "reserve@1 a,reserve@1 b,reserve@2 c", "law@2 reserve@2"},
		{"a window is open at its beginning", two, "reserve@1 a,reserve@1 b,reserve@11 c,reserve@11 d", ""},
		{"by a nanosecond", two, "reserve@1 a,reserve@1 b,reserve@10.999999999 c", "law@10.999999999 reserve@10.999999999"},
		{"every window counts, wherever it begins", two, "reserve@9 a,reserve@9 b,reserve@10 c,reserve@11 d", "law@10 reserve@10"},
		{"two halves make a token", none, "deposit@1 1,deposit@2 1,earned@3 a", ""},
		{"one does not", none, "deposit@1 1,earned@3 a", "law@3 payment@3"},
		{"a deposit after the grant does not pay for it", none, "earned@1 a,deposit@1 2", "payment@1"},
		{"a milli-token pays once", none, "deposit@1 2,earned@2 a,earned@3 b", "law@3 payment@3"},
		{"a deposit pays for less than an interval", none, "deposit@1 2,earned@10.999999999 a", ""},
		{"after that it cannot pay, and the law breaks when it leaves the window of F", none, "deposit@1 2,earned@11.5 a", "law@21 payment@11.5"},
		{"oldest first finds the payment", none, "deposit@1 2,deposit@9 2,earned@9 a,earned@12 b", ""},
		{"the reserve cannot stand in for deposits", two, "earned@1 a", "payment@1"},
		{"nor deposits for the reserve", none, "deposit@1 2,reserve@2 a", "reserve@2"},
		{"a returned grant never happened", two, "reserve@1 a,reserve@1 b,return@2 a,reserve@3 c", ""},
		{"a returned deposit pays again", none, "deposit@1 2,earned@2 a,return@3 a,earned@4 b", ""},
		{"an interval is too late by the payment rule, which is the stricter", none, "deposit@1 2,earned@11 a", "payment@11"},
		{"in its own time", none, "deposit@1 2,earned@2 a,return@3 a,earned@12 b", "law@21 payment@12"},
		{"a second return", two, "reserve@1 a,return@2 a,return@3 a", "return@3"},
		{"a return of nothing", two, "return@2 a", "return@2"},
		{"one id for two grants", two, "reserve@1 a,reserve@2 a", "grant@2"},
		{"Unlimited is not bound", budget.Unlimited, "free@1 a,free@1 b,free@1 c", ""},
		{"and others are not Unlimited", two, "free@1 a", "grant@1"},
		{"Never", budget.Never, "reserve@1 a", "law@1 reserve@1"},
		{"time runs forward", two, "reserve@2 a,reserve@1 b", "time@1"},
		{"a bad event does not hide what was wrong before it", none, "deposit@1 1,earned@2 a,return@3 b", "return@3 law@2 payment@2"},
	} {
		t.Run(c.teaches, func(t *testing.T) {
			settings := func(string) budget.Settings { return c.settings }
			log := logOf(t, c.log, 500)
			found, err := breaches(strings.NewReader(log), settings)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range found {
				got = append(got, fmt.Sprintf("%s@%v", b.Rule, time.Duration(b.At).Seconds()))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Fatalf("got %q, want %q: %v", s, c.want, found)
			}
			if err := Check(strings.NewReader(log), settings); (err != nil) != (c.want != "") {
				t.Fatalf("Check: %v", err)
			}
		})
	}
}

// The report has the instant and the figures, of the earliest breach of all accounts.
func TestCheckReport(t *testing.T) {
	s := budget.Settings{Ratio: 500, Reserve: 2, Interval: 10 * time.Second}
	late := logOf(t, "reserve@8 a,reserve@8 b,reserve@8 c", 500)
	early := strings.ReplaceAll(logOf(t, "deposit@1 1,reserve@2 a,reserve@2 b,reserve@3 c", 500), `"account":"a"`, `"account":"b"`)
	err := Check(strings.NewReader(late+early), func(string) budget.Settings { return s })
	var b *Breach
	if !errors.As(err, &b) {
		t.Fatalf("got %v", err)
	}
	want := `line 7: law broken at 3000000000 ns, process "p", account "b": 3 retries in the last 10s; first attempts of the last 20s earned 500 milli-tokens, and the reserve gives 2 tokens`
	if err.Error() != want || b.Retries != 3 || b.PaidFrom != 2500 {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestCheckReads(t *testing.T) {
	s := func(string) budget.Settings {
		return budget.Settings{Ratio: 500, Reserve: 2, Interval: 10 * time.Second}
	}
	full := logOf(t, "reserve@1 a,reserve@1 b,reserve@1 c", 500)
	lines := strings.SplitAfter(full, "\n")
	otherProcess := strings.ReplaceAll(lines[2], `"p"`, `"q"`)
	for _, c := range []struct{ teaches, log, want string }{
		{"nothing is wrong with nothing", "", ""},
		{"a torn last line had no effect", full[:len(full)-10], ""},
		{"a last line is torn without its newline", full[:len(full)-1], ""},
		{"each process has an account of its own", lines[0] + lines[1] + otherProcess, ""},
		{"a line that is no event", lines[0] + "hello\n", "line 2: not an event"},
		{"a torn line in the middle", lines[0][:20] + "\n" + lines[1], "line 1: not an event"},
		{"an unknown source", strings.Replace(lines[0], "reserve", "heaven", 1), "line 1: not an event"},
		{"an unknown event", strings.Replace(lines[0], `"grant"`, `"gift"`, 1), "line 1: event broken"},
		{"a deposit of more than the ratio", strings.Replace(logOf(t, "deposit@1 2", 500), `"milli":1000`, `"milli":1001`, 1), "line 1: deposit broken"},
		{"a grant for less", strings.Replace(lines[0], "1000,", "999,", 1), "line 1: grant broken"},
	} {
		err := Check(strings.NewReader(c.log), s)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.teaches, err, c.want)
		}
	}
}
