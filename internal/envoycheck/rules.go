package envoycheck

// rule is a kind of finding.
type rule struct {
	name     string
	severity Severity
	reason   string
}

// rules is every rule; a test sees each of them fire.
var rules []*rule

func falsifies(name, reason string) *rule { return register(Error, name, reason) }
func costs(name, reason string) *rule     { return register(Warning, name, reason) }

func register(s Severity, name, reason string) *rule {
	r := &rule{name, s, reason}
	rules = append(rules, r)
	return r
}

// The file and the topology.
var (
	unreadable = falsifies("unreadable", "this is not an Envoy bootstrap in YAML or JSON")
	noHop      = falsifies("no_hop", "no route of a listener leads to a cluster whose endpoint is an internal listener with an HTTP connection manager, so no filter sees how an attempt ended")
	unseen     = costs("unseen", "what Envoy fetches at run time is not in this file and cannot be checked")
	tooMuch    = falsifies("too_much", "aliases make this part too large to be checked")
	bypass     = costs("bypass", "requests on this route are neither judged nor retried")
)

// Trust: what comes from a client.
var (
	clientHeaders = falsifies("client_headers", "a client could send Envoy's or Verdict's own headers, which make router A send a request again or change what the judge reads")
	requestID     = falsifies("request_id", "an uncertain outcome would have no case id that a client cannot choose")
	rawPath       = costs("raw_path", "one path could be asked for in many spellings, each of which is read the strict way")
	generatedID   = costs("generated_id", "every attempt would get a request id of its own")
)

// Router A.
var (
	retryOn         = falsifies("retry_on", "router A must send again exactly what the judge says, whatever the status: `retry_on: retriable-headers` alone, with `retriable_headers: [{name: x-verdict-control, string_match: {exact: retry}}]`")
	hedging         = falsifies("hedging", "router A would send copies of a request that nobody has judged")
	outerRedirect   = falsifies("outer_redirect", "a request that was executed and then redirected would be labelled by what came of the second one")
	perTry          = costs("per_try", "router A would cut attempts off past the judge; the timeout of an attempt belongs on the inner route")
	routerWaits     = costs("router_waits", "the judge has waited already, and router A would wait once more: `retry_back_off: {base_interval: 0.001s, max_interval: 0.001s}`")
	steered         = falsifies("steered", "a router obeys this header whoever sets it, and would send a request again, or answer in another way, past the judge")
	ownStatus       = falsifies("local_reply_status", "Envoy's own reply to a request that may have been executed would pass for an answer of another kind, and unlabelled: only a 5xx is safe")
	outerPage       = falsifies("outer_page", "the error page is fetched by a request that takes the place of the one that failed, and the caller would be told what came of it")
	noAttemptCount  = falsifies("attempt_count", "without it no attempt but the first could be told from another")
	noReplayLimit   = falsifies("replay_limit", "without request_body_buffer_limit the size up to which a body is sent again depends on the protocol")
	suppressed      = falsifies("suppressed", "router A would tell the inner hop neither deadline nor attempt")
	noDeadline      = costs("no_deadline", "requests on this route have no deadline that a wait could be fitted into")
	outerRewrite    = costs("outer_rewrite", "the inner hop would see the rewritten path and not the client's, for which operations are declared; rewrite on the inner routes")
	hiddenFacts     = falsifies("hidden_facts", "a route's response_headers_to_remove runs before the outer filters, and would hide the facts from the finalizer; the sweep removes them last")
	continueProxied = falsifies("proxy_100_continue", "a 100 that went through ends router A's retries")
)

// The outer filters.
var (
	sweepFirst   = falsifies("sweep_first", "the first outer filter is the last to see an answer; it must remove x-verdict- from every response, or internal headers leak")
	noFinalizer  = falsifies("finalizer", "answers that went past the judge would leave without a report, and an uncertain outcome would look like a plain failure")
	noUnjudged   = falsifies("unjudged", "with Verdict down an uncertain outcome would look like a plain failure: the filter `unjudged` of envoy/hop.yaml, in front of the finalizer")
	noOuterFacts = falsifies("outer_facts", "behind the finalizer a header_mutation must write x-verdict-outer, or the finalizer does not know how the answer came to be")
)

