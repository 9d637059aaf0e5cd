package proxy

import "net/http"

// ClientOf returns the address by which the proxy knows the client of a request.
func (p *Proxy) ClientOf(r *http.Request) string {
	r, _ = p.trust.Identify(r)
	return r.RemoteAddr
}
