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
	// placedSent: the request may have reached the upstream. Every detail that is not known is here.
	placedSent placementKind = iota
	// placedAnswer: the upstream's own answer.
	placedAnswer
	// placedCut: the upstream's answer had begun and was cut off.
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
	detailsResetBefore   = "upstream_reset_before_response_started"
	detailsResetAfter    = "upstream_reset_after_response_started"
	detailsRefusedStream = detailsResetBefore + "{remote_refused_stream_reset}"
	detailsExtProc       = "ext_proc_"
)

func refusal(c decision.Permanent) placement { return placement{placedRefusal, c} }

// placements has every detail of Envoy's HTTP connection manager and router (1.40, response code
// details; stream_info.h has more than the documentation lists), and those of filters that were seen
// to refuse on the way in with no byte written and no try made. A detail that carries a value is
// listed without it.
var placements = map[string]placement{
	detailsViaUpstream: {kind: placedAnswer},
	detailsResetAfter:  {kind: placedCut},
	detailsResetBefore: {kind: placedAttempt},

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
	"rbac_access_denied_matched_policy":   refusal(decision.RejectedByFilter),
	"ext_authz_denied":                    refusal(decision.RejectedByFilter),
	"jwt_authn_access_denied":             refusal(decision.RejectedByFilter),
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
	"downstream_header_timeout":                   {kind: placedSent},
	"downstream_local_disconnect":                 {kind: placedSent},
	"downstream_remote_disconnect":                {kind: placedSent},
	"duration_timeout":                            {kind: placedSent},
	"early_connect_data":                          {kind: placedSent},
	"filter_added_invalid_request_data":           {kind: placedSent},
	"filter_added_invalid_response_data":          {kind: placedSent},
	"filter_removed_required_headers":             {kind: placedSent},
	"filter_removed_required_request_headers":     {kind: placedSent},
	"filter_removed_required_response_headers":    {kind: placedSent},
	"internal_redirect":                           {kind: placedSent},
	"max_duration_timeout":                        {kind: placedSent},
	"request_header_timeout":                      {kind: placedSent},
	"request_overall_timeout":                     {kind: placedSent},
	"request_payload_exceeded_retry_buffer_limit": {kind: placedSent},
	"response_payload_too_large":                  {kind: placedSent},
	"stream_idle_timeout":                         {kind: placedSent},
	"upstream_max_stream_duration_reached":        {kind: placedSent},
	"upstream_per_try_idle_timeout":               {kind: placedSent},
	"upstream_per_try_timeout":                    {kind: placedSent},
	"upstream_response_timeout":                   {kind: placedSent},
	"websocket_handshake_unsuccessful":            {kind: placedSent},

	// Codec errors, documented under http1. and http2., are about the downstream connection.
	"http1.body_disallowed":                        {kind: placedSent},
	"http1.codec_error":                            {kind: placedSent},
	"http1.connection_header_rejected":             {kind: placedSent},
	"http1.content_length_and_chunked_not_allowed": {kind: placedSent},
	"http1.content_length_not_allowed":             {kind: placedSent},
	"http1.headers_too_large":                      {kind: placedSent},
	"http1.invalid_characters":                     {kind: placedSent},
	"http1.invalid_transfer_encoding":              {kind: placedSent},
	"http1.invalid_url":                            {kind: placedSent},
	"http1.too_many_headers":                       {kind: placedSent},
	"http1.transfer_encoding_not_allowed":          {kind: placedSent},
	"http1.unexpected_underscore":                  {kind: placedSent},
	"http2.inbound_empty_frames_flood":             {kind: placedSent},
	"http2.invalid.header.field":                   {kind: placedSent},
	"http2.outbound_frames_flood":                  {kind: placedSent},
	"http2.too_many_headers":                       {kind: placedSent},
	"http2.unexpected_underscore":                  {kind: placedSent},
	"http2.unknown.nghttp2.error":                  {kind: placedSent},
	"http2.violation.of.messaging.rule":            {kind: placedSent},
}

// place looks up a detail. The text may go on with a value in braces, brackets or parentheses.
func place(details string) placement {
	if details == detailsRefusedStream {
		return placement{kind: placedRefusedStream}
	}
	if strings.HasPrefix(details, detailsExtProc) {
		return placement{kind: placedOwn}
	}
	name := details
	if i := strings.IndexAny(details, "{[("); i >= 0 {
		name = details[:i]
	}
	return placements[name]
}
