// Package upstream is the client of an instance of weir serve that is a leaf: it sends the
// exchanges of the leaf to POST /assign of another instance, its upstream.
package upstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/mismatch"
)

// DefaultTimeout is Config.Timeout if that is zero.
const DefaultTimeout = time.Second

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 32 << 20

// Config configures a Client. URL is required.
type Config struct {
	// URL is the address of the upstream: http://host:port or https://host:port. A path is
	// prepended to the path of each request.
	URL string
	// Token, if not empty, is sent as a bearer token.
	Token string
	// TLS is for https. If nil, the zero tls.Config.
	TLS *tls.Config
	// Timeout bounds an exchange. If zero, DefaultTimeout.
	Timeout time.Duration
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return errors.New("upstream: URL: not a URL: must be http://host:port or https://host:port") // the error has the URL, which may have a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("upstream: URL = %q: must be http://host:port or https://host:port", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("upstream: URL = %q: must have no user, no query and no fragment", u.Redacted())
	case c.Timeout < 0:
		return fmt.Errorf("upstream: Timeout = %v: must be >= 0", c.Timeout)
	}
	return nil
}

// A Client sends exchanges to an upstream. It is safe for concurrent use.
type Client struct {
	cfg    Config
	assign string
	http   *http.Client
}

// New returns a Client, or an error about the Config. It does not connect.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	t := &http.Transport{
		TLSClientConfig: cfg.TLS, Protocols: new(http.Protocols), IdleConnTimeout: 2 * time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 2 * time.Second},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	t.Protocols.SetHTTP2(true)
	return &Client{cfg: cfg, assign: strings.TrimSuffix(cfg.URL, "/") + "/assign", http: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Exchange sends an exchange, and returns the answer to it.
func (c *Client) Exchange(ctx context.Context, x *leaf.Exchange) (got leaf.Answer, err error) {
	body, err := json.Marshal(x)
	if err != nil {
		return got, fmt.Errorf("upstream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.assign, bytes.NewReader(body))
	if err != nil {
		return got, fmt.Errorf("upstream: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.http.CloseIdleConnections()                                   // the next exchange opens a new connection
		if reason, wrapped := errors.AsType[*url.Error](err); wrapped { // it repeats the method and the URL
			err = reason.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v: %w", c.cfg.Timeout, err)
		}
		return got, fmt.Errorf("upstream: %w", mismatch.Explain(req.URL, err))
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil { // a longer answer is cut, and then malformed
		return got, fmt.Errorf("upstream: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return got, fmt.Errorf("upstream: %s: %s%s", resp.Status, mismatch.Text(string(body)), foreign(resp.StatusCode))
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return leaf.Answer{}, fmt.Errorf("upstream: not an answer of weir serve: %w", err)
	}
	return got, nil
}

// foreign says that a server with an answer of this status has no endpoint for exchanges.
func foreign(status int) string {
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return ": it is no weir serve that can be an upstream"
	}
	return ""
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
