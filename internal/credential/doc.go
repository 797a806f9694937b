// Package credential issues the credentials that Verdict puts into the attempts to an upstream: OAuth 2.0
// client credentials, or a token file that somebody else keeps current.
//
// A Source answers three questions. What is to be sent now (Current)? Was the credential that an upstream
// answered with 401 issued here (Recognize)? Is there another one (Refresh)? However many ask at once,
// one fetch runs; a caller that leaves does not end it for the others.
//
// What a dead or a misbehaving endpoint can cost is bounded: 64 KiB and the configured timeout a fetch,
// and a pause after each fetch that failed, which grows from about a second to half a minute. The same
// pause follows a refresh that gave the same token again, and one of a token that was rejected within a
// minute of its issue: an upstream that rejects everything must not drive the endpoint.
//
// No secret and no token reaches a log, a metric or an error. Errors say what is wrong in words of this
// package; nothing that an endpoint answered is quoted.
package credential
