package proxypage

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/operator"
)

// Bounds of a request to explain.
const (
	maxURL     = 8 << 10
	maxHeaders = 50
)

func (p *Page) serveExplain(w http.ResponseWriter, r *http.Request) {
	asked, err := requestOf(r.URL.Query())
	if err != nil {
		operator.Fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var local net.Addr // the operator may be at a Unix socket
	if asked.RemoteAddr == caller.UnixPeer {
		local = &net.UnixAddr{Net: "unix"}
	}
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, local)
	operator.Answer(w, http.StatusOK, p.source.Explain(asked.WithContext(ctx)))
}

// requestOf makes the request that parameters describe.
func requestOf(q url.Values) (*http.Request, error) {
	method := cmp.Or(strings.ToUpper(q.Get("method")), http.MethodGet)
	target := strings.TrimSpace(q.Get("url"))
	switch {
	case len(method) > 32 || !httpguts.ValidHeaderFieldName(method):
		return nil, fmt.Errorf("method = %.40q: must be a method such as GET", method)
	case target == "":
		return nil, fmt.Errorf("url: is missing: want a path such as /reports?year=2026, or a URL")
	case len(target) > maxURL:
		return nil, fmt.Errorf("url: has %d bytes: must be <= %d", len(target), maxURL)
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("url = %.200q: cannot be read: %s", target, err.(*url.Error).Err)
	}
	if u.Host == "" && !strings.HasPrefix(u.Path, "/") {
		return nil, fmt.Errorf("url = %.200q: must begin with / or with http://", target)
	}
	remote := cmp.Or(strings.TrimSpace(q.Get("address")), "192.0.2.1")
	if remote != caller.UnixPeer {
		address, err := netip.ParseAddr(remote)
		if err != nil {
			return nil, fmt.Errorf("address = %.60q: must be unix: or an IP address", remote)
		}
		remote = net.JoinHostPort(address.String(), "0")
	}
	r := &http.Request{
		Method: method, Host: cmp.Or(u.Host, "localhost"), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Path: cmp.Or(u.Path, "/"), RawPath: u.RawPath, RawQuery: u.RawQuery}, Body: http.NoBody,
		RequestURI: u.RequestURI(), RemoteAddr: remote,
	}
	if r.Header, err = headerOf(q["header"]); err != nil {
		return nil, err
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	if length := r.Header.Get("Content-Length"); length != "" {
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("header = %.100q: must be a whole number >= 0", "Content-Length: "+length)
		}
		r.ContentLength = int64(n)
	}
	return r, nil
}

// headerOf reads lines such as "X-Api-Key: 42".
func headerOf(lines []string) (http.Header, error) {
	h := http.Header{}
	if len(lines) > maxHeaders {
		return h, fmt.Errorf("header: there are %d: must be <= %d", len(lines), maxHeaders)
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || len(line) > maxURL {
			return h, fmt.Errorf("header = %.100q: must be a line such as X-Api-Key: 42", line)
		}
		h.Add(name, value)
	}
	return h, nil
}
