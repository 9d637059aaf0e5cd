package respapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// bubble runs a test in virtual time, with a goroutine for each connection, and with an event
// loop.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Run("goroutines", func(t *testing.T) { synctest.Test(t, f) })
	t.Run("loop", func(t *testing.T) {
		onLoop = true
		defer func() { onLoop = false }()
		synctest.Test(t, f)
	})
}

// onLoop says that connections of a bubble are an eventloop.Conn.
var onLoop bool

// A site is an API with its server, and what a test asks it.
type site struct {
	*respapi.API
	server   *server.Server
	ln       *pipenet.Listener
	detached atomic.Int64 // counts connections that called Detach, again after each Attach
	t        *testing.T
}

// serve serves an API under some rules until the test ends.
func serve(t *testing.T, cfg respapi.Config, rules ...config.Rule) *site {
	t.Helper()
	s, err := server.New(server.Config{Rules: &config.Rules{Rules: rules}, OwnQuotas: true})
	testrig.Must(t, err)
	site := serveOn(t, cfg, s)
	site.server = s
	return site
}

// serveOn serves an API of a Decider until the test ends.
func serveOn(t *testing.T, cfg respapi.Config, d decider.Decider) *site {
	t.Helper()
	api, err := respapi.New(d, cfg)
	testrig.Must(t, err)
	site := &site{API: api, ln: pipenet.Listen(), t: t}
	served := make(chan error, 1)
	go func() {
		if onLoop {
			served <- api.Serve(loopListener{site.ln, &site.detached})
		} else {
			served <- api.Serve(site.ln)
		}
	}()
	t.Cleanup(func() {
		if err := api.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		if err := <-served; err != respapi.ErrClosed {
			t.Error(err)
		}
	})
	return site
}

// A peer is a client of a site.
type peer struct {
	net.Conn
	in *bufio.Reader
	t  *testing.T
}

func (s *site) dial() *peer {
	s.t.Helper()
	nc, err := s.ln.Dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	return newPeer(nc, s.t)
}

func newPeer(nc net.Conn, t *testing.T) *peer { return &peer{nc, bufio.NewReader(nc), t} }

// send sends bytes, without waiting for them to be received.
func (p *peer) send(text string) {
	go func() { _, _ = io.WriteString(p.Conn, text) }()
}

// encode returns a command as clients send it.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

// do sends a command, as words between spaces, and returns its reply.
func (p *peer) do(command string) any {
	p.t.Helper()
	p.send(encode(strings.Fields(command)...))
	return p.read()
}

// An errorReply is a reply that is an error.
type errorReply string

// read returns the next reply: an int, a string, an errorReply, nil, a []any, or a
// map[string]any. If the connection ends, it returns the error.
func (p *peer) read() any {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		return err
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	n, _ := strconv.Atoi(text)
	switch kind {
	case '+':
		return text
	case '-':
		return errorReply(text)
	case ':':
		return n
	case '_':
		return nil
	case '$':
		if n < 0 {
			return nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(p.in, b); err != nil {
			return err
		}
		return string(b[:n])
	case '*':
		all := []any{}
		for range n {
			all = append(all, p.read())
		}
		return all
	case '%':
		all := map[string]any{}
		for range n {
			all[p.read().(string)] = p.read()
		}
		return all
	}
	p.t.Fatalf("%q is no reply", line)
	return nil
}

// fields returns a reply of fields and values in turn as a map.
func fields(reply any) map[string]any {
	if m, ok := reply.(map[string]any); ok {
		return m
	}
	all := map[string]any{}
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		all[list[i].(string)] = list[i+1]
	}
	return all
}

// wants checks the reply to a command, as fmt prints it.
func (p *peer) wants(command, want string) {
	p.t.Helper()
	if got := fmt.Sprint(p.do(command)); got != want {
		p.t.Errorf("%s:\n%s, want\n%s", command, got, want)
	}
}

// perKey is a rule for all keys.
func perKey(n int, period time.Duration) config.Rule {
	return config.Rule{Name: "each", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: n, Period: period}}, OwnQuota: true}
}

// stuffed is a command with one long argument.
func stuffed(name string, n int) string { return encode(name, string(bytes.Repeat([]byte("x"), n))) }
