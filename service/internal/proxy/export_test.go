package proxy

import (
	"net/http"

	"github.com/weir-go/weir/service/internal/proxy/clients"
)

// ClientOf returns the address by which the proxy knows the client of a request.
func (p *Proxy) ClientOf(r *http.Request) string {
	return p.trust.Identify(r, new(clients.Client)).RemoteAddr
}
