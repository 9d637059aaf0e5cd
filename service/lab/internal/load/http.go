package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// A Target is an HTTP request. {n} in its URL and Body is replaced by the number of the
// request.
type Target struct {
	Method string // if empty, that of Config
	URL    string // absolute, or relative to Config.Target
	Header http.Header
	Body   string
}

// An httpClient sends HTTP requests.
type httpClient struct {
	client  *http.Client
	targets []httpTarget
}

// An httpTarget is a Target, completed from Config.
type httpTarget struct {
	method    string
	header    http.Header
	host      string // if empty, that of the URL
	chunked   bool   // the body is sent in chunks, and its length is not
	url, body template
}

func newHTTPClient(_ context.Context, cfg Config, base *url.URL) (client, error) {
	c := &httpClient{}
	all := cfg.Targets
	if len(all) == 0 {
		all = []Target{{URL: cfg.Target}}
	}
	for i, t := range all {
		target, err := t.complete(cfg, base)
		if err != nil && len(cfg.Targets) > 0 {
			return nil, fmt.Errorf("load: targets[%d]: %w", i, err)
		}
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		c.targets = append(c.targets, target)
	}
	transport := cfg.Transport
	if transport == nil {
		transport = newTransport(cfg)
	}
	c.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

func newTransport(cfg Config) *http.Transport {
	t := &http.Transport{
		DialContext:         cfg.Dial,
		TLSClientConfig:     cfg.TLS,
		TLSHandshakeTimeout: cfg.Timeout,
		MaxIdleConnsPerHost: max(cfg.Workers, cfg.MaxInflight),
		DisableCompression:  true,
		DisableKeepAlives:   cfg.NoKeepAlive,
		Protocols:           new(http.Protocols),
	}
	t.Protocols.SetHTTP1(!cfg.HTTP2)
	t.Protocols.SetHTTP2(cfg.HTTP2)
	t.Protocols.SetUnencryptedHTTP2(cfg.HTTP2)
	return t
}

// complete takes what the target does not have from the configuration.
func (t Target) complete(cfg Config, base *url.URL) (c httpTarget, err error) {
	u, err := absolute(t.URL, base)
	if err != nil {
		return c, err
	}
	body := cmp.Or(t.Body, cfg.Body)
	c = httpTarget{method: cmp.Or(t.Method, cfg.Method), header: http.Header{}, url: newTemplate(u), body: newTemplate(body)}
	if c.method == "" && body != "" {
		c.method = http.MethodPost
	}
	maps.Copy(c.header, cfg.Header)
	maps.Copy(c.header, t.Header)
	if err := c.frame(cfg.HTTP2, body); err != nil {
		return c, err
	}
	req, err := http.NewRequest(c.method, c.url.expand(1), nil)
	switch {
	case err != nil:
		return c, err
	case req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Hostname() == "":
		return c, fmt.Errorf("url = %q: must be an http or https URL with a host", u)
	}
	return c, nil
}

// frame takes the fields of the header that net/http takes from elsewhere, and leaves the others.
// It returns an error about the first field that would not be sent as it is.
func (c *httpTarget) frame(http2 bool, body string) error {
	for name, values := range c.header {
		wrong := func(must string) error { return fmt.Errorf("header: %s = %q: must %s", name, values, must) }
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("header: %q: must be a name of a header field", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return wrong("have no control characters")
			}
		}
		switch name {
		case "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade":
			if http2 {
				return wrong("be left out: HTTP/2 has no such field")
			}
		}
		switch name {
		case "Host":
			if len(values) != 1 || values[0] == "" || !httpguts.ValidHostHeader(values[0]) {
				return wrong("be one host, with or without a port")
			}
			c.host = values[0]
		case "Transfer-Encoding":
			if len(values) != 1 || !strings.EqualFold(values[0], "chunked") {
				return wrong("be chunked")
			}
			if c.header["Content-Length"] != nil {
				return wrong("be left out beside Content-Length")
			}
			c.chunked = true
		case "Content-Length":
			if length := strconv.Itoa(len(body)); len(c.body) > 1 || len(values) != 1 || values[0] != length {
				return wrong("be left out: it is the length of the body, " + length)
			}
		case "Trailer":
			return wrong("be left out: requests of weirlab load have no trailers")
		}
	}
	delete(c.header, "Host")
	delete(c.header, "Transfer-Encoding")
	delete(c.header, "Content-Length")
	return nil
}

// absolute resolves the URL of a target. Without a base, it returns the URL.
func absolute(text string, base *url.URL) (string, error) {
	ref, err := url.Parse(text)
	if err != nil || base == nil || ref.IsAbs() {
		return text, err
	}
	// url.URL escapes the mark.
	return strings.ReplaceAll(base.ResolveReference(ref).String(), "%7Bn%7D", numberMark), nil
}

// reasonHeader is the field with which a weir proxy explains its own answers.
const reasonHeader = "Weir-Reason"

func (c *httpClient) exchange(ctx context.Context, n int) (status int, reason string, err error) {
	t := &c.targets[(n-1)%len(c.targets)]
	req, err := http.NewRequestWithContext(ctx, t.method, t.url.expand(n), strings.NewReader(t.body.expand(n)))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(req.Header, t.header)
	req.Host = cmp.Or(t.host, req.Host)
	if t.chunked {
		req.TransferEncoding = []string{"chunked"}
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, "", err
	}
	return resp.StatusCode, resp.Header.Get(reasonHeader), nil
}

func (c *httpClient) close() { c.client.CloseIdleConnections() }

// checkHTTP returns an error about the first field that only HTTP requests have.
func (c Config) checkHTTP(scheme string) error {
	switch {
	case len(c.Targets) > 0:
		return fmt.Errorf("load: targets: must be empty: they are HTTP requests, and the target is %s", scheme)
	case c.HTTP2:
		return errors.New("load: http2 = true: must be false: " + scheme + " requests are not HTTP")
	case c.NoKeepAlive:
		return errors.New("load: no_keep_alive = true: must be false: " + scheme + " requests share connections")
	}
	return nil
}
