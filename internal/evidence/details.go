package evidence

import (
	"strings"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// placement says what a response-code detail can prove.
type placement struct {
	kind     placementKind
	category decision.Permanent
}

type placementKind uint8

const (
	// placedNowhere: a detail that is not known; the request may have reached the upstream.
	placedNowhere placementKind = iota
	// placedSent: Envoy's own words, for what can come at any time; the request may have reached the
	// upstream.
	placedSent
	// placedAnswer: the upstream's own answer.
	placedAnswer
	// placedCut: the upstream's answer had begun and was cut off. In an access log it was the final
	// answer. Before a filter the answer is Envoy's own, and what had begun was an interim one (103).
	placedCut
	// placedAttempt: router B ended its attempt before an answer; not sent if no byte was written.
	placedAttempt
	// placedRefusedStream: the upstream said that it has not processed the stream.
	placedRefusedStream
	// placedRefusal: Envoy refused the request on its way in; not sent if router B never tried.
	placedRefusal
	// placedOwn: one of our own filters ended the request; no evidence about the upstream.
	placedOwn
)

const (
	detailsViaUpstream   = "via_upstream"
	detailsResetBefore   = "upstream_reset_before_response_started{"
	detailsResetAfter    = "upstream_reset_after_response_started{"
	detailsRefusedStream = detailsResetBefore + "remote_refused_stream_reset}"
	detailsExtProc       = "ext_proc_"
)

var ownWords = placement{kind: placedSent}

func refusal(c decision.Permanent) placement { return placement{placedRefusal, c} }

// placements has every detail of Envoy's HTTP connection manager, router and codecs (1.40, response code
// details; stream_info.h has more than the documentation lists), and those of filters that were seen to
// refuse on the way in with no byte written and no try made.
var placements = map[string]placement{
	detailsViaUpstream: {kind: placedAnswer},

	"response_timeout":    {kind: placedAttempt},
	"no_healthy_upstream": {kind: placedAttempt},

	// Refused on the way in, for good.
	"cluster_not_found":                   refusal(decision.NoCluster),
	"route_not_found":                     refusal(decision.NoRoute),
	"route_configuration_not_found":       refusal(decision.NoRoute),
	"filter_chain_not_found":              refusal(decision.NoRoute),
	"direct_response":                     refusal(decision.DirectResponse),
	"admin_filter_response":               refusal(decision.DirectResponse),
	"absolute_path_rejected":              refusal(decision.RequestInvalid),
	"invalid_path":                        refusal(decision.RequestInvalid),
	"low_version":                         refusal(decision.RequestInvalid),
	"missing_host_header":                 refusal(decision.RequestInvalid),
	"missing_path_rejected":               refusal(decision.RequestInvalid),
	"path_normalization_failed":           refusal(decision.RequestInvalid),
	"rejecting_because_detection_failed":  refusal(decision.RequestInvalid),
	"request_headers_failed_strict_check": refusal(decision.RequestInvalid),
	"request_payload_too_large":           refusal(decision.RequestInvalid),
	"upgrade_failed":                      refusal(decision.RequestInvalid),
	"ext_authz_denied":                    refusal(decision.RejectedByFilter),
	"failed_to_inject_credential":         refusal(decision.RejectedByFilter),
	"lua_response":                        refusal(decision.RejectedByFilter),

	// Refused on the way in, for now: rate limits, overload, maintenance mode, injected faults.
	"drop_overload":               refusal(decision.PermanentNone),
	"ext_authz_error":             refusal(decision.PermanentNone),
	"fault_filter_abort":          refusal(decision.PermanentNone),
	"local_rate_limited":          refusal(decision.PermanentNone),
	"maintenance_mode":            refusal(decision.PermanentNone),
	"overload":                    refusal(decision.PermanentNone),
	"request_rate_limited":        refusal(decision.PermanentNone),
	"unconditional_drop_overload": refusal(decision.PermanentNone),

	// These can come at any time, so they prove nothing.
	"downstream_header_timeout":                   ownWords,
	"downstream_remote_disconnect":                ownWords,
	"duration_timeout":                            ownWords,
	"early_connect_data":                          ownWords,
	"filter_added_invalid_request_data":           ownWords,
	"filter_added_invalid_response_data":          ownWords,
	"filter_removed_required_headers":             ownWords,
	"filter_removed_required_request_headers":     ownWords,
	"filter_removed_required_response_headers":    ownWords,
	"internal_redirect":                           ownWords,
	"max_duration_timeout":                        ownWords,
	"request_header_timeout":                      ownWords,
	"request_overall_timeout":                     ownWords,
	"request_payload_exceeded_retry_buffer_limit": ownWords,
	"response_payload_too_large":                  ownWords,
	"stream_idle_timeout":                         ownWords,
	"upstream_max_stream_duration_reached":        ownWords,
	"upstream_per_try_idle_timeout":               ownWords,
	"upstream_per_try_timeout":                    ownWords,
	"upstream_response_timeout":                   ownWords,
	"websocket_handshake_unsuccessful":            ownWords,

	// Codec errors are about the downstream connection.
	"http1.body_disallowed":                        ownWords,
	"http1.codec_error":                            ownWords,
	"http1.connection_header_rejected":             ownWords,
	"http1.content_length_and_chunked_not_allowed": ownWords,
	"http1.content_length_not_allowed":             ownWords,
	"http1.headers_too_large":                      ownWords,
	"http1.invalid_characters":                     ownWords,
	"http1.invalid_transfer_encoding":              ownWords,
	"http1.invalid_url":                            ownWords,
	"http1.too_many_headers":                       ownWords,
	"http1.transfer_encoding_not_allowed":          ownWords,
	"http1.unexpected_underscore":                  ownWords,
	"http2.inbound_empty_frames_flood":             ownWords,
	"http2.invalid.header.field":                   ownWords,
	"http2.outbound_frames_flood":                  ownWords,
	"http2.remote_refuse":                          ownWords,
	"http2.remote_reset":                           ownWords,
	"http2.too_many_headers":                       ownWords,
	"http2.unexpected_underscore":                  ownWords,
	"http2.unknown.nghttp2.error":                  ownWords,
	"http2.violation.of.messaging.rule":            ownWords,
	"http3.headers_too_large":                      ownWords,
	"http3.inconsistent_content_length":            ownWords,
	"http3.invalid_header_field":                   ownWords,
	"http3.remote_refuse":                          ownWords,
	"http3.remote_reset":                           ownWords,
	"http3.too_many_headers":                       ownWords,
	"http3.too_many_trailers":                      ownWords,
	"http3.unexpected_underscore":                  ownWords,
}

// valued has the details that carry a value, up to the bracket that opens it.
var valued = map[string]placement{
	detailsResetBefore:                   {kind: placedAttempt},
	detailsResetAfter:                    {kind: placedCut},
	"downstream_local_disconnect(":       ownWords,
	"rbac_access_denied_matched_policy[": refusal(decision.RejectedByFilter),
	"jwt_authn_access_denied{":           refusal(decision.RejectedByFilter),
}

// closing has the bracket that ends a value.
var closing = map[byte]string{'{': "}", '[': "]", '(': ")"}

// place looks up a detail. One that is not known says nothing, neither of the upstream nor of who made
// the answer: a filter may have set it on the upstream's own.
func place(details string) placement {
	if details == detailsRefusedStream {
		return placement{kind: placedRefusedStream}
	}
	if strings.HasPrefix(details, detailsExtProc) {
		return placement{kind: placedOwn}
	}
	if i := strings.IndexAny(details, "{[("); i >= 0 && strings.HasSuffix(details, closing[details[i]]) {
		return valued[details[:i+1]]
	}
	return placements[details]
}

// local says that Envoy is known to have made the answer itself.
func (p placement) local() bool {
	switch p.kind {
	case placedNowhere, placedAnswer:
		return false
	}
	return true
}
