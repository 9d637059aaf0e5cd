package client

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/rendezvous"
	"github.com/weir-go/weir/internal/slot"
)

// urls returns the URLs of all instances.
func (c Config) urls() []string {
	if len(c.URLs) > 0 {
		return c.URLs
	}
	return []string{c.URL}
}

// validateURLs returns an error that names the first URL that makes no sense.
func (c Config) validateURLs() error {
	if c.URL != "" && len(c.URLs) > 0 {
		return fmt.Errorf("client: URL and URLs exclude each other")
	}
	for i, text := range c.urls() {
		field := "URL"
		if len(c.URLs) > 0 {
			field = fmt.Sprintf("URLs[%d]", i)
		}
		u, err := url.Parse(text)
		switch {
		case text != "" && !strings.Contains(text, "://"):
			return fmt.Errorf("client: %s = %q: has no scheme, such as %q", field, text, "http://"+strings.TrimLeft(text, "/"))
		case err != nil:
			return fmt.Errorf("client: %s: %w", field, err)
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
			return fmt.Errorf("client: %s = %q: must be http:// or https://, a host, and at most a path", field, u.Redacted())
		}
	}
	return nil
}

// downFor is for how long an instance that does not answer is asked last.
const downFor = time.Second

// A fleet is the instances of weir serve that a Client asks.
type fleet struct {
	bases  []string        // of the URLs of requests
	owners *rendezvous.Set // of slots; nil if there is one instance
	began  time.Time
	down   []atomic.Int64 // until when an instance is asked last, as time.Duration since began
}

func newFleet(urls []string) fleet {
	f := fleet{bases: make([]string, len(urls)), down: make([]atomic.Int64, len(urls)), began: time.Now()}
	for i, u := range urls {
		f.bases[i] = strings.TrimRight(u, "/")
	}
	if len(urls) > 1 {
		names := make([]string, len(urls))
		for i, text := range urls {
			names[i] = memberName(text)
		}
		f.owners = rendezvous.New(names)
	}
	return f
}

// memberName returns the name that instances give to the member at a URL.
func memberName(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// candidates returns the instance to ask about a key, and the one to ask if it does not answer.
func (f *fleet) candidates(key string) []int {
	if f.owners == nil {
		return []int{0}
	}
	now := int64(time.Since(f.began))
	var few [8]int
	var up, down []int
	for _, i := range f.owners.Ranked(slot.Of(key), few[:0]) {
		if f.down[i].Load() > now {
			down = append(down, i)
		} else {
			up = append(up, i)
		}
	}
	return append(up, down...)[:2]
}

// roundTrip asks the owner of the call's key, and another instance if the owner does not answer
// while there is time.
func (c *Client) roundTrip(ctx context.Context, q *call) (r reply, err error) {
	for _, i := range c.fleet.candidates(q.key) {
		r, err = c.roundTripTo(ctx, c.fleet.bases[i], q)
		if !away(err) {
			return r, err
		}
		if c.fleet.owners != nil {
			c.fleet.down[i].Store(int64(time.Since(c.fleet.began) + downFor))
		}
		if ctx.Err() != nil {
			return r, err
		}
	}
	return r, err
}

// sendToOwners sends asks, in one request for each owner of their keys.
func (c *Client) sendToOwners(asks []*ask) {
	if c.fleet.owners == nil || len(asks) < 2 {
		c.send(asks)
		return
	}
	byOwner := map[int][]*ask{}
	for _, a := range asks {
		owner := c.fleet.candidates(a.Key)[0]
		byOwner[owner] = append(byOwner[owner], a)
	}
	var sending sync.WaitGroup
	for _, part := range byOwner {
		sending.Go(func() { c.send(part) })
	}
	sending.Wait()
}