// The inner filters.
var (
	headFirst    = falsifies("head_first", "the first inner filter must copy attempt and deadline into the filter state verdict.request, before any other part can lose or change them")
	headCopies   = falsifies("head_copies", "verdict.request must hold the x-verdict-id, x-envoy-attempt-count and x-envoy-expected-rq-timeout-ms that router A sent")
	noJudge      = falsifies("judge", "without an ext_proc filter of the role judge nothing is ever retried")
	noFacts      = falsifies("facts", "between judge and router B a header_mutation must write x-verdict-facts, or the judge knows nothing of the attempt")
	noStrip      = falsifies("strip", "next to router B a header_mutation must remove x-verdict- and x-retry- from every response, or an upstream can speak in Verdict's name")
	order        = falsifies("order", "answers pass the filters from the last to the first: head, judge, facts, strip, router B is the order that works")
	otherMatcher = falsifies("other_matcher", "judge and facts must see the same answers, or the judge decides without facts")
	ownFilters   = falsifies("upgrade_filters", "an upgrade would pass these filters instead of the topology's, and an upstream that refuses it could say `retry` itself")
	switchedOff  = falsifies("switched_off", "a part of the topology must not be switched off, or changed by a route")
)

// The ext_proc filters.
var (
	failClosed       = falsifies("fail_closed", "with Verdict down, traffic must flow: failure_mode_allow")
	processing       = falsifies("processing_mode", "Verdict is called with the headers of responses only, and asks for a body itself")
	everyAnswer      = falsifies("every_answer", "without a matcher around it (ExtensionWithMatcher) healthy answers would call Verdict too")
	noModeOverride   = falsifies("mode_override", "the judge could not let an error body arrive before it waits, and would hold the upstream's connection")
	rateLimited      = falsifies("rate_limited", "the judge could not remove x-envoy-ratelimited, with which router A refuses to retry: mutation_rules {allow_envoy: true}")
	shortTimeout     = costs("short_timeout", "message timeouts of 200 ms failed open under load, 500 ms did not")
	noWait           = falsifies("no_wait", "without max_message_timeout Envoy ignores that the judge asks for time to wait, and fails open")
	metadata         = falsifies("metadata", "Verdict is told Envoy's own setting in the stream's initial_metadata, and the two must be equal")
	keyHeader        = falsifies("key_header", "x-verdict-key-header, the head's verdict.key and the attribute request.headers must name one header, or a key is not seen, or a second one")
	shortLife        = costs("short_life", "it would end a wait of the judge with a 504 past the judge")
	noAccessLog      = falsifies("access_log", "without Envoy's gRPC access log of the inner hop, with verdict.request in filter_state_objects_to_log, no first attempt pays into the budget")
	skipsLocal       = falsifies("skips_local_replies", "Envoy's own local replies would not be judged")
	unknownAddress   = falsifies("internal_address", "without internal_address_config for 0.0.0.0/0 and ::/0 the inner hop drops x-envoy-expected-rq-timeout-ms, and no deadline is known")
	sharedConnection = falsifies("shared_connection", "requests that share a connection share their fate: clients that leave early, or one malformed message, end those of others, slow readers stall them, and a long answer to an unfinished upload is cut; HTTP/1.1 gives each a connection: explicit_http_config {http_protocol_options: {enable_trailers: true}}")
	noTrailers       = falsifies("trailers", "trailers would be lost, and with them the status of gRPC: http_protocol_options {enable_trailers: true} on both sides")
	keptConnection   = falsifies("kept_connection", "to router A an answer ends with its announced length, to the inner hop with its stream, and the next request on the connection would wait for the difference")
	lateIdle         = costs("idle_timeout", "the inner hop could close an idle connection that router A has just chosen for a request")
	headerCount      = costs("headers_count", "a message near the limit of 100 headers would have no room for Verdict's: common_http_protocol_options {max_headers_count: 200}")
	refusedUpgrade   = costs("refused_upgrade", "the inner hop refuses an upgrade that the outer one accepts")
	leakedToService  = falsifies("leaks_upstream", "request_headers_to_remove of the inner routes must name x-envoy-internal, which the inner hop sets for every client, and x-verdict-id")
)

