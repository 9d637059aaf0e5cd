package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/inline"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/grpcapi"
	"github.com/weir-go/weir/service/internal/server/httpapi"
	"github.com/weir-go/weir/service/internal/server/token"
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
			{"no class", [6]bool{}, 500, 1, 0},
			{"2xx", [6]bool{2: true}, 200, 1, 1},
			{"other classes", [6]bool{2: true, 5: true}, 429, 1, 0},
			{"4xx", [6]bool{4: true}, 429, 1, 1},
			{"5xx", [6]bool{5: true}, 503, 1, 1},
			{"a hundred at once", [6]bool{4: true}, 429, 150, maxLogged},
		} {
			var out bytes.Buffer
			h := logAnswers(slog.New(slog.NewJSONHandler(&out, nil)), tt.log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tt.status) }))
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

// A fieldWriter is a ResponseWriter of the inline transport.
type fieldWriter struct {
	*httptest.ResponseRecorder
	fields []string
}

func (w *fieldWriter) Facts() inline.Facts { return inline.Facts{} }

func (w *fieldWriter) SetField(f *inline.Field) { w.fields = append(w.fields, f.Name+"="+f.Value()) }

func (w *fieldWriter) SetValue(name string, value []byte) {
	w.fields = append(w.fields, name+"="+string(value))
}

func (w *fieldWriter) Now() time.Time { return time.Time{} }

func (w *fieldWriter) Status() int { return w.Code }

// Behind the log, handlers find the ResponseWriter of the inline transport, and the next request finds its own.
func TestLogAnswersInline(t *testing.T) {
	var out bytes.Buffer
	status := http.StatusOK
	h := logAnswers(slog.New(slog.NewJSONHandler(&out, nil)), [6]bool{5: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields, ok := w.(inline.Writer)
		if !ok {
			t.Fatalf("%T is no inline.Writer", w)
		}
		fields.SetValue("x", []byte(r.URL.Path))
		w.WriteHeader(status)
	}))
	for _, status = range []int{http.StatusServiceUnavailable, http.StatusOK} {
		for _, path := range []string{"/a", "/b"} {
			w := &fieldWriter{ResponseRecorder: httptest.NewRecorder()}
			h.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
			if w.Code != status || fmt.Sprint(w.fields) != "[x="+path+"]" {
				t.Errorf("%s: %d %v", path, w.Code, w.fields)
			}
		}
	}
	if n := strings.Count(out.String(), `"status":503`); n != 2 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%s: want the two answers with 503", out.String())
	}
}

// What the inline transport answers goes through the token guard, the log of answers and the request to leave.
func TestImmediate(t *testing.T) {
	var out bytes.Buffer
	s := newServer(t)
	d := &Daemon{cfg: Config{LogAnswers: [6]bool{4: true}}, log: slog.New(slog.NewJSONHandler(&out, nil)), server: s}
	var err error
	if d.api, err = httpapi.New(s, httpapi.Config{Authorize: d.guard.Authorize}); err != nil {
		t.Fatal(err)
	}
	if d.rls, err = grpcapi.New(s, grpcapi.Config{}); err != nil {
		t.Fatal(err)
	}
	tokens, err := token.Parse("tokens.yaml", []byte("tokens:\n- {name: a, token: the-secret-of-a-is-long, keys: ['*']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, guarded := range []bool{false, true} {
		if guarded {
			d.guard.Use(tokens)
		}
		for _, draining := range []bool{true, false} {
			d.draining.Store(draining)
			for _, bearer := range []string{"the-secret-of-a-is-long", "another"} {
				r := httptest.NewRequest("POST", "/rate/a", nil)
				r.Header.Set("Authorization", "Bearer "+bearer)
				w, want := &fieldWriter{ResponseRecorder: httptest.NewRecorder()}, http.StatusOK
				if guarded && bearer == "another" {
					want = http.StatusUnauthorized
				}
				if d.immediate()(r, inline.Facts{}).ServeHTTP(w, r); w.Code != want || (w.Header().Get("Connection") == "close") != draining {
					t.Errorf("tokens: %t, draining: %t, %s: %d %v", guarded, draining, bearer, w.Code, w.Header())
				}
			}
		}
	}
	out.Reset()
	d.draining.Store(true)
	for _, tt := range []struct {
		path, kind string
		status     int // 0: it is not answered inline
	}{
		{"/rate/a", "", http.StatusUnauthorized},
		{"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", "application/grpc", http.StatusOK},
		{"/rate/a", "application/grpc", 0},
		{"/rate", "", 0},
	} {
		r := httptest.NewRequest("POST", tt.path, nil)
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", tt.kind)
		h := d.immediate()(r, httpapi.FactsOf(r.Header))
		if (h != nil) != (tt.status != 0) {
			t.Errorf("%s %s: %v", tt.path, tt.kind, h)
		}
		if h == nil {
			continue
		}
		w := &fieldWriter{ResponseRecorder: httptest.NewRecorder()}
		if h.ServeHTTP(w, r); w.Code != tt.status || w.Header().Get("Connection") != "close" {
			t.Errorf("%s %s: %d %v", tt.path, tt.kind, w.Code, w.Header())
		}
	}
	if n := strings.Count(out.String(), `"status":401`); n != 1 {
		t.Errorf("%s: want one answer with 401", out.String())
	}
	for _, slow := range []*Daemon{{shared: new(server.Shared)}, {tier: new(tier)}, {fleet: new(fleet)}} {
		slow.api, slow.rls = d.api, d.rls
		if slow.immediate()(httptest.NewRequest("POST", "/rate/a", nil), inline.Facts{}) != nil {
			t.Error("a decision that may take a message is answered inline")
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

func newServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Rules: new(config.Rules)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The state is saved while the server runs, too.
func TestSaveEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		path := filepath.Join(t.TempDir(), "state")
		d := &Daemon{cfg: Config{State: path}, log: slog.New(slog.DiscardHandler), server: srv}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.saveEvery(ctx, time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		if _, err := os.Stat(path); err == nil {
			t.Error("it is saved before its time")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	})
}
