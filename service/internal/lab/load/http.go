package load

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
)

// An httpClient sends HTTP requests.
type httpClient struct {
	client       *http.Client
	method       string
	header       http.Header
	target, body template
}

func newHTTPClient(_ context.Context, cfg Config, _ *url.URL) (client, error) {
	c := &httpClient{method: cfg.Method, header: cfg.Header, target: newTemplate(cfg.Target), body: newTemplate(cfg.Body)}
	if _, err := http.NewRequest(c.method, c.target.expand(1), nil); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{
			DialContext:         cfg.Dial,
			TLSClientConfig:     cfg.TLS,
			MaxIdleConnsPerHost: max(cfg.Workers, cfg.MaxInflight),
			DisableCompression:  true,
		}
	}
	c.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// reasonHeader is the field with which a weir proxy explains its own answers.
const reasonHeader = "Weir-Reason"

func (c *httpClient) exchange(ctx context.Context, n int) (status int, reason string, err error) {
	req, err := http.NewRequestWithContext(ctx, c.method, c.target.expand(n), strings.NewReader(c.body.expand(n)))
	if err != nil {
		return 0, "", err
	}
	maps.Copy(req.Header, c.header)
	if host := c.header.Get("Host"); host != "" {
		req.Host = host
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
