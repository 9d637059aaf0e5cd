package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Requests go to the origins that work.
func TestProxyOrigins(t *testing.T) {
	origin := echo(t)
	origin.Start()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	fatal(t, dead.Close())
	s := proxying(t, "--origin", origin.URL, "--origin", "http://"+dead.Addr().String())
	for i := range 50 {
		if a := s.get(); a.status != 200 {
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
	s.until("the origin fails")
	resp, err := http.Get(s.admin + "/metrics")
	fatal(t, err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	fatal(t, err)
	for _, want := range []string{
		`weir_proxy_origin_state{origin="http://` + dead.Addr().String() + `",state="ejected"} 1`,
		`weir_proxy_origin_retried_total{origin="http://` + dead.Addr().String() + `"} 3`,
		`weir_proxy_origin_answers_total{origin="` + origin.URL + `",sign="served"} 50`,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("no %s", want)
		}
	}
}

// What http.Transport writes to package log, such as about bytes without a request, is in the log of
// the proxy, with the bounded rate of the server's errors.
func TestProxyUnsolicited(t *testing.T) {
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	defer origin.Close()
	go func() {
		for {
			c, err := origin.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokunsolicited")
				}
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	s := proxying(t, "--origin", "http://"+origin.Addr().String())
	s.get()
	s.until(`level=WARN msg="Unsolicited response on an idle connection`)
	s.end()
}
