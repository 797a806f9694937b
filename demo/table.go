package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

func printTable(w io.Writer, results []result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tWHAT THE UPSTREAM DID\tEVIDENCE\tVERDICT\tATTEMPTS\tHITS\tWAITED\tTHE CLIENT SAW\t")
	for _, r := range results {
		mark := ""
		if len(r.differences()) > 0 {
			mark = "UNEXPECTED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", r.name, r.did, dash(squeeze(r.evidence())), dash(r.verdictWithReason()),
			r.attempts(), r.hits, wait(r.waited()), r.client(), mark)
	}
	t.Flush()
}

func (r result) verdictWithReason() string {
	verdict := squeeze(r.verdicts())
	if reason := r.answer.Report().Reason; reason != "" && verdict != "" {
		return verdict + "(" + reason + ")"
	}
	return verdict
}

func (r result) client() string {
	return clientSaw(r.answer.Status, r.answer.Report().AmbiguityID != "", r.problem())
}

func clientSaw(status int, uncertain, problem bool) string {
	text := fmt.Sprint(status)
	if uncertain {
		text += ", outcome uncertain"
	}
	if problem {
		text += " (problem+json)"
	}
	return text
}

// squeeze writes "retry retry denied" as "retry x2, denied".
func squeeze(words string) string {
	var parts []string
	fields := strings.Fields(words)
	for i := 0; i < len(fields); {
		n := 1
		for i+n < len(fields) && fields[i+n] == fields[i] {
			n++
		}
		part := fields[i]
		if n > 1 {
			part = fmt.Sprintf("%s x%d", part, n)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func wait(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}
