package upstream

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestScriptEntries(t *testing.T) {
	for script, want := range map[string][]string{
		"":                                     {"ok"},
		"reset, status 503, ok":                {"reset", "status 503", "ok"},
		"reset;503;ok":                         {"reset", "503", "ok"},
		`status:503 retry-after="Wed, 21 Oct"`: {"status:503 retry-after=Wed, 21 Oct"},
		"  fin  ":                              {"fin"},
		`"reset"`:                              {"reset"},
	} {
		faults, err := parseScript(script, http1)
		if err != nil {
			t.Errorf("%q: %v", script, err)
			continue
		}
		var got []string
		for _, f := range faults {
			got = append(got, f.text)
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}

func TestOptionsAreRead(t *testing.T) {
	faults, err := parseScript(`half-body:503 body=2MB delay=20ms hold=1s end=rst header:A=b=c header:A= headers=2 `+
		`retry-after=1 retry-after=date:3s trailer:T=1 info=103 info=100 clock=-1h close chunked executed`, http1)
	if err != nil {
		t.Fatal(err)
	}
	f := faults[0]
	if f.status != 503 || f.body != 2_000_000 || f.delay != 20*time.Millisecond || f.hold != time.Second ||
		f.end != endRST || len(f.fields) != 4 || f.fields[0] != (field{"A", "b=c"}) || f.fields[1] != (field{"A", ""}) ||
		len(f.retryAfter) != 2 || len(f.trailers) != 1 || len(f.info) != 2 || f.clock != -time.Hour || !f.closing ||
		!f.chunked || !f.executes() {
		t.Errorf("got %+v", f)
	}
}

func TestCodesOfHTTP2(t *testing.T) {
	for script, want := range map[string]http2.ErrCode{
		"refused": http2.ErrCodeRefusedStream, "rst:CANCEL": http2.ErrCodeCancel, "rst:no-error": http2.ErrCodeNo,
		"rst:INTERNAL_ERROR:full": http2.ErrCodeInternal, "rst:11": http2.ErrCodeEnhanceYourCalm, "rst:0xff": 255,
		"goaway:below code=ENHANCE_YOUR_CALM": http2.ErrCodeEnhanceYourCalm, "goaway:at": http2.ErrCodeNo,
	} {
		faults, err := parseScript(script, http2Frames)
		if err != nil {
			t.Errorf("%q: %v", script, err)
		} else if faults[0].code != want {
			t.Errorf("%q: code %v, want %v", script, faults[0].code, want)
		}
	}
}

func TestErrorsNameTheEntry(t *testing.T) {
	for script, want := range map[string]string{
		"ok, stauts:503":             `entry 2 "stauts:503": unknown fault "stauts"; known: early, echo,`,
		"ok,,reset":                  `entry 2 "": is empty`,
		"ok,":                        `entry 2 "": is empty`,
		`reset, status:503 h="a`:     "entry 2",
		"status":                     "wants a status",
		"status:1000":                `status "1000" is not a number from 0 to 999`,
		"status:-1":                  "is not a number",
		"status:1:2":                 "wants one status",
		"ok:1":                       "takes no argument",
		"reset:tail":                 `wants one of ["" "head"]`,
		"goaway:below":               "HTTP/2 only",
		"refused":                    "HTTP/2 only",
		"reset body=1":               `this fault takes no option "body"`,
		"ok end=fin":                 `this fault takes no option "end"`,
		"ok colour=red":              `unknown option "colour=red"`,
		"ok body":                    "want body=VALUE",
		"ok close=1":                 "want close",
		"ok header=a":                "want header:NAME=VALUE",
		"ok delay:x=1s":              "want delay=VALUE",
		"ok body=1TB":                "want a size",
		"ok body=99999999MB":         "want a size",
		"ok body=-1":                 "want a size",
		"ok body=MB":                 "want a size",
		"ok delay=-1s":               "want a duration",
		"ok delay=24h":               "want a duration",
		"ok headers=1001":            "want a number from 0 to 1000",
		"ok info=101":                "want 100, or 102 to 199",
		"ok info=200":                "want 100",
		"ok header:a b=1":            "want header:NAME=VALUE",
		"ok \"header:a b=1\"":        "not a valid header field",
		"ok \"header:a=b\r\nc: d\"":  "not a valid header field",
		"ok retry-after=date:soon":   "want date:DURATION",
		"ok clock=fast":              "invalid duration",
		"trickle piece=0":            "must be at least 1",
		"half-body end=drain":        "want fin, rst or stall",
		"early end=no_error":         "want fin, rst or stall",
		"grpc":                       "wants a grpc-status",
		"grpc:x":                     "wants a grpc-status",
		"grpc:1:headers":             "wants one of",
		"keepalive-race:then-silent": "wants one of",
	} {
		_, err := parseScript(script, http1)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x-fault: entry ") {
			t.Errorf("%q: got error %v, want %q", script, err, want)
		}
	}
	for script, want := range map[string]string{
		"keepalive-race":            "HTTP/1.1 only",
		"rst":                       "wants an HTTP/2 error code",
		"rst:NOPE":                  "is no HTTP/2 error code",
		"rst:CANCEL:middle":         "wants one of",
		"goaway":                    "wants one of",
		"goaway:beside":             "wants one of",
		"goaway:at:shut":            "wants one of",
		"goaway:at body=1":          `this fault takes no option "body"`,
		"goaway:below:open hold=1s": `this fault takes no option "hold"`,
		"goaway:at:open end=rst":    `this fault takes no option "end"`,
		"rst:CANCEL body=1":         `this fault takes no option "body"`,
		"rst:CANCEL code=CANCEL":    `this fault takes no option "code"`,
		"goaway:at code=SOMETHING":  "is no HTTP/2 error code",
	} {
		if _, err := parseScript(script, http2Frames); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", script, err, want)
		}
	}
}

