package load_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

func TestLoopback(t *testing.T) {
	for target, ok := range map[string]bool{
		"http://127.0.0.1:8000": true, "http://127.9.9.9": true, "http://[::1]:80/x": true, "http://localhost": true,
		"http://[::ffff:127.0.0.1]": true, "http://192.0.2.1": false, "http://0.0.0.0": false, "http://[2001:db8::1]": false,
		"grpc://127.0.0.1:1/d?k=v": true, "redis://:s@127.0.0.1:1": true, "udp://192.0.2.1:8125": false, "redis://:s@192.0.2.1:1": false,
		"http://": false, "http://no.such.host.invalid": false,
	} {
		if err := (load.Config{Target: target}).Loopback(t.Context()); (err == nil) != ok {
			t.Errorf("%s: %v: want it to be ours: %v", target, err, ok)
		}
	}
}

// Each absolute URL of a list must be of this machine.
func TestLoopbackOfTargets(t *testing.T) {
	cfg := load.Config{Targets: []load.Target{{URL: "http://127.0.0.1/a"}, {URL: "http://127.0.0.1/b"}, {URL: "http://192.0.2.7/c"}}}
	if err := cfg.Loopback(t.Context()); err == nil || !strings.Contains(err.Error(), `"http://192.0.2.7/c": 192.0.2.7 is not this machine`) {
		t.Errorf("%v: want an error about the third", err)
	}
	cfg.Targets = cfg.Targets[:2]
	if err := cfg.Loopback(t.Context()); err != nil {
		t.Error(err)
	}
	cfg = load.Config{Target: "http://192.0.2.7", Targets: []load.Target{{URL: "/relative"}}}
	if err := cfg.Loopback(t.Context()); err == nil {
		t.Error("want an error about the base of a relative target")
	}
	cfg = load.Config{Target: "http://127.0.0.1", Targets: []load.Target{{URL: "//192.0.2.7/c"}}}
	if err := cfg.Loopback(t.Context()); err == nil || !strings.Contains(err.Error(), `"http://192.0.2.7/c": 192.0.2.7 is not this machine`) {
		t.Errorf("%v: want an error about a target with a host and no scheme", err)
	}
}

const list = `# a comment
GET http://127.0.0.1:8000/a?b={n}
Accept: text/html
Accept: */*

POST /orders/{n}
@order.json
X-Empty:
DELETE https://h/x
  {"url": "/json", "header": {"A": ["1", "2"], "B": "3"}, "body": "aGVsbG8="}

{"method": "PUT", "url": "http://h/", "text": "plain"}
`

// file is the content of body files.
func file(name string) (string, error) {
	if name != "order.json" {
		return "", errors.New("no such file")
	}
	return `{"n": {n}}`, nil
}

func TestReadTargets(t *testing.T) {
	got, err := load.ReadTargets(strings.NewReader(list), file)
	want := []load.Target{
		{Method: "GET", URL: "http://127.0.0.1:8000/a?b={n}", Header: http.Header{"Accept": {"text/html", "*/*"}}},
		{Method: "POST", URL: "/orders/{n}", Header: http.Header{"X-Empty": {""}}, Body: `{"n": {n}}`},
		{Method: "DELETE", URL: "https://h/x", Header: http.Header{}},
		{URL: "/json", Header: http.Header{"A": {"1", "2"}, "B": {"3"}}, Body: "hello"},
		{Method: "PUT", URL: "http://h/", Body: "plain"},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || err != nil {
		t.Errorf("%+v, %v: want %+v", got, err, want)
	}
}

func TestReadTargetsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "targets: there are none",
		"# only a comment\n":              "targets: there are none",
		"/path":                           `line 1: "/path": want a method and a URL`,
		"GET":                             `line 1: "GET": want a method and a URL`,
		"GET http://h\nno field":          `line 2: "no field": want a header field`,
		"GET http://h\n: x":               `line 2: ": x": want a header field`,
		"GET http://h\n\nA: b":            `line 3: "A: b": want a method`,
		"GET http://h\n@missing":          "line 2: no such file",
		`{"url": "/", "methud": "GET"}`:   `line 1: json: unknown field "methud"`,
		`{"url": "/"} {"url": "/"}`:       "line 1: want one JSON object in a line",
		`{"method": "GET"}`:               "line 1: url is missing",
		`{"url": "/", "body": "%"}`:       "line 1: illegal base64",
		`{"url": "/", "header": {"A":1}}`: `line 1: header "A": want a text or a list of texts`,
		`{"url": "/", "body": "YQ==", "text": "b"}`:         "line 1: body and text exclude each other",
		strings.Repeat("GET http://h\n", load.MaxTargets+1): "more than 100000",
		"GET http://h/" + strings.Repeat("x", 1<<20):        "a line has more than 1048576 bytes",
	} {
		if got, err := load.ReadTargets(strings.NewReader(text), file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: %.50v, %v: want %q", text, got, err, want)
		}
	}
}

