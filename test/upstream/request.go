package upstream

import (
	"net/http"
	"net/url"
	"strings"
)

// Where a request says which fault to play, and which hits are attempts of one request.
const (
	headerFault     = "X-Fault"
	headerTestID    = "X-Test-Id"
	headerRequestID = "X-Request-Id"
	queryFault      = "fault"
	queryID         = "id"
)

// incoming is what the choice of a fault depends on.
type incoming struct {
	query  string
	header http.Header
}

// script is the header x-fault (several lines are one list), or else the query's fault.
func (in incoming) script() string {
	if lines := in.header[headerFault]; len(lines) > 0 {
		return strings.Join(lines, ",")
	}
	return queryValue(in.query, queryFault)
}

// id is the header x-test-id, or the query's id, or, where a fault is to be played, x-request-id.
func (in incoming) id() string {
	if id := in.header.Get(headerTestID); id != "" {
		return id
	}
	if id := queryValue(in.query, queryID); id != "" || in.script() == "" {
		return id
	}
	return in.header.Get(headerRequestID)
}

// queryValue reads one key of a query. Unlike net/url it lets a semicolon stand for itself.
func queryValue(query, key string) string {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if k, v, _ := strings.Cut(pair, "="); k == key {
			if v, err := url.QueryUnescape(v); err == nil {
				return v
			}
		}
	}
	return ""
}

// begin records the hit and chooses the entry that p plays. A script that cannot be read is
// returned, and p answers 400 with its text.
func (s *Server) begin(p *playing, hit Hit, script string, proto protocol) error {
	faults, err := parseScript(script, proto)
	p.rec = s.rec.add(hit)
	if err != nil {
		p.f = badScript(err)
		return err
	}
	p.f = &faults[min(p.rec.hit.Attempt, len(faults))-1]
	s.guard.challenge(p.f, hit.Header)
	p.rec.played(p.f.text)
	return nil
}

// badScript is the fault that answers 400 and says why.
func badScript(why error) *fault {
	text := []byte(why.Error() + "\n")
	refusal := &spec{protocols: both, refuses: true, play: func(p *playing) error {
		c := content{text: text, size: int64(len(text))}
		return p.answer(p.newAnswer(c), c)
	}}
	return &fault{spec: refusal, status: http.StatusBadRequest, body: -1}
}

func expectsContinue(h http.Header) bool {
	return strings.EqualFold(h.Get("Expect"), "100-continue")
}