// The credential filter (envoy/credential.yaml), where a route switches it on.
var (
	clientCredential   = falsifies("client_credential", "a client's own bad credential would be replaced by the service's: {remove: authorization} there, or request_headers_to_remove: [authorization] on every outer route that leads inwards")
	credentialOpen     = falsifies("credential_open", "an attempt that does not get its credential must not be sent")
	credentialMode     = falsifies("credential_mode", "the credential filter is asked with the headers of requests, and with nothing else: {request_header_mode: SEND, response_header_mode: SKIP}")
	credentialCluster  = falsifies("credential_cluster", "Verdict would not know which upstream's credential is meant, and refuse every attempt")
	credentialSkipped  = falsifies("credential_skipped", "all that may be kept from the credential filter is attempt 1: x-envoy-attempt-count exact \"1\"")
	credentialMarks    = falsifies("credential_marks", "directly in front of the credential filter, and on the same routes, a set_filter_state must write verdict.credential: pending, and directly behind it one must write set, or an attempt that was sent can look like one that was not")
	credentialLost     = falsifies("credential_lost", "router B would take the credential away, or put another one in its place, behind the credential filter")
	credentialRoute    = falsifies("credential_route", "behind the credential the route could be chosen anew, and one upstream be sent the credential of another")
	credentialReplaced = falsifies("credential_replaced", "Envoy's own credential would replace the one that was refreshed")
	credentialFacts    = falsifies("credential_facts", "an attempt that was not sent, for want of a credential, would look like one that was")
	credentialUnseen   = falsifies("credential_unseen", "the judge could not tell the service's own credential from a client's, and would refresh none")
	credentialMark     = costs("credential_mark", "a replica of Verdict would not recognize a credential that another replica has set")
	markLeaks          = falsifies("mark_leaks", "the upstream would be told by what replicas know each other's credentials: request_headers_to_remove of the inner route must name it")
)

// Inner routes and their clusters.
var (
	innerRetry    = falsifies("inner_retry", "a retry of the inner hop hides the attempts before the last, whose 0 bytes would prove that nothing was sent")
	innerHedge    = falsifies("inner_hedge", "the inner hop would send copies of a request that nobody has judged")
	innerRedirect = falsifies("inner_redirect", "a redirect followed by the inner hop hides that the first server has executed the request")
	innerPage     = falsifies("inner_page", "the error page is fetched by a request that takes the place of the one that failed, and what came of it hides that the first server may have executed it")
	innerChance   = costs("inner_chance", "each attempt of a request draws anew, so what Verdict knows of one may not hold for the next; it needs the same declarations for all that may be drawn")
	innerMatch    = falsifies("inner_match", "the header differs from attempt to attempt, so each could take another route, and what Verdict knows of one would not hold for the next")
	innerMirror   = falsifies("inner_mirror", "every attempt would be executed by the mirror too, unseen by the judge")
	innerCount    = costs("inner_attempt_count", "router B overwrites x-envoy-attempt-count with 1: the upstream is told the same number on every attempt")
	lateTimeout   = costs("late_timeout", "the timeout of an attempt must be clearly shorter than the deadline on router A, or router A answers first and nobody judges")
	useless       = costs("respect_expected_timeout", "router B would time out when router A does, and router A answers first")
	proxyProtocol = falsifies("proxy_protocol_v1", "upstream_proxy_protocol V1 ends Envoy at the first request that comes from an internal listener")
	breakers      = falsifies("breakers", "every attempt, every retry and every wait of the judge passes here, and Envoy's default limits (1024 connections and requests, 3 retries) end that under load")
	clusterRetry  = falsifies("cluster_retry", "a cluster's own policy replaces the one of router A")
	notHTTP2      = falsifies("not_http2", "Verdict is called by gRPC, which needs HTTP/2")
	panicky       = costs("panic", "with no healthy replica Envoy would ask the dead ones and wait for each: common_lb_config {healthy_panic_threshold: {value: 0}}")
	unchecked     = costs("health_check", "a dead or hung replica would be asked again and again: health_checks with grpc_health_check")
	balancing     = costs("balancing", "with ROUND_ROBIN and one dead replica of two, serial traffic lost every retry: lb_policy LEAST_REQUEST")
	plaintext     = costs("plaintext", "whoever sits between Envoy and Verdict reads requests and can say `retry`, and whoever reaches Verdict can spend its budgets: give the cluster a transport_socket as in envoy/tls/cluster.yaml, or keep Verdict on loopback or a Unix socket")
	unverified    = costs("unverified", "Envoy believes any certificate unless it is told whose: validation_context {trusted_ca, match_typed_subject_alt_names}")
)
