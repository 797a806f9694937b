// Package upstream is an HTTP server that misbehaves on request: the upstream of Verdict's demo and
// of its integration tests. It plays every way in which an attempt can end, on the wire and not by
// imitation: HTTP/1.1 is written byte by byte, HTTP/2 frame by frame.
//
//	s, err := upstream.Start(upstream.Addrs{})
//	defer s.Close()
//	req, _ := http.NewRequest("POST", "http://"+s.Addrs().H1+"/pay", body)
//	req.Header.Set("x-test-id", "pay-1")
//	req.Header.Set("x-fault", "reset, status:503 retry-after=1, ok")
//	...
//	s.Hits("pay-1"), s.Effects("pay-1")
//
// # Scripts
//
// The request says what is played, in the header x-fault or the query's fault=, for one attempt after
// the other: the n-th hit of an id plays the n-th entry, and the last entry repeats. The id is the
// header x-test-id, or the query's id=, or, where a fault is asked for, x-request-id. Without an id a
// request plays the first entry and is not recorded.
//
//	script = entry { ( "," | ";" ) entry }
//	entry  = fault { " " option }
//
// Double quotes protect blanks, commas and semicolons. A script with an error in any entry is
// answered with 400 and a text that names the entry.
//
//	curl 'http://127.0.0.1:PORT/?fault=reset,503,ok&id=a'
//	curl -H 'x-fault: status:503 retry-after="Wed, 21 Oct 2026 07:28:00 GMT"' http://127.0.0.1:PORT/
//
// # Faults
//
// "Executed" says whether a request that arrived completely counts as a side effect. A request that
// did not arrive completely never does, unless the option executed says so. A, B, C, H and P
// are the groups of options that a fault takes, besides those that all take.
//
//	fault                        options  executed  plays
//	ok                           A        yes       200; a WebSocket request (HTTP/1.1) gets 101 and echo
//	status:N  N  "status N"      A        yes *     status N, 000 to 999
//	guarded[:N]                  A        yes *     status N (200) to an authorization that Accept was told of, to any
//	                                                other, and to none, 401
//	echo[:N]                     A        yes *     status N (200) with the request's own body, up to 64 MiB
//	slow-body[:N]                A H      yes *     the head at once, the body after hold (1s)
//	trickle[:N]                  A P      yes *     the body (100 bytes) in pieces (10), one every (100ms)
//	early[:N]                    A BH     no        N (503) at the first bytes of the body; end=drain (default)
//	                                                reads the rest, stall does not, fin and rst end the
//	                                                connection, no_error (HTTP/2) sends RST_STREAM NO_ERROR
//	grpc:N                       A        yes       200 with grpc-status N in its only header section
//	grpc:N:trailers              A        yes       200, one message, grpc-status N in trailers
//	reset                        -        yes       RST after the whole request was read
//	reset:head                   -        no        RST after its header section
//	fin, fin:head                -        yes, no   the same by FIN
//	garbage                      BH       yes       bytes that are no HTTP, then end (fin)
//	half-header[:N]              A BH     yes *     the head up to the middle of a field, then end (fin)
//	half-body[:N]                A BH     yes *     the head and half of the body (1000), then hold, end (fin)
//	stuck                        -        yes       reads everything, answers nothing
//	not-reading                  -        no        reads no body, answers nothing; HTTP/2: no WINDOW_UPDATE
//	                                                for the stream. HTTP/1.1 holds it for a minute
//	keepalive-race               A BH     yes       200; when the next request on this connection arrives, end
//	                                                (rst) without reading it: no hit, no effect of that one
//	keepalive-race:read          A BH     yes       200; the next request is read, executed, and then end (rst)
//
// Only in HTTP/2:
//
//	refused                      -        no        RST_STREAM REFUSED_STREAM at once
//	rst:CODE[:before-headers]    H        yes       RST_STREAM after the whole request was read; CODE is a name
//	                                                of RFC 9113 section 7 or a number
//	rst:CODE:after-headers       A H      yes       the same after the response's HEADERS
//	rst:CODE:after-body          A H      yes       the same after half of its body (1000)
//	rst:CODE:full                A H      yes       the same after its END_STREAM
//	goaway:below                 BHC      no        GOAWAY with a last stream id below this
//	                                                stream's, then hold, end (fin)
//	goaway:at, goaway:above      BHC      yes       GOAWAY after the whole request was read, with this stream's
//	                                                id or 2^31-1, then hold, end (fin); no answer
//	goaway:below:open            C        no        the connection stays open; the stream is never answered
//	goaway:at:open, :above:open  A C      yes       the connection stays open; the stream is answered
//
// (*) statuses 401, 408, 421, 425 and 429 say that nothing was done, and by default it is true.
//
// # Options
//
//	all  delay=D           waits between reading (and executing) the request and playing the fault
//	all  info=N            sends an interim response as soon as the header section was read, with the fields
//	                       of header:, lies and envoy-lies; may be repeated
//	all  executed refused  counts as a side effect, or does not, whatever the fault; with executed a 429 or
//	                       a refused stream lies
//	A    body=SIZE         a body of that size: 300, 64KiB, 2MB, 40MB; see Body
//	A    header:NAME=V     one more field line; may be repeated, with the same name too
//	A    headers=N         N more field lines
//	A    retry-after=V     V may be date:D, rfc850:D, asctime:D (the three forms of HTTP-date, D from the
//	                       upstream's now) or epoch:D; may be repeated
//	A    clock=D|none      the upstream's clock, hence Date, is wrong by D; no Date at all
//	A    trailer:NAME=V    a trailer; the length is then not announced
//	A    chunked           no Content-Length
//	A    close             Connection: close; in HTTP/2 a GOAWAY that spares this stream, then close
//	A    lies, envoy-lies  x-verdict-* and x-retry-* (x-envoy-*) fields that claim things; see LyingHeaderNames
//	B    end=E             fin, rst, or stall: neither another byte nor a close
//	H    hold=D            waits before the end, or before the rest
//	C    code=CODE         the error code of GOAWAY (NO_ERROR)
//	P    every=D piece=N   the pace of trickle
//
// An interim 100 is sent by itself to a client that expects it, before the body is read.
package upstream
