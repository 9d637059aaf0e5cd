package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// dial opens a connection and sends a text.
func dial(t *testing.T, url, text string) net.Conn {
	t.Helper()
	return dialFrom(t, net.IPv4(127, 0, 0, 1), url, text)
}

// dialFrom opens a connection from an address.
func dialFrom(t *testing.T, from net.IP, url, text string) net.Conn {
	t.Helper()
	_, host, _ := strings.Cut(url, "://")
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).Dial("tcp", host)
	fatal(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, text)
	fatal(t, err)
	return c
}

// readAnswer reads an answer, and returns its status.
func readAnswer(t *testing.T, c net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	fatal(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	fatal(t, err)
	return resp.StatusCode
}

const (
	wholeRequest = "POST /rate/a HTTP/1.1\r\nHost: a\r\n\r\n"
	halfHeader   = "POST /rate/a HTTP/1.1\r\nHost: a\r\nX-Slow: "
	halfBody     = "POST /rate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[{"
)

// Connections without a request do not keep others out: the one that is idle for
// longest is closed. One with a request stays.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	s := serving(t, "--max-connections", "5", "--rules", file(t, "r.yaml", `rules: [{key: late, rate: 1/h}]`))
	s.statuses("/rate/late", 1)
	http.DefaultClient.CloseIdleConnections()

	busy := dial(t, s.public, "POST /rate/late?canWait=true HTTP/1.1\r\nHost: a\r\n\r\n")
	s.waiting(1)
	idle := dial(t, s.public, wholeRequest)
	if got := readAnswer(t, idle); got != 200 {
		t.Fatal(got)
	}
	slow := dial(t, s.public, halfHeader)
	for range 10 {
		if got := readAnswer(t, dial(t, s.public, wholeRequest)); got != 200 {
			t.Errorf("one more: %d: want an answer", got)
		}
	}
	for name, c := range map[string]net.Conn{"an idle connection": idle, "a slow one": slow} {
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: %d bytes: want it closed", name, n)
		}
	}
	if st := s.status(); st.Total.Waiting != 1 {
		t.Errorf("%d wait: want the one still", st.Total.Waiting)
	}
	busy.Close()
	s.waiting(0)
	s.end()
}

// A connection with a request is not idle, in any protocol.
func TestBusyConnectionsStay(t *testing.T) {
	ca := newAuthority(t, "ours")
	secure := newTLSFiles(t, ca).flags()
	cleartext2 := &http.Transport{Protocols: new(http.Protocols)}
	cleartext2.Protocols.SetUnencryptedHTTP2(true)
	for _, tt := range []struct {
		proto  string
		client *http.Client
		args   []string
	}{
		{"HTTP/1.1", &http.Client{Transport: &http.Transport{}}, nil},
		{"HTTP/2.0", &http.Client{Transport: cleartext2}, nil},
		{"HTTP/1.1", ca.client(t, nil, false), secure},
		{"HTTP/2.0", ca.client(t, nil, true), secure},
	} {
		s := serving(t, append(tt.args, "--max-connections", "3", "--rules", file(t, "r.yaml", `rules: [{key: late, rate: 1/h, max_wait: 9h}]`))...)
		granted := ask(t, tt.client, "POST", s.public+"/rate/late")
		answer := make(chan answered, 1)
		go func() {
			a, err := tryAsk(tt.client, "POST", s.public+"/rate/late?canWait=true")
			if err != nil {
				a.body = err.Error()
			}
			answer <- a
		}()
		s.waiting(1)
		for range 5 {
			dial(t, s.public, "")
		}
		tt.client.CloseIdleConnections() // the server may have closed them
		s.giveBack(tt.client, "/rate/late", granted)
		if a := <-answer; a.status != 200 || a.proto != tt.proto {
			t.Errorf("%s %v: %v: want its turn", tt.proto, tt.args, a)
		}
		tt.client.CloseIdleConnections()
		s.end()
	}
}

// Requests that wait, and half-sent ones, keep no other client out, and no release of
// their own. One address has half of all places: beyond that, a request that would wait is
// decided at once, and others get 503.
func TestBusyConnections(t *testing.T) {
	t.Parallel()
	s := serving(t, "--max-connections", "16", "--client-timeout", "1m", "--grace", "0s", "--drain", "refuse",
		"--rules", file(t, "r.yaml", `rules: [{key: late, rate: 1/h, max_wait: 9h}, {key: job, concurrency: {limit: 1, ttl: 1h}}]`))
	s.statuses("/rate/late", 1)
	var lease struct {
		ID string `json:"lease_id"`
	}
	fatal(t, json.Unmarshal([]byte(s.post("/lease/job").body), &lease))
	http.DefaultClient.CloseIdleConnections()
	const waits = "POST /rate/late?canWait=true HTTP/1.1\r\nHost: a\r\n\r\n"
	for n := 1; n <= 4; n++ {
		dial(t, s.public, waits)
		s.waiting(n)
	}
	beyond := dial(t, s.public, waits)
	if got := readAnswer(t, beyond); got != 429 {
		t.Errorf("one more that would wait: %d: want a decision at once", got)
	}
	beyond.Close()
	for n := 1; n <= 2; n++ {
		dial(t, s.public, halfBody)
		s.taken("deciding", n)
	}
	if got := readAnswer(t, dial(t, s.public, wholeRequest)); got != 503 {
		t.Errorf("one more body: %d: want 503", got)
	}
	s.returns(lease.ID)

	other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	if a := ask(t, other, "POST", s.public+"/rate/a"); a.status != 200 {
		t.Errorf("another address: %v: want its answer", a)
	}
	other.CloseIdleConnections()
	s.stop()
	<-s.ended // requests in flight are cut off
}

// returns returns a lease over a new connection.
func (s *served) returns(id string) {
	s.t.Helper()
	c := dial(s.t, s.public, "DELETE /lease/job/"+id+" HTTP/1.1\r\nHost: a\r\n\r\n")
	defer c.Close()
	if got := readAnswer(s.t, c); got != 200 {
		s.t.Errorf("returning a lease: %d: want 200", got)
	}
}

// taken waits until as many requests are in progress.
func (s *served) taken(bound string, n int) {
	s.t.Helper()
	want := fmt.Sprintf("weir_serve_places_taken{bound=%q} %d\n", bound, n)
	for {
		_, body, err := get(s.admin + "/metrics")
		fatal(s.t, err)
		if strings.Contains(body, want) {
			return
		}
	}
}

// Callers that stop sending or reading are cut off.
func TestServeSlowCallers(t *testing.T) {
	t.Parallel()
	s := serving(t, "--client-timeout", "200ms")
	for text, want := range map[string]int{halfHeader: 0, halfBody: 408} {
		c := dial(t, s.public, text)
		if want != 0 {
			if got := readAnswer(t, c); got != want {
				t.Errorf("%q: %d: want %d", text, got, want)
			}
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%q: %v: want it closed", text, err)
		}
	}
	for url, path := range map[string]string{s.public: "/openapi.json", s.admin: "/metrics"} {
		unread := dial(t, url, "")
		var err error
		for err == nil {
			_, err = io.WriteString(unread, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		}
	}
	s.end()
}
