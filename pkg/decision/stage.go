package decision

// Stage is the stage at which an attempt failed, for callers that watched it themselves.
type Stage uint8

const (
	// StageUnknown is any failure whose stage is not known, a generic I/O error included.
	StageUnknown Stage = iota

	// Stages that prove that the server never received the request.

	StageProfileRejection
	StagePoolTimeout
	StageDNS
	StageConnect
	// StageTLS is a TLS failure before the request was written. In TLS 1.3 a server may refuse the
	// client's certificate after it: that is StageConnectionReset.
	StageTLS
	// StageRefusedStream is HTTP/2 REFUSED_STREAM, or a GOAWAY whose last stream is below this one
	// (RFC 9113 section 8.7).
	StageRefusedStream

	// Stages after which some or all of the request was written and no final header had arrived.

	StageRequestWrite
	StageResponseHeaderTimeout
	StageConnectionReset

	// StageResponseBody: final headers and part of the body had arrived.
	StageResponseBody
)

// Evidence returns what the stage proves.
func (s Stage) Evidence() Evidence {
	switch s {
	case StageProfileRejection, StagePoolTimeout, StageDNS, StageConnect, StageTLS, StageRefusedStream:
		return NotSent
	case StageResponseBody:
		return PartialResponse
	}
	return SentNoResponse
}
