// Package evidence turns Envoy's words (fact headers, stream events, access-log entries) into the
// facts of an attempt. It is the trust boundary: what is not proven here is not known anywhere.
package evidence

// Every name that crosses the boundary between Envoy and Verdict, and who may write it. The files in
// envoy/ use the same names; TestNamesMatchEnvoyFiles compares them.
//
// Headers with PrefixVerdict are ours on both hops. The outer listener removes them from what a client
// sends, the filter next to router B removes them from what an upstream answers, and the first outer
// filter removes them from every answer that leaves. Headers with PrefixReport are removed from client
// and upstream in the same way, and only Verdict's report leaves.
const (
	PrefixVerdict = "x-verdict-"
	PrefixReport  = "x-retry-"

	// Control is set by the judge alone; router A sends the request again when it reads ControlRetry.
	Control      = "x-verdict-control"
	ControlRetry = "retry"
)

// Report headers, set on a final failing answer by judge, finalizer or, with Verdict down, by Envoy.
const (
	ReportVerdict     = "x-retry-verdict"
	ReportReason      = "x-retry-reason"
	ReportEvidence    = "x-retry-evidence"
	ReportExecution   = "x-retry-execution"
	ReportAttempts    = "x-retry-attempts"
	ReportAmbiguityID = "x-retry-ambiguity-id"
	ReportRequestID   = "x-request-id"
)

// Fact headers, written by Envoy's inner hop. Names and numbers that neither a client nor an upstream
// can choose share one header; everything else stands alone, so that nothing can be smuggled into
// another field.
const (
	factsHeader      = "x-verdict-facts"
	factDetails      = "x-verdict-details"
	factTransport    = "x-verdict-transport"
	factMethod       = "x-verdict-method"
	factPath         = "x-verdict-path"
	factKey          = "x-verdict-key"
	factLength       = "x-verdict-length"
	factEarlyData    = "x-verdict-early-data"
	factOverride     = "x-verdict-override"
	factRequestID    = "x-verdict-request-id"
	factsVersion     = "v1"
	factKeyLimit     = 257 // the formatter cuts there, so a key of this length may be longer
	outerHeader      = "x-verdict-outer"
	outerDetails     = "x-verdict-outer-details"
	outerMethod      = "x-verdict-outer-method"
	outerPath        = "x-verdict-outer-path"
	outerRequestID   = "x-verdict-outer-request-id"
	outerOverride    = "x-verdict-outer-override"
	attributesBundle = "envoy.filters.http.ext_proc"
)

// The credential filter of the inner hop (envoy/credential.yaml). A filter in front of it marks the
// request as pending, one behind it as set, so that a request that it ended is told by a value that is
// present. The latter also keeps the mark of the credential for the judge: router B removes the header,
// and dynamic metadata would be in every access log. Neither the credential nor the mark ever is in a
// header of an answer.
const (
	credentialState  = "verdict.credential"
	factCredential   = "x-verdict-credential"
	credentialWaits  = "pending"
	credentialPassed = "set"
	markState        = "verdict.mark"
	// Mark is the request header that carries a mark from the credential filter to the one behind it.
	Mark = "x-verdict-mark"
	// DetailsNoCredential is the detail of the reply with which Verdict refuses an attempt that has no
	// credential.
	DetailsNoCredential = detailsExtProc + "no_credential"
	// Authorization is the request header that the credential filter sets.
	Authorization = "authorization"
)

// What the head copies before later parts can lose it or be lied to about it.
const (
	ownID             = "x-verdict-id"    // the request's, added by the outer listener
	filterStateHead   = "verdict.request" // the access log carries it too
	filterStateMethod = "verdict.method"
	filterStatePath   = "verdict.path"
	filterStateKey    = "verdict.key"
)

