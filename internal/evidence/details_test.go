package evidence

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/pkg/decision"
)

// documented are the names in Envoy's documentation, "Response Code Details", in its order. A brace
// stands for the value that the documentation writes as {details}.
const documented = `
absolute_path_rejected
admin_filter_response
cluster_not_found
downstream_local_disconnect
downstream_remote_disconnect
duration_timeout
direct_response
filter_added_invalid_request_data
filter_added_invalid_response_data
filter_chain_not_found
filter_removed_required_request_headers
filter_removed_required_response_headers
internal_redirect
low_version
maintenance_mode
max_duration_timeout
missing_host_header
missing_path_rejected
no_healthy_upstream
overload
rejecting_because_detection_failed
path_normalization_failed
request_headers_failed_strict_check
request_overall_timeout
request_payload_exceeded_retry_buffer_limit
request_payload_too_large
response_payload_too_large
route_configuration_not_found
route_not_found
stream_idle_timeout
upgrade_failed
upstream_max_stream_duration_reached
upstream_per_try_timeout
upstream_reset_after_response_started{
upstream_reset_before_response_started{
upstream_response_timeout
via_upstream

http1.body_disallowed
http1.codec_error
http1.connection_header_rejected
http1.content_length_and_chunked_not_allowed
http1.content_length_not_allowed
http1.headers_too_large
http1.invalid_characters
http1.invalid_transfer_encoding
http1.invalid_url
http1.too_many_headers
http1.transfer_encoding_not_allowed
http1.unexpected_underscore

http2.inbound_empty_frames_flood
http2.invalid.header.field
http2.outbound_frames_flood
http2.too_many_headers
http2.unexpected_underscore
http2.unknown.nghttp2.error
http2.violation.of.messaging.rule
http2.remote_refuse
http2.remote_reset

http3.invalid_header_field
http3.headers_too_large
http3.unexpected_underscore
http3.too_many_headers
http3.too_many_trailers
http3.remote_refuse
http3.remote_reset
http3.inconsistent_content_length
`

// inTheSource are those of ResponseCodeDetailValues (envoy/stream_info/stream_info.h) that the
// documentation leaves out, and one that only older documentation has.
const inTheSource = `
downstream_header_timeout
downstream_local_disconnect(
drop_overload
early_connect_data
filter_removed_required_headers
invalid_path
request_header_timeout
response_timeout
unconditional_drop_overload
upstream_per_try_idle_timeout
websocket_handshake_unsuccessful
`

// ofFilters are those of filters that were seen to refuse on the way in.
const ofFilters = `
ext_authz_denied
ext_authz_error
failed_to_inject_credential
fault_filter_abort
jwt_authn_access_denied{
local_rate_limited
lua_response
rbac_access_denied_matched_policy[
request_rate_limited
`

// TestEveryDetailIsPlaced: no name that Envoy uses is forgotten, and none stands in the tables that
// nobody knows.
func TestEveryDetailIsPlaced(t *testing.T) {
	names := strings.Fields(documented + inTheSource + ofFilters)
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == "downstream_local_disconnect" // written with its reason
	})
	placed := slices.Concat(slices.Collect(maps.Keys(placements)), slices.Collect(maps.Keys(valued)))
	slices.Sort(names)
	slices.Sort(placed)
	if again := slices.Compact(slices.Clone(names)); len(again) != len(names) {
		t.Error("a name stands in the lists twice")
	}
	for _, name := range names {
		if !slices.Contains(placed, name) {
			t.Errorf("%s is not placed", name)
		}
	}
	for _, name := range placed {
		if !slices.Contains(names, name) {
			t.Errorf("%s is placed, but nobody writes it", name)
		}
	}
}

// full is a detail as Envoy writes it.
func full(name string) string {
	last := name[len(name)-1]
	if closing, ok := closing[last]; ok {
		return name + "some|reason:_x" + closing
	}
	return name
}

