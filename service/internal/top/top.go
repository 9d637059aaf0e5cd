// Package top shows the state of weir serve in a terminal: the requests that are
// refused, by which rule and for which keys, and why.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server/adminapi"
)

// Config configures Run and Once.
type Config struct {
	URL      string        // of the admin listener, without a slash at the end
	Token    string        // sent as a bearer token; "" for none
	Interval time.Duration // between requests
	By       string        // the order of keys: denied or requests
}

func (c Config) client() client {
	return client{c.URL, &http.Client{Timeout: 5 * time.Second, Transport: bearer(c.Token)}}
}

// A bearer sends requests with itself as their token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Run shows the state until the user quits or ctx ends.
func Run(ctx context.Context, cfg Config, out io.Writer) error {
	m := newModel(ctx, cfg.client(), cfg.Interval, cfg.By)
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Once prints the state as plain text.
func Once(ctx context.Context, cfg Config, out io.Writer) error {
	from := cfg.client()
	r, err := from.read(ctx, cfg.By)
	if err == nil && (r.status.WindowMS == 0 || r.top.WindowMS == 0) {
		select { // rates need two observations
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		r, err = from.read(ctx, cfg.By)
	}
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("no answer from %s: nothing listens there: start weir serve, or give its address with --admin", from.url)
		}
		return fmt.Errorf("no answer from %s: %w", from.url, err)
	}
	lines := frame(&view{reading: r, url: from.url})
	_, err = fmt.Fprintln(out, ansi.Strip(strings.Join(lines, "\n")))
	return err
}

// A reading is the state of a server at one time.
type reading struct {
	status adminapi.Status
	top    adminapi.Top
}

// A client calls the admin API of a server.
type client struct {
	url  string
	http *http.Client
}

const (
	maxTopRules = 100
	maxTopKeys  = 100
	maxAnswer   = 16 << 20 // bytes
)

func (c client) read(ctx context.Context, by string) (r reading, err error) {
	if err = c.get(ctx, "/-/status?rules="+strconv.Itoa(maxTopRules), &r.status); err != nil {
		return r, err
	}
	err = c.get(ctx, fmt.Sprintf("/-/top?n=%d&by=%s", maxTopKeys, by), &r.top)
	return r, err
}

func (c client) explain(ctx context.Context, key string) (x adminapi.Explanation, err error) {
	err = c.get(ctx, "/-/explain?"+url.Values{"key": {key}}.Encode(), &x)
	return x, err
}

func (c client) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err // without the URL, which is on the screen
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		var e operator.Error
		_ = body.Decode(&e) // without a reason, if it is not JSON
		return fmt.Errorf("it answers %s %s", resp.Status, e.Error)
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("not an answer of weir serve: %w", err)
	}
	return nil
}
