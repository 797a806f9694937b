package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
	"github.com/verdictproxy/verdict/internal/config"
)

const (
	// maxAnswer bounds an endpoint's header and, apart from it, its body, in bytes.
	maxAnswer = 64 << 10
	// maxSecret bounds a client secret, in bytes.
	maxSecret = 4096
	// maxRedirects bounds those that are followed at all.
	maxRedirects = 3
	// assumedLifetime is that of a token that comes without one.
	assumedLifetime = 5 * time.Minute
	// longestLifetime is how long a token is used whatever its endpoint says.
	longestLifetime = 24 * time.Hour
	// longestMargin is how long before its expiry a token is not handed out any more, or a tenth of its life.
	longestMargin = 5 * time.Second
)

// oauth2Grants is the client credentials grant of RFC 6749 section 4.4.
type oauth2Grants struct {
	settings *retryv1.OAuth2
	scheme   string
	marks    *marks
}

func (o *oauth2Grants) fetch(ctx context.Context) (grant, error) {
	secret, err := o.marks.readSecret()
	if err != nil {
		return grant{}, err
	}
	tlsConfig, err := config.ClientTLS(o.settings.GetTls())
	if err != nil {
		return grant{}, failed(resultFile, "tls: %v", err)
	}
	timeout := o.settings.GetTimeout().AsDuration()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	x := newExchange(o.settings, tlsConfig, timeout)
	defer x.transport.CloseIdleConnections()
	client := &http.Client{Transport: x, CheckRedirect: x.checkRedirect}
	request := clientcredentials.Config{
		ClientID:       o.settings.GetClientId(),
		ClientSecret:   secret,
		TokenURL:       o.settings.GetTokenUrl(),
		Scopes:         o.settings.GetScopes(),
		EndpointParams: url.Values{},
		AuthStyle:      oauth2.AuthStyleInHeader,
	}
	if o.settings.GetAuthStyle() == "body" {
		request.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, p := range o.settings.GetEndpointParams() {
		request.EndpointParams.Add(p.GetName(), p.GetValue())
	}
	answer, err := request.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return grant{}, x.explain(ctx, err)
	}
	return o.read(answer)
}

// read turns an endpoint's answer into a grant.
func (o *oauth2Grants) read(answer *oauth2.Token) (grant, error) {
	if kind := answer.TokenType; kind != "" && !strings.EqualFold(kind, "bearer") && !strings.EqualFold(kind, o.scheme) {
		return grant{}, failed(resultInvalid, "the token's type is not bearer")
	}
	if err := checkToken(answer.AccessToken); err != nil {
		return grant{}, err
	}
	lifetime := assumedLifetime
	if !answer.Expiry.IsZero() {
		lifetime = min(time.Until(answer.Expiry), longestLifetime)
	}
	if lifetime <= 0 {
		return grant{}, failed(resultInvalid, "the token has expired already")
	}
	return grant{
		token:     answer.AccessToken,
		renew:     renewalAge(lifetime),
		lifetime:  lifetime - min(lifetime/10, longestMargin),
		published: true,
	}, nil
}

// exchange is one request to a token endpoint, its redirects included. It keeps why it failed, for the
// errors of the libraries around it may quote what the endpoint sent.
type exchange struct {
	transport *http.Transport
	follow    bool
	cause     error
}

func newExchange(o *retryv1.OAuth2, tlsConfig *tls.Config, timeout time.Duration) *exchange {
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &exchange{
		follow: o.GetFollowRedirects(),
		transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        tlsConfig,
			TLSHandshakeTimeout:    timeout,
			Protocols:              http1,
			DisableKeepAlives:      true, // the next request is minutes away
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxAnswer,
		},
	}
}

func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := x.transport.RoundTrip(r)
	if err != nil {
		x.cause = connectionFailure(err)
		return nil, err
	}
	answer.Body = &boundedBody{http.MaxBytesReader(nil, answer.Body, maxAnswer), x}
	if answer.StatusCode < 300 {
		if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind != "application/json" {
			answer.Body.Close()
			x.cause = failed(resultInvalid, "the endpoint's answer is not application/json")
			return nil, x.cause
		}
	}
	return answer, nil
}

func (x *exchange) checkRedirect(next *http.Request, before []*http.Request) error {
	first := before[0].URL
	switch {
	case !x.follow:
		x.cause = failed(resultRedirect, "the endpoint redirects, and follow_redirects is off")
	case len(before) > maxRedirects:
		x.cause = failed(resultRedirect, "the endpoint redirects more than %d times", maxRedirects)
	case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
		x.cause = failed(resultRedirect, "the endpoint redirects to another scheme, host or port")
	case next.Method != http.MethodPost:
		x.cause = failed(resultRedirect, "the endpoint redirects with a status that makes the request a GET")
	default:
		return nil
	}
	return x.cause
}

// boundedBody remembers why an answer could not be read to its end.
type boundedBody struct {
	io.ReadCloser
	x *exchange
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		b.x.cause = failed(resultTooLarge, "the endpoint's answer has more than %d bytes", maxAnswer)
	} else if err != nil && err != io.EOF {
		b.x.cause = failed(resultUnreachable, "the endpoint's answer broke off")
	}
	return n, err
}

// oauthErrors are those of RFC 6749 section 5.2: the only words of an endpoint's that are repeated.
var oauthErrors = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
}

// explain says in this package's words why the token was not had.
func (x *exchange) explain(ctx context.Context, err error) error {
	var refused *oauth2.RetrieveError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed(resultTimeout, "the endpoint did not answer in time")
	case x.cause != nil:
		return x.cause
	case errors.As(err, &refused) && slices.Contains(oauthErrors, refused.ErrorCode):
		return failed(resultRefused, "the endpoint answered %d, %s", refused.Response.StatusCode, refused.ErrorCode)
	case errors.As(err, &refused):
		return failed(resultRefused, "the endpoint answered %d", refused.Response.StatusCode)
	}
	return failed(resultInvalid, "the endpoint's answer is not what RFC 6749 section 5.1 asks for")
}

// connectionFailure repeats nothing that a peer sent.
func connectionFailure(err error) error {
	var (
		dial      *net.OpError
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority):
		return failed(resultCertificate, "the endpoint's certificate is signed by an unknown authority")
	case errors.As(err, &hostname):
		return failed(resultCertificate, "the endpoint's certificate is for another name")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return failed(resultCertificate, "the endpoint's certificate has expired or is not yet valid")
	case errors.As(err, &verify):
		return failed(resultCertificate, "the endpoint's certificate is not valid")
	case errors.As(err, &dns):
		return failed(resultUnreachable, "the endpoint's name cannot be resolved")
	case errors.As(err, &dial) && dial.Op == "dial":
		return failed(resultUnreachable, "the endpoint cannot be reached: %v", dial)
	}
	return failed(resultUnreachable, "the connection to the endpoint broke, or what it sent is not HTTP")
}
