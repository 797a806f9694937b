package console

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets the page run what came with it and talk to where it came from, nothing else: no inline
// script or style, no frame around it, no markup made of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard refuses what another site's page makes a browser send, and says what a browser may do with the
// answers.
func guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !hostOK(r):
			refuse(w, http.StatusMisdirectedRequest, "open the console by an IP address or as localhost: over plain HTTP another name may be anybody's")
		case crossOrigin.Check(r) != nil, r.URL.Path != Path && foreign(r):
			refuse(w, http.StatusForbidden, "another site's page has asked for this")
		case r.Method == http.MethodPost && !isJSON(r):
			refuse(w, http.StatusUnsupportedMediaType, "want Content-Type: application/json")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// hostOK is against DNS rebinding: a name that somebody else controls can be made to lead here, and his
// page would then be of the same origin. With TLS the browser has compared the name with the certificate.
func hostOK(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// foreign reports what a browser says of a request that another site's page makes. A link to the page
// itself is none.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return true
}

// isJSON holds for what a browser sends across origins only after it has asked, and is refused.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
