package decision

// Replayability says whether a request body can be sent again.
type Replayability uint8

const (
	// ReplayabilityUnknown is read as OneShot.
	ReplayabilityUnknown Replayability = iota
	// OneShot: it can be read once.
	OneShot
	// Reopenable: it can be opened again at its source.
	Reopenable
	// Replayable: its bytes are at hand, or can be made again.
	Replayable
)

// BodyKind says what a request body is made of.
type BodyKind uint8

const (
	// BodyUnknown is one-shot.
	BodyUnknown BodyKind = iota
	// BodyNone: the request has no body.
	BodyNone
	// BodyBytes: immutable bytes.
	BodyBytes
	// BodyCodec: a value and a deterministic codec.
	BodyCodec
	// BodyFile: a file that can be reopened.
	BodyFile
	// BodySupplier: a supplier that opens a resource anew.
	BodySupplier
	// BodyStream: a single stream instance.
	BodyStream
	// BodyPublisher: a single publisher instance.
	BodyPublisher
	// BodyPublisherFactory: as Body.Declared says.
	BodyPublisherFactory
	// BodyMultipart: the weakest of Body.Parts.
	BodyMultipart
)

// Body describes a request body.
type Body struct {
	Kind BodyKind
	// Declared is read with BodyPublisherFactory.
	Declared Replayability
	// Parts are read with BodyMultipart. A multipart body of which no part is known is one-shot.
	Parts []Body
}

// Replayability returns OneShot, Reopenable or Replayable.
func (b Body) Replayability() Replayability {
	switch b.Kind {
	case BodyNone, BodyBytes, BodyCodec:
		return Replayable
	case BodyFile, BodySupplier:
		return Reopenable
	case BodyPublisherFactory:
		if b.Declared == Reopenable || b.Declared == Replayable {
			return b.Declared
		}
	case BodyMultipart:
		if len(b.Parts) == 0 {
			return OneShot
		}
		weakest := Replayable
		for _, part := range b.Parts {
			weakest = min(weakest, part.Replayability())
		}
		return weakest
	}
	return OneShot
}
