package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// resp returns the address for clients of Redis.
func (s *served) resp() string {
	return regexp.MustCompile(`listen=(\S+)`).FindStringSubmatch(s.until("msg=RESP"))[1]
}

// A respClient sends commands as lines.
type respClient struct {
	net.Conn
	in *bufio.Reader
	t  *testing.T
}

func respOver(t *testing.T, nc net.Conn, err error) *respClient {
	t.Helper()
	fatal(t, err)
	t.Cleanup(func() { nc.Close() })
	return &respClient{nc, bufio.NewReader(nc), t}
}

func (c *respClient) send(command string) {
	c.t.Helper()
	_, err := io.WriteString(c, command+"\r\n")
	fatal(c.t, err)
}

// wants checks the lines of the next reply; the error of reading counts as one.
func (c *respClient) wants(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		line, err := c.in.ReadString('\n')
		if got := strings.TrimSuffix(line, "\r\n"); err != nil || got != want {
			c.t.Errorf("%q, %v: want %q", got, err, want)
			return
		}
	}
}

// Clients of Redis have the certificate, the tokens, the rules and the state of the server.
func TestServeRESP(t *testing.T) {
	ca := newAuthority(t, "ours")
	tokens := file(t, "tokens.yaml", `tokens: [{name: shop, token: the-secret-of-the-shop}]`)
	rules := file(t, "rules.yaml", `rules: [{name: own, glob: "own:*", rate: 1/h, own_quota: true}, {name: rest, glob: "*", rate: 1/h}]`)
	flags := append(newTLSFiles(t, ca).flags(), "--resp-listen", "127.0.0.1:0", "--tokens", tokens, "--rules", rules,
		"--watch-interval", "1h", "--state", filepath.Join(t.TempDir(), "state"))
	dial := func(s *served) *respClient {
		cfg := ca.config(t, nil)
		cfg.NextProtos = []string{"redis"}
		nc, err := tls.Dial("tcp", s.resp(), cfg)
		return respOver(t, nc, err)
	}
	s := serving(t, flags...)
	c := dial(s)
	c.send("CL.THROTTLE own:1 0 1 3600")
	c.wants("-NOAUTH Authentication required.")
	c.send("AUTH the-secret-of-the-shop")
	c.wants("+OK")
	c.send("CL.THROTTLE own:1 0 1 3600\r\nCL.THROTTLE own:1 0 1 3600\r\nCL.THROTTLE other 0 1 3600")
	c.wants("*5", ":0", ":1", ":0", ":-1", ":3600", "*5", ":1", ":1", ":0", ":3600", ":3600",
		"-ERR requests for this key may not bring a quota of their own: that takes a rule with own_quota: true, or unmatched: allow for keys without a rule")
	text := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	for _, want := range []string{
		`weir_resp_connections 1`, `weir_resp_connections_refused_total 0`, `weir_resp_connections_ended_total{reason="slow_reader"} 0`,
		`weir_resp_commands_total{command="cl.throttle",result="ok"} 1`, `weir_resp_commands_total{command="cl.throttle",result="denied"} 1`,
		`weir_resp_commands_total{command="cl.throttle",result="error"} 2`, `weir_serve_token_requests_total{token="shop"} 3`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	fatal(t, os.WriteFile(tokens, []byte(`tokens: []`), 0o600))
	s.reload()
	c.send("PING")
	c.wants("-NOAUTH Authentication required.")
	s.end()
	if _, err := c.in.ReadByte(); err != io.EOF {
		t.Errorf("%v after the end", err)
	}

	fatal(t, os.WriteFile(tokens, []byte(`tokens: [{name: shop, token: the-secret-of-the-shop}]`), 0o600))
	s = serving(t, flags...)
	c = dial(s)
	c.send("HELLO 2 AUTH any the-secret-of-the-shop\r\nPING")
	for line := ""; line != "+PONG\r\n"; {
		var err error
		line, err = c.in.ReadString('\n')
		fatal(t, err)
	}
	c.send("CL.THROTTLE own:1 0 1 3600")
	c.wants("*5", ":1", ":1")
	s.end()
}

// Clients of Redis need a certificate of the authority of clients. When another one replaces
// it, an open connection ends after its next reply, and its session cannot be resumed.
func TestServeRESPClientCertificates(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	files := newTLSFiles(t, ca)
	s := serving(t, append(files.mutual(), "--resp-listen", "127.0.0.1:0", "--watch-interval", "1h")...)
	addr := s.resp()
	over := func(cfg *tls.Config) *respClient {
		t.Helper()
		nc, err := net.Dial("tcp", addr)
		if cfg != nil {
			cfg.ServerName = "127.0.0.1"
			nc = tls.Client(nc, cfg)
		}
		return respOver(t, nc, err)
	}
	refused := func(rule string, c *respClient) {
		t.Helper()
		_, _ = io.WriteString(c, "PING\r\n") // the handshake can fail here, or at the answer
		if line, err := c.in.ReadString('\n'); err == nil {
			t.Errorf("%s: %q: want no answer", rule, line)
		}
	}
	resumes := ca.config(t, ca)
	resumes.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	var known *respClient
	for _, resumed := range []bool{false, true} {
		known = over(resumes)
		known.send("CL.THROTTLE " + strconv.FormatBool(resumed) + " 1 1 3600")
		known.wants("*5", ":0", ":2", ":1", ":-1", ":3600")
		if got := known.Conn.(*tls.Conn).ConnectionState().DidResume; got != resumed {
			t.Errorf("resumed: %t, want %t", got, resumed)
		}
	}
	refused("no certificate", over(ca.config(t, nil)))
	refused("a certificate of another authority", over(ca.config(t, other)))
	refused("no TLS", over(nil))

	files.trust(other)
	s.reload()
	answers := 0
	for ; answers < 10; answers++ {
		_, _ = io.WriteString(known, "PING\r\n")
		if _, err := known.in.ReadString('\n'); err != nil {
			break
		}
	}
	if answers > 1 {
		t.Errorf("%d answers on a connection of the old authority: want one at most", answers)
	}
	refused("the old authority", over(ca.config(t, ca)))
	refused("a session of the old authority", over(resumes))
	c := over(ca.config(t, other))
	c.send("PING")
	c.wants("+PONG")
	s.end()
}

// A client of Redis that waits gets its turn while the server drains.
func TestServeRESPDrain(t *testing.T) {
	s := serving(t, "--resp-listen", "127.0.0.1:0", "--rules", file(t, "rules.yaml", drainRules))
	granted := s.post("/rate/late")
	nc, err := net.Dial("tcp", s.resp())
	c := respOver(t, nc, err)
	c.send("WEIR.WAIT late\r\nPING")
	s.waiting(1)
	s.stop()
	s.until("msg=draining how=finish waiting=1")
	s.giveBack(http.DefaultClient, "/rate/late", granted)
	c.wants("*10", "$7", "allowed", ":1")
	s.end()
	if rest, err := io.ReadAll(c.in); err != nil || !strings.HasSuffix(string(rest), "+PONG\r\n") {
		t.Errorf("%q, %v", rest, err)
	}
}

// Clients of Redis have connections of their own, and are told when there are too many.
func TestServeRESPConnections(t *testing.T) {
	s := serving(t, "--resp-listen", "127.0.0.1:0", "--max-connections", "4", "--rules", file(t, "rules.yaml", `rules: [{glob: "*", rate: 1/h}]`))
	addr := s.resp()
	var open []*respClient
	for i := range 2 {
		nc, err := net.Dial("tcp", addr)
		c := respOver(t, nc, err)
		c.send("PING")
		c.wants("+PONG")
		if open = append(open, c); i == 0 {
			c.send("WEIR.TAKE a\r\nWEIR.WAIT a")
			s.waiting(1)
		}
	}
	// An address has half of the connections. The one that is idle makes room for the next.
	nc, err := net.Dial("tcp", addr)
	c := respOver(t, nc, err)
	c.send("PING")
	c.wants("+PONG")
	if line, err := open[1].in.ReadString('\n'); err == nil {
		t.Errorf("an idle connection is still open: %q", line)
	}
	c.send("WEIR.WAIT b\r\nWEIR.WAIT b")
	s.waiting(2)
	nc, err = net.Dial("tcp", addr)
	respOver(t, nc, err).wants("-ERR max number of clients reached")
	for _, c := range []*respClient{open[0], c} {
		c.Close()
	}
	if got := fmt.Sprint(s.statuses("/rate/c", 1)); got != "[200]" {
		t.Errorf("HTTP: %s", got)
	}
	s.end()
}
