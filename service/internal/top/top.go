// Package top shows the state of weir serve or weir proxy in a terminal: the requests that are refused, by which limit and,
// at weir serve, for which keys, and why.
package top

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/proxy/proxypage"
	"github.com/weir-go/weir/service/internal/server/adminapi"
)

// Config configures Run and Once.
type Config struct {
	URLs     []string      // of listeners of operators, without a slash at the end: the first one that answers counts
	Token    string        // sent as a bearer token; "" for none
	Interval time.Duration // between requests
	By       string        // the order of keys of weir serve: denied or requests
	JSON     bool          // Once prints JSON
}

func (c Config) client() client {
	return client{c.URLs, &http.Client{Timeout: 5 * time.Second, Transport: bearer(c.Token)}}
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

// Once prints the state as plain text or as JSON.
func Once(ctx context.Context, cfg Config, out io.Writer) error {
	from := cfg.client()
	r, err := from.read(ctx, cfg.By)
	for tries := 0; err == nil && !r.rated() && tries < 3; tries++ {
		select { // rates need two observations, and a busy process is late
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		r, err = from.read(ctx, cfg.By)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no answer from %s: nothing listens there: start weir serve or weir proxy, or give the address of its --admin", strings.Join(from.urls, " or "))
	case err != nil:
		return fmt.Errorf("no answer from %s: %w", r.url, err)
	case cfg.JSON:
		return json.NewEncoder(out).Encode(r.json())
	}
	lines := frame(&view{reading: r})
	_, err = fmt.Fprintln(out, ansi.Strip(strings.Join(lines, "\n")))
	return err
}

// A reading is the state of a process at one time.
type reading struct {
	url    string
	proxy  *proxypage.State // of weir proxy; nil at weir serve, which the other fields are about
	status adminapi.Status
	top    adminapi.Top
}

// known reports whether there is a state.
func (r *reading) known() bool { return r.proxy != nil || r.status.NowMS > 0 }

// rated reports whether the state has rates.
func (r *reading) rated() bool {
	if r.proxy != nil {
		return r.proxy.WindowMS > 0
	}
	return r.status.WindowMS > 0 && r.top.WindowMS > 0
}

// json returns what is printed as JSON: the answers of the process, by the last part of their paths.
func (r *reading) json() map[string]any {
	if r.proxy != nil {
		return map[string]any{"url": r.url, "live": r.proxy}
	}
	return map[string]any{"url": r.url, "status": r.status, "top": r.top}
}

// A client asks listeners of operators.
type client struct {
	urls []string
	http *http.Client
}

const (
	maxTopRules = 100
	maxTopKeys  = 100
	maxAnswer   = 16 << 20 // bytes
)

// read asks the first URL at which something listens.
func (c client) read(ctx context.Context, by string) (r reading, err error) {
	for _, url := range c.urls {
		if r, err = c.readFrom(ctx, url, by); !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return r, err
}

// readFrom asks for what weir proxy alone has, and then for what weir serve has.
func (c client) readFrom(ctx context.Context, url, by string) (r reading, err error) {
	r.url = url
	var live proxypage.State
	if err = c.get(ctx, fmt.Sprintf("%s/-/live?since=%d", url, math.MaxInt64), &live); err == nil {
		if r.proxy = &live; live.NowMS == 0 {
			err = errOther
		}
		return r, err
	}
	if answer := (*answerError)(nil); !errors.As(err, &answer) || answer.status != http.StatusNotFound {
		return r, err
	}
	if err = c.get(ctx, fmt.Sprintf("%s/-/status?rules=%d", url, maxTopRules), &r.status); err == nil && r.status.NowMS == 0 {
		err = errOther
	}
	if err != nil {
		return r, err
	}
	err = c.get(ctx, fmt.Sprintf("%s/-/top?n=%d&by=%s", url, maxTopKeys, by), &r.top)
	return r, err
}

func (c client) explain(ctx context.Context, from, key string) (x adminapi.Explanation, err error) {
	err = c.get(ctx, from+"/-/explain?"+url.Values{"key": {key}}.Encode(), &x)
	return x, err
}

// errOther is the error of an answer that operators do not get.
var errOther = errors.New("not an answer of weir: " + which)

const which = "is it the address of --admin? By default, that is " + ServeURL + " of weir serve, and " + ProxyURL + " of weir proxy"

// The addresses of operators by default.
const (
	ServeURL = "http://127.0.0.1:8081"
	ProxyURL = "http://127.0.0.1:7001"
)

// An answerError is an answer other than 200.
type answerError struct {
	status int
	text   string
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("it answers %d %s", e.status, http.StatusText(e.status))
	if e.text != "" {
		text += ": " + e.text
	}
	switch {
	case e.status == http.StatusUnauthorized:
		text += "; give a token that allows admin, as --token or $WEIR_TOKEN"
	case e.text == "" || e.status == http.StatusNotFound:
		text += ": " + which
	}
	return text
}

func (c client) get(ctx context.Context, from string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // without the URL, which is on the screen
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return fmt.Errorf("%w: SSL_CERT_FILE can name the file of the authority", err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		e := operator.Error{}
		if json.Unmarshal(text, &e) != nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			e.Error, _, _ = strings.Cut(string(text), "\n")
		}
		return &answerError{resp.StatusCode, e.Error}
	}
	if json.Unmarshal(text, into) != nil {
		return errOther
	}
	return nil
}
