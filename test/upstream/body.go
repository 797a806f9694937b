package upstream

import "net/http"

const (
	patternPeriod = 64
	maxPiece      = 32 << 10
)

// pattern is a text of 64-byte lines, one piece and one period long, so that every piece of a body
// is a slice of it.
var pattern = makePattern(maxPiece + patternPeriod)

func makePattern(n int) []byte {
	const line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.\n"
	p := make([]byte, n)
	for i := range p {
		p[i] = line[i%patternPeriod]
	}
	return p
}

// Body is what an answer with the option body=SIZE carries: n bytes of text, the same for each n.
func Body(n int) []byte { return makePattern(n) }

// content is the body of an answer: a text of its own, or a number of bytes of the pattern.
type content struct {
	text []byte
	size int64
}

func (c content) slice(from, to int64) []byte {
	if c.text != nil {
		return c.text[from:to]
	}
	start := from % patternPeriod
	return pattern[start : start+to-from]
}

// body is the content that the fault asks for, or text.
func (f *fault) content(text []byte) content {
	if f.body >= 0 {
		return content{size: f.body}
	}
	return content{text: text, size: int64(len(text))}
}

// statusText is the body of an answer that was given none.
func statusText(status int) []byte {
	if status == http.StatusOK {
		return []byte("ok\n")
	}
	text := http.StatusText(status)
	if text == "" {
		text = "Unknown"
	}
	return append(appendStatus(nil, status), " "+text+"\n"...)
}

func appendStatus(b []byte, status int) []byte {
	return append(b, byte('0'+status/100%10), byte('0'+status/10%10), byte('0'+status%10))
}
