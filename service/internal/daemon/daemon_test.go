package daemon

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// Answers are logged by the class of their status, up to a rate.
func TestLogAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			rule   string
			log    [6]bool
			status int
			n      int
			want   int
		}{
			{"2xx", [6]bool{2: true}, 200, 1, 1},
			{"other classes", [6]bool{2: true, 5: true}, 429, 1, 0},
			{"4xx", [6]bool{4: true}, 429, 1, 1},
			{"5xx", [6]bool{5: true}, 503, 1, 1},
			{"a hundred at once", [6]bool{4: true}, 429, 150, maxLogged},
		} {
			var out bytes.Buffer
			answered := logAnswers(slog.New(slog.NewJSONHandler(&out, nil)), tt.log)
			for range tt.n {
				answered(httptest.NewRequest("POST", "/rate/a%0Ab", nil), tt.status, time.Now(), 0)
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
		if logAnswers(slog.New(slog.DiscardHandler), [6]bool{}) != nil {
			t.Error("without a class, answers are looked at")
		}
	})
}

// No request is fast if its decision may take a message.
func TestFast(t *testing.T) {
	s := newServer(t)
	api, err := httpapi.New(s, httpapi.Config{})
	testrig.Must(t, err)
	rls, err := grpcapi.New(s, grpcapi.Config{})
	testrig.Must(t, err)
	r := httptest.NewRequest("POST", "/rate/a", nil)
	for _, d := range []*Daemon{{}, {shared: new(server.Shared)}, {tier: new(tier)}, {fleet: new(fleet)}} {
		d.api, d.rls = api, rls
		if fast, alone := d.isFast()(r), !d.blocking(); fast != alone {
			t.Errorf("alone: %t, fast: %t", alone, fast)
		}
	}
}

// A server that every client can reach and use logs a warning, and so does one with
// tokens that the network can read.
func TestAnnounceWarns(t *testing.T) {
	s := newServer(t)
	for _, tt := range []struct {
		rule string
		cfg  Config
		at   net.IP
		warn bool
	}{
		{"loopback", Config{}, net.IPv6loopback, false},
		{"inline alone", Config{Transport: "inline"}, net.IPv6loopback, false},
		{"everywhere", Config{}, net.IPv4zero, true},
		{"tokens in cleartext", Config{Tokens: "t.yaml"}, net.IPv4zero, true},
		{"tokens in cleartext on loopback", Config{Tokens: "t.yaml"}, net.IPv6loopback, false},
		{"tokens over TLS", Config{Tokens: "t.yaml", TLS: TLS{Cert: "c.pem"}}, net.IPv4zero, false},
		{"certificates of clients", Config{TLS: TLS{ClientCA: "ca.pem"}}, net.IPv4zero, false},
		{"a certificate of the server's alone", Config{TLS: TLS{Cert: "c.pem"}}, net.IPv4zero, true},
	} {
		var out bytes.Buffer
		d := Daemon{cfg: tt.cfg, log: slog.New(slog.NewTextHandler(&out, nil)), server: s}
		d.announce(&net.TCPAddr{IP: tt.at, Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 2})
		if warned := strings.Contains(out.String(), "level=WARN"); warned != tt.warn {
			t.Errorf("%s: %s: warned: want %t", tt.rule, out.String(), tt.warn)
		}
	}
}

// An instance that asks others about each request says that --transport=inline has no effect.
func TestAnnounceTransport(t *testing.T) {
	for transport, warns := range map[string]bool{"inline": true, "std": false} {
		var out bytes.Buffer
		d := Daemon{cfg: Config{Transport: transport}, log: slog.New(slog.NewTextHandler(&out, nil)), server: newServer(t), shared: new(server.Shared)}
		d.announce(&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 2})
		if warned := strings.Contains(out.String(), "--transport=inline"); warned != warns {
			t.Errorf("%s: %s: warned: want %t", transport, out.String(), warns)
		}
	}
}

func newServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Rules: new(config.Rules)})
	testrig.Must(t, err)
	return s
}