func TestWhatCountsAsExecuted(t *testing.T) {
	for script, want := range map[string]bool{
		"ok": true, "500": true, "503": true, "404": true, "reset": true, "garbage": true, "rst:CANCEL": true,
		"goaway:at": true, "grpc:14": true, "stuck": true,
		"401": false, "408": false, "421": false, "425": false, "429": false, "refused": false, "early": false,
		"503 refused": false, "429 executed": true, "refused executed": true,
	} {
		faults, err := parseScript(script, http2Frames)
		if err != nil {
			t.Errorf("%q: %v", script, err)
		} else if got := faults[0].executes(); got != want {
			t.Errorf("%q: executes = %v, want %v", script, got, want)
		}
	}
}

func TestDateForms(t *testing.T) {
	now := time.Date(1994, 11, 6, 8, 49, 34, 0, time.UTC)
	for value, want := range map[string]string{
		"date:3s": "Sun, 06 Nov 1994 08:49:37 GMT", "rfc850:3s": "Sunday, 06-Nov-94 08:49:37 GMT",
		"asctime:3s": "Sun Nov  6 08:49:37 1994", "epoch:3s": "784111777", "date:-34s": "Sun, 06 Nov 1994 08:49:00 GMT",
		"120": "120", "Sun, 06 Nov 1994 08:49:37 GMT": "Sun, 06 Nov 1994 08:49:37 GMT", "-5": "-5",
	} {
		if got, err := dateForm(value, now); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestBodyIsAPrefixOfEveryLongerOne(t *testing.T) {
	long := Body(3 * maxPiece)
	c := content{size: int64(len(long))}
	for from := int64(0); from < c.size; from += 1000 {
		to := min(from+1000, c.size)
		if !bytes.Equal(c.slice(from, to), long[from:to]) {
			t.Fatalf("bytes %d to %d differ", from, to)
		}
	}
}

func FuzzScript(f *testing.F) {
	f.Add(`status:503 retry-after="a, b", reset;goaway:at:open code=CANCEL hold=1s`)
	f.Add(`trickle piece=1 every=1ms body=2KiB trailer:a=b`)
	f.Fuzz(func(t *testing.T, script string) {
		for _, p := range []protocol{http1, http2Frames} {
			faults, err := parseScript(script, p)
			if (err == nil) != (len(faults) > 0) {
				t.Errorf("%q: %d faults, error %v", script, len(faults), err)
			}
		}
	})
}
