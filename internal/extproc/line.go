package extproc

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/verdictproxy/verdict/internal/evidence"
	"github.com/verdictproxy/verdict/pkg/decision"
)

// newLine sets a header in place of every line of that name.
func newLine(key, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: key, RawValue: []byte(value)},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// words are the lines of a report header whose values are a closed list, indexed by the value. They are
// made once, and all replies share them: nobody changes a line.
type words [1 << 8]*corev3.HeaderValueOption

var (
	verdictWords   = newWords[decision.Verdict](evidence.ReportVerdict)
	reasonWords    = newWords[decision.Reason](evidence.ReportReason)
	evidenceWords  = newWords[decision.Evidence](evidence.ReportEvidence)
	executionWords = newWords[decision.Execution](evidence.ReportExecution)
)

func newWords[W interface {
	~uint8
	String() string
}](key string) *words {
	w := new(words)
	invalid := W(len(w) - 1).String()
	line := newLine(key, invalid)
	for i := range w {
		if word := W(i).String(); word != invalid {
			w[i] = newLine(key, word)
		} else {
			w[i] = line
		}
	}
	return w
}
