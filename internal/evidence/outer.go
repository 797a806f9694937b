package evidence

import (
	"strings"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// FromOuter reads the answer that the outer hop's finalizer is shown. Where the answer came from the
// inner hop with its facts, these count: the judge has failed open. Otherwise the outer hop made the
// answer itself, before router A tried (a refusal, which proves NOT_SENT) or after (which proves
// nothing: the attempt may have been executed).
func FromOuter(answer Headers, key string) Attempt {
	o, ok := parseOuter(answer)
	if !ok {
		return unknownAttempt(answer)
	}
	if o.details == detailsViaUpstream {
		if a := FromFacts(answer, key); a.Known && a.ID == o.id {
			return a
		}
	}
	a := unknownAttempt(answer)
	a.Details, a.Flags = o.details, o.flags
	a.ID, a.RequestID = o.id, answer.value(outerRequestID)
	a.LocalReply = place(o.details).local()
	a.Method, a.Path = answer.value(outerMethod), answer.value(outerPath)
	a.Override = answer.Has(outerOverride)
	if o.tries > 0 && o.tries < 1<<20 {
		a.Number = int(o.tries)
	}
	if evidence, permanent := prove(o.details, "", o.counters); evidence == decision.NotSent && o.tries == 0 {
		a.Evidence, a.Permanent, a.Number = evidence, permanent, 1
	}
	return a
}

type outer struct {
	flags string
	counters
	id      string
	details string
}

func parseOuter(answer Headers) (outer, bool) {
	var o outer
	line, ok := answer.one(outerHeader)
	if !ok {
		return o, false
	}
	if o.details, ok = answer.one(outerDetails); !ok {
		return o, false
	}
	fields := strings.Split(line, " ")
	if len(fields) != 5 || fields[0] != factsVersion {
		return o, false
	}
	for i, read := range []struct {
		name string
		into func(string)
	}{
		{"flags", func(v string) { o.flags = v }},
		{"sent", func(v string) { o.wireBytesSent = parseCount(v) }},
		{"tries", func(v string) { o.tries = parseCount(v) }},
		{"id", func(v string) { o.id = v }},
	} {
		value, ok := strings.CutPrefix(fields[i+1], read.name+"=")
		if !ok {
			return outer{}, false
		}
		read.into(value)
	}
	return o, true
}
