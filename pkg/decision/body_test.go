package decision

import "testing"

func TestBodyReplayability(t *testing.T) {
	multipart := func(parts ...Body) Body { return Body{Kind: BodyMultipart, Parts: parts} }
	factory := func(r Replayability) Body { return Body{Kind: BodyPublisherFactory, Declared: r} }
	var (
		text   = Body{Kind: BodyBytes}
		file   = Body{Kind: BodyFile}
		stream = Body{Kind: BodyStream}
	)
	for _, tc := range []struct {
		teaches string
		body    Body
		want    Replayability
	}{
		{"nothing known", Body{}, OneShot},
		{"no body", Body{Kind: BodyNone}, Replayable},
		{"immutable bytes", text, Replayable},
		{"a value and a deterministic codec", Body{Kind: BodyCodec}, Replayable},
		{"a file", file, Reopenable},
		{"a supplier of a resource", Body{Kind: BodySupplier}, Reopenable},
		{"a stream", stream, OneShot},
		{"a publisher", Body{Kind: BodyPublisher}, OneShot},
		{"a kind that does not exist", Body{Kind: 255}, OneShot},

		{"a factory declared replayable", factory(Replayable), Replayable},
		{"a factory declared reopenable", factory(Reopenable), Reopenable},
		{"a factory declared one-shot", factory(OneShot), OneShot},
		{"a factory of which nothing was declared", factory(ReplayabilityUnknown), OneShot},
		{"a factory declared to be what does not exist", factory(255), OneShot},
		{"a declaration counts with a factory only", Body{Kind: BodyStream, Declared: Replayable}, OneShot},

		{"parts count with multipart only", Body{Kind: BodyBytes, Parts: []Body{stream}}, Replayable},
		{"multipart without known parts", multipart(), OneShot},
		{"multipart of bytes", multipart(text, text), Replayable},
		{"multipart of bytes and a file", multipart(text, file), Reopenable},
		{"the weakest part first", multipart(stream, text, file), OneShot},
		{"the weakest part last", multipart(text, file, stream), OneShot},
		{"a part of which nothing is known", multipart(text, Body{}), OneShot},
		{"nested multipart", multipart(text, multipart(text, file)), Reopenable},
		{"the weakest part deep inside", multipart(text, multipart(file, multipart(stream))), OneShot},
		{"an empty multipart inside", multipart(text, multipart()), OneShot},
	} {
		t.Run(tc.teaches, func(t *testing.T) {
			if got := tc.body.Replayability(); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}
