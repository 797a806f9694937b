package decisionapi

import retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"

func (r *plainReader) ending(m *retryv1.Ending, end int) {
	for r.at < end {
		tag := r.tag()
		r.once(m.Ending == nil)
		switch tag {
		case 1<<3 | wireBytes:
			o := new(struct {
				oneof   retryv1.Ending_Observation
				message retryv1.Observation
			})
			o.oneof.Observation = &o.message
			m.Ending = &o.oneof
			r.observation(&o.message, r.part(end))
		case 2<<3 | wireBytes:
			e := &retryv1.Ending_Envoy{Envoy: new(retryv1.EnvoyReply)}
			m.Ending = e
			r.envoy(e.Envoy, r.part(end))
		case 3<<3 | wireBytes:
			h := new(struct {
				oneof   retryv1.Ending_Http
				message retryv1.HttpResponse
				first   retryv1.Header
				headers [1]*retryv1.Header
			})
			h.oneof.Http = &h.message
			m.Ending = &h.oneof
			h.message.Headers = h.headers[:0]
			r.http(&h.message, &h.first, r.part(end))
		default:
			r.strange()
		}
	}
}

func (r *plainReader) observation(m *retryv1.Observation, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireVarint:
			m.Reach = &retryv1.Observation_Evidence{Evidence: retryv1.Evidence(r.number(end))}
		case 2<<3 | wireVarint:
			m.Reach = &retryv1.Observation_Stage{Stage: retryv1.Stage(r.number(end))}
		case 3<<3 | wireVarint:
			m.Status = uint32(r.number(end))
		case 4<<3 | wireVarint:
			m.Permanent = retryv1.PermanentCategory(r.number(end))
		case 5<<3 | wireBytes:
			m.RetryAfter = append(m.RetryAfter, r.string(end))
		case 6<<3 | wireBytes:
			m.Date = r.string(end)
		default:
			r.strange()
		}
	}
}

func (r *plainReader) envoy(m *retryv1.EnvoyReply, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireBytes:
			m.Details = r.string(end)
		case 2<<3 | wireVarint:
			v := r.number(end)
			m.WireBytesSent = &v
		case 3<<3 | wireVarint:
			v := r.number(end)
			m.UpstreamAttemptCount = &v
		case 4<<3 | wireBytes:
			m.TransportFailureReason = r.string(end)
		case 5<<3 | wireVarint:
			m.Status = uint32(r.number(end))
		case 6<<3 | wireBytes:
			h := new(retryv1.Header)
			r.header(h, r.part(end))
			m.Headers = append(m.Headers, h)
		default:
			r.strange()
		}
	}
}

// http has room for the first header and for a pointer to it.
func (r *plainReader) http(m *retryv1.HttpResponse, h *retryv1.Header, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireVarint:
			m.Status = uint32(r.number(end))
		case 2<<3 | wireBytes:
			if len(m.Headers) > 0 {
				h = new(retryv1.Header)
			}
			r.header(h, r.part(end))
			m.Headers = append(m.Headers, h)
		default:
			r.strange()
		}
	}
}

func (r *plainReader) header(m *retryv1.Header, end int) {
	for r.at < end {
		switch r.tag() {
		case 1<<3 | wireBytes:
			m.Name = r.string(end)
		case 2<<3 | wireBytes:
			m.Value = r.string(end)
		default:
			r.strange()
		}
	}
}
