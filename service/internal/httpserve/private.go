package httpserve

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Private returns next, for operators, without use by web sites through an operator's
// browser. It refuses cross-origin requests that may change something, and requests with a
// Host that a web site can own (DNS rebinding). Allowed are hosts, addresses, names
// without a dot, and names of private domains; with local, for a listener on loopback, hosts
// and the names and addresses of loopback.
func Private(next http.Handler, local bool, hosts []string) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	allowed, want := private, "the Host must be an address, a name without a dot, or one of --admin-host"
	if local {
		allowed, want = loopback, "the Host must name this machine, such as localhost, or be one of --admin-host"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		name := hostname(r.Host)
		if !allowed(name) && !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
			h.Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": want})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostname returns the name or the address in a Host header.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(strings.TrimSuffix(host, "."), "[]"))
}

// within reports whether a name is a domain, or in it.
func within(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }

// Loopback reports whether only this machine reaches an address.
func Loopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// URL returns the URL of a listener, for people: that of a Unix socket is unix: and its path.
func URL(scheme string, addr net.Addr) string {
	if unix, ok := addr.(*net.UnixAddr); ok {
		return "unix:" + unix.Name
	}
	return scheme + "://" + addr.String()
}

func loopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return within(name, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// private reports whether no web site can own a name: the domains are reserved (RFC 6761, 6762
// and 8375), but for svc, which Kubernetes uses and no registry has.
func private(name string) bool {
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name != "" && !strings.Contains(name, ".") ||
		slices.ContainsFunc([]string{"localhost", "local", "internal", "home.arpa", "svc"}, func(d string) bool { return within(name, d) })
}
