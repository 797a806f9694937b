package config

import (
	"net/url"
	"regexp"
	"strings"

	retryv1 "github.com/verdictproxy/verdict/api/proto/retry/v1"
)

// Listeners says who may call, and how connections are encrypted. It may be nil, and must not be changed.
func (c *Config) Listeners() *retryv1.Listeners { return c.resolved.GetListeners() }

// resolveListeners checks what only the whole can show.
func (d *document) resolveListeners() {
	l := d.config.GetListeners()
	d.listener(l.GetDataPlane(), "data_plane")
	d.listener(l.GetApi(), "api")
	d.listener(l.GetAdmin(), "admin")
}

func (d *document) listener(l *retryv1.Listener, name string) {
	at := func(field ...any) []any { return append([]any{"listeners", name, "allowed_clients"}, field...) }
	tls := []any{"listeners", name, "tls"}
	if _, there := d.find(tls); there && l.GetTls() == nil {
		d.addAt(tls, "is empty: leave it out for plaintext")
	}
	_, there := d.find(at())
	switch {
	case !there || l == nil:
		return
	case len(l.GetAllowedClients()) == 0:
		d.addAt(at(), "names nobody: leave it out to admit every client whose certificate is accepted")
	case l.GetTls().GetClientCaFile() == "":
		d.addAt(at(), "nobody can be told from another without tls.client_ca_file, which asks for their certificates")
	}
	for i, client := range l.GetAllowedClients() {
		if why := unusableName(client); why != "" {
			d.addAt(at(i), "%q %s", client, why)
		}
	}
}

var dnsName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// unusableName says why a name can be in no certificate, or not be meant so.
func unusableName(name string) string {
	if strings.Contains(name, ":") {
		if u, err := url.Parse(name); err != nil || u.Scheme == "" || u.String() != name {
			return "is no URI as certificates have it, such as spiffe://example.org/envoy"
		}
		return ""
	}
	if strings.Contains(name, "*") {
		return "is a pattern: names must be equal"
	}
	if !dnsName.MatchString(name) {
		return "is neither a DNS name nor a URI"
	}
	return ""
}
