package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// Answers are logged by their class, and not more of them than anybody reads.
func TestLogAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			rule   string
			log    serveLog
			status int
			n      int
			want   int
		}{
			{"nothing unless it is said", serveLog{}, 500, 1, 0},
			{"2xx", serveLog{Log2xx: true}, 200, 1, 1},
			{"not what is not said", serveLog{Log2xx: true, Log5xx: true}, 429, 1, 0},
			{"4xx", serveLog{Log4xx: true}, 429, 1, 1},
			{"5xx", serveLog{Log5xx: true}, 503, 1, 1},
			{"a hundred at once", serveLog{Log4xx: true}, 429, 150, maxLogged},
		} {
			var out bytes.Buffer
			tt.log.LogFormat = "json"
			log, err := tt.log.logger(&out)
			fatal(t, err)
			h := tt.log.logged(log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tt.status) }))
			for range tt.n {
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/rate/a%0Ab", nil))
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if out.Len() == 0 {
				lines = nil
			}
			if len(lines) != tt.want {
				t.Errorf("%s: %d lines: want %d", tt.rule, len(lines), tt.want)
			}
			for _, line := range lines {
				var told struct {
					Status       int
					Method, Path string
				}
				if err := json.Unmarshal([]byte(line), &told); err != nil || strconv.Itoa(told.Status)+told.Method+told.Path != strconv.Itoa(tt.status)+"POST/rate/a%0Ab" {
					t.Errorf("%s: %v: %s", tt.rule, err, line)
				}
			}
		}
	})
}

// Who serves everybody without asking who they are is told so.
func TestServeOpen(t *testing.T) {
	s, err := server.New(server.Config{Rules: new(config.Rules)})
	fatal(t, err)
	for _, tt := range []struct {
		rule string
		cmd  serveCmd
		at   net.IP
		warn bool
	}{
		{"loopback", serveCmd{}, net.IPv6loopback, false},
		{"everywhere", serveCmd{}, net.IPv4zero, true},
		{"tokens", serveCmd{Tokens: "t.yaml"}, net.IPv4zero, false},
		{"certificates of clients", serveCmd{serveTLS: serveTLS{ClientCA: "ca.pem"}}, net.IPv4zero, false},
		{"a certificate of the server's alone", serveCmd{serveTLS: serveTLS{TLSCert: "c.pem"}}, net.IPv4zero, true},
	} {
		var out bytes.Buffer
		d := daemon{cmd: &tt.cmd, log: slog.New(slog.NewTextHandler(&out, nil)), server: s}
		d.announce(&net.TCPAddr{IP: tt.at, Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 2})
		if warned := strings.Contains(out.String(), "level=WARN"); warned != tt.warn {
			t.Errorf("%s: %s: warned: want %t", tt.rule, out.String(), tt.warn)
		}
	}
}
