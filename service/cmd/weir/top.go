package main

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
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/weir-go/weir/service/internal/server/adminapi"
)

type topCmd struct {
	Admin    string        `default:"http://127.0.0.1:8081" placeholder:"URL" help:"Where weir serve has its --admin listener (${default})."`
	Interval time.Duration `default:"1s" placeholder:"TIME" help:"How often to look (${default})."`
	By       string        `default:"denied" enum:"denied,requests" help:"Which keys: those denied most, or asked for most (${default})."`
	Once     bool          `help:"Print the state once, as text, and end; so it is without a terminal, too."`
}

// Run shows the state of a server until somebody quits, or once.
func (c *topCmd) Run(ctx context.Context, std streams) error {
	to, err := adminURL(c.Admin)
	if err != nil {
		return err
	}
	if err := atLeast(100*time.Millisecond, "--interval", c.Interval); err != nil {
		return err
	}
	from := operator{to, &http.Client{Timeout: 5 * time.Second}}
	if c.Once || !isTerminal(std.Out) {
		return c.once(ctx, std, from)
	}
	m := newTop(ctx, from, c.Interval, c.By)
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(std.Out), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// adminURL reads --admin. Where weir serve runs, the environment can have its
// address in the variable that is meant: that will do.
func adminURL(text string) (string, error) {
	whole := text
	if !strings.Contains(text, "://") {
		if strings.HasPrefix(text, ":") {
			whole = "127.0.0.1" + text
		}
		whole = "http://" + whole
	}
	u, err := url.Parse(whole)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--admin=%s: must be an http or https URL, such as http://127.0.0.1:8081", text)
	}
	return strings.TrimSuffix(whole, "/"), nil
}

func (c *topCmd) once(ctx context.Context, std streams, from operator) error {
	r, err := from.read(ctx, c.By)
	if err == nil && (r.status.WindowMS == 0 || r.top.WindowMS == 0) {
		select { // there are rates only from the second look on
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		r, err = from.read(ctx, c.By)
	}
	if err != nil {
		return fmt.Errorf("no answer from %s: %w", from.url, err)
	}
	_, err = fmt.Fprintln(std.Out, strings.Join(frame(&view{reading: r, url: from.url}), "\n"))
	return err
}

// A reading is what there is to show.
type reading struct {
	status adminapi.Status
	top    adminapi.Top
}

// An operator asks a server's admin API.
type operator struct {
	url    string
	client *http.Client
}

const (
	maxTopRules = 100
	maxTopKeys  = 100
	maxAnswer   = 16 << 20 // bytes
)

func (o operator) read(ctx context.Context, by string) (r reading, err error) {
	if err = o.get(ctx, "/-/status?rules="+strconv.Itoa(maxTopRules), &r.status); err != nil {
		return r, err
	}
	err = o.get(ctx, fmt.Sprintf("/-/top?n=%d&by=%s", maxTopKeys, by), &r.top)
	return r, err
}

func (o operator) explain(ctx context.Context, key string) (x adminapi.Explanation, err error) {
	err = o.get(ctx, "/-/explain?"+url.Values{"key": {key}}.Encode(), &x)
	return x, err
}

func (o operator) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := o.client.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err // without the URL, which the reader knows
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		var e adminapi.Error
		_ = body.Decode(&e) // what is no JSON has no reason
		return fmt.Errorf("it answers %s %s", resp.Status, e.Error)
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("its answer is not that of weir serve: %w", err)
	}
	return nil
}