// TestPlacement: what each kind of detail can prove at best, whatever the counters say.
func TestPlacement(t *testing.T) {
	provesNotSent := strings.Fields(`
		upstream_reset_before_response_started{ response_timeout no_healthy_upstream
		cluster_not_found route_not_found route_configuration_not_found filter_chain_not_found
		direct_response admin_filter_response absolute_path_rejected invalid_path low_version
		missing_host_header missing_path_rejected path_normalization_failed
		rejecting_because_detection_failed request_headers_failed_strict_check request_payload_too_large
		upgrade_failed rbac_access_denied_matched_policy[ ext_authz_denied failed_to_inject_credential jwt_authn_access_denied{
		lua_response drop_overload ext_authz_error fault_filter_abort local_rate_limited maintenance_mode
		overload request_rate_limited unconditional_drop_overload`)
	notPermanent := strings.Fields(`
		upstream_reset_before_response_started{ response_timeout no_healthy_upstream
		drop_overload ext_authz_error fault_filter_abort local_rate_limited maintenance_mode
		overload request_rate_limited unconditional_drop_overload`)
	for _, name := range strings.Fields(documented + inTheSource + ofFilters) {
		best := decision.SentNoResponse
		for sent := int64(-1); sent <= 1; sent++ {
			for tries := int64(-1); tries <= 2; tries++ {
				switch got, permanent := prove(full(name), "", counters{sent, tries}); got {
				case decision.NotSent:
					best = got
					if sent != 0 || tries < 0 || tries > 1 {
						t.Errorf("%s: NOT_SENT with %d bytes and %d tries", name, sent, tries)
					}
					if (permanent == decision.PermanentNone) != slices.Contains(notPermanent, name) {
						t.Errorf("%s: permanent=%v", name, permanent)
					}
				case decision.ResponseReceived:
					if name != detailsViaUpstream {
						t.Errorf("%s is read as the upstream's answer", name)
					}
				case decision.SentNoResponse:
					if permanent != decision.PermanentNone {
						t.Errorf("%s: permanent=%v without proof", name, permanent)
					}
				default:
					t.Errorf("%s: %v", name, got)
				}
			}
		}
		if (best == decision.NotSent) != slices.Contains(provesNotSent, name) {
			t.Errorf("%s: %v at best", name, best)
		}
	}
}

// TestCounters: each kind of proof needs its own counts.
func TestCounters(t *testing.T) {
	for _, test := range []struct {
		details     string
		sent, tries int64
		want        decision.Evidence
	}{
		{"response_timeout", 0, 1, decision.NotSent},
		{"response_timeout", 0, 0, decision.SentNoResponse},
		{"response_timeout", 0, 2, decision.SentNoResponse},
		{"response_timeout", 1, 1, decision.SentNoResponse},
		{"response_timeout", -1, 1, decision.SentNoResponse},
		{"response_timeout", 0, -1, decision.SentNoResponse},
		{"overload", 0, 0, decision.NotSent},
		{"overload", 0, 1, decision.SentNoResponse},
		{"overload", 1, 0, decision.SentNoResponse},
		{"overload", -1, 0, decision.SentNoResponse},
		{"overload", 0, -1, decision.SentNoResponse},
		{detailsRefusedStream, 255, 1, decision.NotSent},
		{detailsRefusedStream, -1, 1, decision.NotSent},
		{detailsRefusedStream, 255, 0, decision.SentNoResponse},
		{detailsRefusedStream, 255, 2, decision.SentNoResponse},
		{detailsRefusedStream, 0, -1, decision.SentNoResponse},
		{detailsViaUpstream, 0, 0, decision.ResponseReceived},
		{detailsResetAfter + "remote_refused_stream_reset}", 0, 1, decision.SentNoResponse},
		{"cache.response_from_cache_filter", 0, 0, decision.SentNoResponse},
		{"", 0, 0, decision.SentNoResponse},
		{"", 0, 1, decision.SentNoResponse},
	} {
		if got, _ := prove(test.details, "", counters{test.sent, test.tries}); got != test.want {
			t.Errorf("%s, %d bytes, %d tries: %v, want %v", test.details, test.sent, test.tries, got, test.want)
		}
	}
}

// TestDetailsAreReadExactly: nothing that merely resembles a detail proves anything.
func TestDetailsAreReadExactly(t *testing.T) {
	for name := range placements {
		for _, other := range []string{name + " ", " " + name, name + "_", name + "{x}", name + "[x]", name + "(x)", name + "{", strings.ToUpper(name), name + "\x00", name + ",via_upstream"} {
			if got := place(other); got != (placement{}) {
				t.Errorf("%q is placed: %+v", other, got)
			}
		}
	}
	for name := range valued {
		bare := name[:len(name)-1]
		for _, other := range []string{bare, name, name + "x", " " + full(name), full(name) + " ", bare + "<x>", strings.ToUpper(full(name))} {
			if got := place(other); got != (placement{}) {
				t.Errorf("%q is placed: %+v", other, got)
			}
		}
	}
	for _, details := range []string{"ext_proc_error_per-message_timeout_exceeded", "ext_proc_error_gRPC_error_13{x}"} {
		if got, _ := prove(details, "", counters{0, 0}); got != decision.SentNoResponse || !place(details).local() {
			t.Errorf("%s: %v", details, got)
		}
	}
}

func TestCertificateFailure(t *testing.T) {
	const failed = "TLS_error:|268435581:SSL_routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:TLS_error_end"
	reset := detailsResetBefore + "remote_connection_failure|" + failed + "}"
	if _, got := prove(reset, failed, counters{0, 1}); got != decision.Certificate {
		t.Errorf("a failed verification is %v", got)
	}
	if _, got := prove(reset, "", counters{0, 1}); got != decision.PermanentNone {
		t.Errorf("without the transport's own word it is %v", got)
	}
	if got, permanent := prove(reset, failed, counters{1, 1}); got != decision.SentNoResponse || permanent != decision.PermanentNone {
		t.Errorf("after bytes were written: %v, %v", got, permanent)
	}
}