// formats are Envoy's access-log formats, or the words, of each header and filter-state object that it writes for
// Verdict. An absent value is empty, in a filter-state object "-"; a header whose whole value is absent
// is not there. The numbers bound what a client sizes.
var formats = map[string]string{
	filterStateHead:   "id=%REQ(X-VERDICT-ID)% attempt=%REQ(X-ENVOY-ATTEMPT-COUNT)% remaining=%REQ(X-ENVOY-EXPECTED-RQ-TIMEOUT-MS)%",
	filterStateMethod: "%REQ(:METHOD)%",
	filterStatePath:   "%REQ(:PATH)%",
	filterStateKey:    "%REQ(IDEMPOTENCY-KEY)%",
	credentialState:   credentialWaits + ", then " + credentialPassed,
	markState:         "%REQ(X-VERDICT-MARK)%",

	factsHeader:   "v1 flags=%RESPONSE_FLAGS% sent=%UPSTREAM_WIRE_BYTES_SENT% tries=%UPSTREAM_REQUEST_ATTEMPT_COUNT% received=%BYTES_RECEIVED% duration=%DURATION% upload=%REQUEST_DURATION% protocol=%UPSTREAM_PROTOCOL% redirected=%REQ(X-ENVOY-ORIGINAL-URL):1% %FILTER_STATE(verdict.request:PLAIN)% host=%UPSTREAM_HOST% operation=%METADATA(ROUTE:verdict:operation)% cluster=%UPSTREAM_CLUSTER_RAW%",
	factDetails:   "%RESPONSE_CODE_DETAILS%",
	factTransport: "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
	factMethod:    "%FILTER_STATE(verdict.method:PLAIN)%",
	factPath:      "%FILTER_STATE(verdict.path:PLAIN):1024%",
	factKey:       "%FILTER_STATE(verdict.key:PLAIN):257%",
	factLength:    "%REQ(CONTENT-LENGTH):32%",
	factEarlyData: "%REQ(EARLY-DATA):8%",
	factOverride:  "%REQ(X-HTTP-METHOD-OVERRIDE?X-HTTP-METHOD):16%%REQ(X-METHOD-OVERRIDE):16%",
	factRequestID: "%REQ(X-REQUEST-ID):257%",

	factCredential: "%FILTER_STATE(verdict.credential:PLAIN)%",

	outerHeader:    "v1 flags=%RESPONSE_FLAGS% sent=%UPSTREAM_WIRE_BYTES_SENT% tries=%UPSTREAM_REQUEST_ATTEMPT_COUNT% id=%REQ(X-VERDICT-ID)%",
	outerDetails:   "%RESPONSE_CODE_DETAILS%",
	outerMethod:    "%REQ(:METHOD)%",
	outerPath:      "%REQ(:PATH):1024%",
	outerOverride:  "%REQ(X-HTTP-METHOD-OVERRIDE?X-HTTP-METHOD):16%%REQ(X-METHOD-OVERRIDE):16%",
	outerRequestID: "%REQ(X-REQUEST-ID):257%",

	ownID: "%UNIQUE_ID%",
}

// Stream metadata, written by the operator next to Envoy's own setting in the same file.
const (
	MetadataRole        = "x-verdict-role"
	MetadataReplayLimit = "x-verdict-replay-limit" // request_body_buffer_limit, bytes
	MetadataRetries     = "x-verdict-retries"      // num_retries of router A
	MetadataMaxWait     = "x-verdict-max-wait"     // max_message_timeout of the judge, ms
	MetadataMaxHeaders  = "x-verdict-max-headers"  // the least max_headers_count of the upstream clusters
	MetadataKeyHeader   = "x-verdict-key-header"   // the idempotency key's header, lower case
)

// methodOverrides are the request headers by which frameworks let a client override its method.
var methodOverrides = []string{"x-http-method-override", "x-http-method", "x-method-override"}

// Headers of the upstream's own answer that Verdict reads.
const (
	headerStatus      = ":status"
	headerRetryAfter  = "retry-after"
	headerDate        = "date"
	headerGRPCStatus  = "grpc-status"
	headerContentType = "content-type"
	headerLength      = "content-length"
	headerAttempt     = "x-envoy-attempt-count" // of the request, written by router A
	// HeaderRateLimited makes router A refuse to retry; the judge removes it when it says retry.
	HeaderRateLimited = "x-envoy-ratelimited"
)
