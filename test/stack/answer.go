package stack

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Answer is what the client saw.
type Answer struct {
	ID      string // the request's x-test-id
	Interim []int  // statuses of interim responses, in their order
	Status  int
	Header  http.Header // all lines
	Body    string      // as much as came
	Trailer http.Header
	// Elapsed is the time from before the connection was made until the answer had ended.
	Elapsed time.Duration
}

func (a *Answer) read(r *bufio.Reader, method string) error {
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return err
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			a.Interim = append(a.Interim, resp.StatusCode)
			continue
		}
		a.Status, a.Header = resp.StatusCode, resp.Header
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil
		}
		body, err := io.ReadAll(resp.Body)
		a.Body, a.Trailer = string(body), resp.Trailer
		return err
	}
}

// Report is what the report headers say; a missing one is "".
type Report struct{ Verdict, Reason, Evidence, Execution, Attempts, AmbiguityID, RequestID string }

// Report reads the report headers. RequestID is x-request-id.
func (a Answer) Report() Report {
	return Report{
		Verdict:     a.field("X-Retry-Verdict"),
		Reason:      a.field("X-Retry-Reason"),
		Evidence:    a.field("X-Retry-Evidence"),
		Execution:   a.field("X-Retry-Execution"),
		Attempts:    a.field("X-Retry-Attempts"),
		AmbiguityID: a.field("X-Retry-Ambiguity-Id"),
		RequestID:   a.field("X-Request-Id"),
	}
}

// field joins the lines of a header, so that a second one is seen.
func (a Answer) field(name string) string { return strings.Join(a.Header[name], ", ") }

// HeadersWith returns the names of the headers and trailers that begin so, as net/http spells them.
func (a Answer) HeadersWith(prefix string) []string {
	var names []string
	for _, h := range []http.Header{a.Header, a.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) {
				names = append(names, name)
			}
		}
	}
	return names
}
