package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

const defaultTokenTimeout = 2 * time.Second

// reservedParams are what the client credentials grant sets itself, and fields whose values are secrets.
var reservedParams = []string{
	"grant_type", "scope", "client_id",
	"client_secret", "client_assertion", "assertion", "password", "refresh_token", "code",
}

// Credential is where the upstream's credential comes from, the defaults written out; nil where nothing
// is declared. It must not be changed.
func (u *Upstream) Credential() *retryv1.CredentialSource { return u.credential }

// FirstAttempts reports whether first attempts get the credential too.
func (u *Upstream) FirstAttempts() bool { return u.credential.GetFirstAttempts() }

// resolveCredential writes out the defaults of one upstream's source, and checks what only the whole can
// show.
func (d *document) resolveCredential(upstream int, c *retryv1.CredentialSource, policy *retryv1.UpstreamPolicy) *retryv1.CredentialSource {
	if c == nil {
		return nil
	}
	at := func(field ...any) []any { return append([]any{"upstreams", upstream, "credential"}, field...) }
	if c.Scheme == nil {
		c.Scheme = proto.String("Bearer")
	}
	if policy.GetMaxAttempts() == 1 && !c.FirstAttempts {
		d.warnAt(at(), "is never used: max_attempts is 1, and first_attempts is off")
	}
	o := c.GetOauth2()
	if o == nil {
		return c
	}
	if o.AuthStyle == nil {
		o.AuthStyle = proto.String("header")
	}
	if o.Timeout == nil {
		o.Timeout = durationpb.New(defaultTokenTimeout)
	}
	d.checkTokenURL(o, func(field ...any) []any { return at(slices.Concat([]any{"oauth2"}, field)...) })
	for i, param := range o.GetEndpointParams() {
		if slices.Contains(reservedParams, strings.ToLower(param.GetName())) {
			d.addAt(at("oauth2", "endpoint_params", i, "name"), "%q is not for this file: the grant sets it, or its value is a secret", param.GetName())
		}
	}
	if t := o.Tls; t != nil && (t.GetCertFile() == "") != (t.GetKeyFile() == "") {
		d.addAt(at("oauth2", "tls"), "cert_file and key_file belong together")
	}
	return c
}

func (d *document) checkTokenURL(o *retryv1.OAuth2, at func(field ...any) []any) {
	if o.GetTokenUrl() == "" {
		return // the schema's own problem
	}
	// No message quotes the URL: a password in it would be printed.
	u, err := url.Parse(o.GetTokenUrl())
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		d.addAt(at("token_url"), "is not a URL with a host")
	case u.User != nil:
		d.addAt(at("token_url"), "has a user or a password in it: they belong in client_id and client_secret_file")
	case u.Fragment != "":
		d.addAt(at("token_url"), "has a fragment, which RFC 6749 section 3.2 forbids")
	case u.Scheme == "https":
		if o.GetAllowHttp() {
			d.addAt(at("allow_http"), "is of no use: the token_url is https")
		}
	case u.Scheme != "http":
		d.addAt(at("token_url"), "is neither https nor http")
	case !o.GetAllowHttp():
		d.addAt(at("token_url"), "is http: everybody on the way would read the secret and the tokens; allow_http permits it")
	case o.GetTls() != nil:
		d.addAt(at("tls"), "is of no use: the token_url is http")
	case !isLoopback(u.Hostname()):
		d.warnAt(at("allow_http"), "the secret and the tokens travel in plain text to another machine")
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