// Whatever the list, ReadTargets returns targets or an error, and each target has a URL.
func FuzzReadTargets(f *testing.F) {
	f.Add(list)
	f.Add("GET /\n@order.json\nA:b")
	f.Fuzz(func(t *testing.T, text string) {
		targets, err := load.ReadTargets(strings.NewReader(text), file)
		if (err == nil) != (len(targets) > 0) {
			t.Fatalf("%d targets, %v", len(targets), err)
		}
		for _, target := range targets {
			if target.URL == "" {
				t.Fatalf("%+v has no URL", target)
			}
		}
	})
}

// Targets are sent in turn. What they do not have comes from the configuration.
func TestTargets(t *testing.T) {
	targets, err := load.ReadTargets(strings.NewReader("GET /a?n={n}\nWho: one\n\n{\"url\": \"/b/{n}?next=http://h/\"}\nPUT http://other.test/c"), file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	r, _ := offer(t, load.Config{
		Target: "http://service.test/base?q", Targets: targets, Header: http.Header{"Who": {"all"}, "Extra": {"x"}}, Body: "body {n}",
		Profile: pace.Constant(1), Requests: 4, MaxInflight: 1,
		Transport: server(func(r *http.Request) (*http.Response, error) {
			text := make([]byte, 100)
			n, _ := r.Body.Read(text)
			got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header["Who"], r.Header["Extra"], " ", string(text[:n])))
			return answer(200), nil
		}),
	})
	want := []string{
		"GET http://service.test/a?n=1 [one] [x] body 1", "POST http://service.test/b/2?next=http://h/ [all] [x] body 2",
		"PUT http://other.test/c [all] [x] body 3", "GET http://service.test/a?n=4 [one] [x] body 4",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || r.Requests != 4 {
		t.Errorf("%q: want %q", got, want)
	}
}

func TestTargetErrors(t *testing.T) {
	for want, cfg := range map[string]load.Config{
		`targets[1]: url = "/x": must be an http or https URL with a host`: {Targets: []load.Target{{URL: "http://h"}, {URL: "/x"}}},
		`targets[0]: url = "ftp://h"`:                                      {Targets: []load.Target{{URL: "ftp://h"}}},
		`targets[0]: net/http: invalid method "a b"`:                       {Targets: []load.Target{{URL: "http://h", Method: "a b"}}},
		`targets[0]: parse "%zz": invalid URL escape "%zz"`:                {Target: "http://h", Targets: []load.Target{{URL: "%zz"}}},
		"targets: must be empty: they are HTTP requests":                   {Target: "redis://h:1", Body: "PING", Targets: []load.Target{{URL: "http://h"}}},
		"http2 = true: must be false: tcp requests":                        {Target: "tcp://h:1", Body: "x", HTTP2: true},
		"no_keep_alive = true: must be false: udp requests":                {Target: "udp://h:1", Body: "x", NoKeepAlive: true},
		"rate = 0: sends nothing: without workers":                         {Target: "http://h", Profile: pace.Constant(0)},
		"requests = -1: must be >= 0":                                      {Target: "http://h", Requests: -1},
	} {
		if !strings.HasPrefix(want, "rate") {
			cfg.Profile = pace.Constant(1)
		}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
