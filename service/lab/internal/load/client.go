package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A client sends requests to the target in one protocol. It is safe for concurrent use.
type client interface {
	// exchange sends request n and waits for its answer. It returns the status and the
	// reason for trace.Record, or an error if there is no answer. When ctx ends, it
	// returns an error at once.
	exchange(ctx context.Context, n int) (status int, reason string, err error)
	// close closes the connections, after the last exchange.
	close()
}

// Statuses of answers of other protocols than HTTP.
const (
	statusAllowed = 200
	statusDenied  = 429
)

// A protocol describes which fields of Config and which parts of a target its requests
// have, and how to send them.
type protocol struct {
	// open returns a client, which connects when a request needs it. Its connections end
	// with ctx at the latest.
	open     func(context.Context, Config, *url.URL) (client, error)
	header   bool // Config.Header
	body     bool // Config.Body, which is then required
	userinfo bool
	search   bool   // a path and a query
	example  string // of a body
}

// protocols has the protocol of each scheme. HTTP has all fields, and checks them itself.
var protocols = map[string]protocol{
	"http":   {open: newHTTPClient},
	"https":  {open: newHTTPClient},
	"grpc":   {open: newRLSClient, header: true, search: true},
	"grpcs":  {open: newRLSClient, header: true, search: true},
	"redis":  {open: newRESPClient, body: true, userinfo: true, example: "CL.THROTTLE user:{n} 15 30 60"},
	"rediss": {open: newRESPClient, body: true, userinfo: true, example: "CL.THROTTLE user:{n} 15 30 60"},
	"tcp":    {open: newLineClient, body: true, example: "requests:1|c"},
	"udp":    {open: newLineClient, body: true, example: "requests:1|c"},
}

// open returns a client for the target. The error is about a field that is not valid, or
// that the protocol does not have.
func (c Config) open(ctx context.Context) (client, error) {
	if c.Target == "" && len(c.Targets) > 0 {
		return newHTTPClient(ctx, c, nil)
	}
	if strings.HasPrefix(c.Target, "unix:") {
		return nil, fmt.Errorf("load: target = %q: a Unix socket cannot be a target: send to a weir proxy --origin unix:///PATH in front of it", c.Target)
	}
	u, err := url.Parse(c.Target)
	if host, _, _ := strings.Cut(c.Target, "/"); !strings.Contains(c.Target, "://") && strings.Contains(host, ":") {
		return nil, fmt.Errorf("load: target = %q: must begin with a scheme, as in http://%s", c.Target, c.Target)
	}
	if err != nil {
		return nil, fmt.Errorf("load: target = %q: %w", c.Target, err)
	}
	p, known := protocols[u.Scheme]
	if !known || u.Hostname() == "" {
		schemes := slices.Sorted(maps.Keys(protocols))
		return nil, fmt.Errorf("load: target = %q: must be a URL with a host, and with one of the schemes %s", u.Redacted(), strings.Join(schemes, ", "))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		if err := errors.Join(c.checkHTTP(u.Scheme), p.check(c, u)); err != nil {
			return nil, err
		}
	}
	return p.open(ctx, c, u)
}

// check returns an error about the first field or part of the target that is missing, or
// that the protocol does not have.
func (p protocol) check(c Config, u *url.URL) error {
	target := func(must string) error {
		return fmt.Errorf("load: target = %q: must %s", u.Redacted(), must)
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
		return target("have a port in [1, 65535]")
	}
	switch {
	case !p.userinfo && u.User != nil:
		return target(fmt.Sprintf("have no user or secret: %s requests of weirlab load have none", u.Scheme))
	case !p.search && (u.Path != "" || u.RawQuery != ""):
		return target(fmt.Sprintf("end after the port: %s requests of weirlab load have no path or query", u.Scheme))
	case u.Fragment != "":
		return target("have no fragment")
	case c.Method != "":
		return fmt.Errorf("load: method = %q: must be empty: %s requests have no method", c.Method, u.Scheme)
	case !p.header && len(c.Header) > 0:
		return fmt.Errorf("load: header = %v: must be empty: %s requests have no header", slices.Sorted(maps.Keys(c.Header)), u.Scheme)
	case !p.body && c.Body != "":
		return fmt.Errorf("load: body = %q: must be empty: the target has all of a %s request", c.Body, u.Scheme)
	case p.body && strings.TrimSpace(c.Body) == "":
		return fmt.Errorf("load: body = %q: must be what a %s request sends, such as %q", c.Body, u.Scheme, p.example)
	}
	return nil
}

// numberMark is replaced by the number of the request.
const numberMark = "{n}"

// A template is a text in which the number of the request replaces each numberMark. It
// has the parts between the marks.
type template []string

func newTemplate(text string) template { return strings.Split(text, numberMark) }

func (t template) expand(n int) string {
	if len(t) == 1 {
		return t[0]
	}
	return strings.Join(t, strconv.Itoa(n))
}
