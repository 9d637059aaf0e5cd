package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

func TestLoadCommand(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "trace.csv")
	args := []string{"load", srv.URL, "--rate", "200", "--duration", "200ms", "--trace", file}

	code, stdout, stderr := weirlab(t, args...)
	if code != 0 || !strings.Contains(stdout, "offered") || !strings.Contains(stdout, "202") {
		t.Errorf("%d, %q, %q: want a table", code, stdout, stderr)
	}
	records, err := os.ReadFile(file)
	testrig.Must(t, err)
	if n := strings.Count(string(records), "\n"); n != 41 {
		t.Errorf("%d lines in the trace: want a header and 40 records", n)
	}

	code, stdout, stderr = weirlab(t, append(args, "--json")...)
	var report struct {
		ByStatus map[string]int `json:"by_status"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || report.ByStatus["202"] != 40 {
		t.Errorf("%d, %v, %+v, %q: want JSON", code, err, report, stderr)
	}

	if code, _, stderr := weirlab(t, "load", srv.URL, "--trace", t.TempDir(), "--duration", "10ms"); code != 1 || !strings.Contains(stderr, "--trace") {
		t.Errorf("%d, %q: want an error of the trace", code, stderr)
	}
}

// A load of lines prints the same table.
func TestLoadLines(t *testing.T) {
	target, err := net.ListenPacket("udp", "127.0.0.1:0")
	testrig.Must(t, err)
	defer target.Close()
	code, stdout, stderr := weirlab(t, "load", "udp://"+target.LocalAddr().String(), "--body", "hits.{n}:1|c", "--rate", "200", "--duration", "50ms", "--quiet")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "sent") || !strings.Contains(stdout, "10 requests in 0.1 s") {
		t.Errorf("%d, %q, %q: want a table", code, stdout, stderr)
	}
	var lines []string // several workers send them
	for range 10 {
		line := make([]byte, 100)
		n, _, err := target.ReadFrom(line)
		testrig.Must(t, err)
		lines = append(lines, string(line[:n]))
	}
	for n := range 10 {
		if want := fmt.Sprintf("hits.%d:1|c\n", n+1); !slices.Contains(lines, want) {
			t.Errorf("%q: want %q", lines, want)
		}
	}
}

// Ctrl-C ends a load and prints the results so far.
func TestLoadInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { interrupt() }))
	defer srv.Close()
	var out, err bytes.Buffer
	code := program.Run(ctx, []string{"load", srv.URL, "--quiet"}, &out, &err)
	if code != 0 || !strings.Contains(out.String(), "goodput") || err.Len() > 0 {
		t.Errorf("%d, %q, %q: want the table so far", code, out.String(), err.String())
	}
}

// A run that fails says why, and exits with status 1.
func TestLoadStatus(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct {
		args string
		code int
		want string // on stderr
	}{
		{srv.URL, 0, ""},
		{closed.URL, 1, "weirlab load: no request succeeded: 5 of 5 requests: refused (connection refused)\n"},
		{closed.URL + " --max-failed 100%", 0, ""},
		{closed.URL + " --json", 1, "no request succeeded"},
		{srv.URL + "/bad", 1, "no request succeeded: 5 of 5 requests: 503\n"},
		{srv.URL + "/bad --max-failed 0.5", 1, "failed = 100.0 %: must be <= 50.0 %: 5 of 5 requests: 503"},
		{srv.URL + " --max-p50 1h --max-p75 1h --max-p90 1h --max-p95 1h --max-p99 1h --max-p999 1h --max-p9999 1h --max-latency 1h --max-failed 0 --min-goodput 0.1", 0, ""},
		{srv.URL + " --max-p50 1ns --max-p9999 1ns --max-latency 1ns", 1, "p50 of successes = "},
		{srv.URL + " --max-p9999 1ns", 1, "weirlab load: p99.99 of successes = "},
		{srv.URL + " --max-latency 1ns", 1, "weirlab load: max of successes = "},
		{srv.URL + " --min-goodput 1000000", 1, "must be >= 1e+06"},
	} {
		code, stdout, stderr := weirlab(t, append([]string{"load", "-n", "5", "--rate", "1000", "--quiet"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) || tt.want == "" && stderr != "" || !strings.Contains(stdout, "5") {
			t.Errorf("%s: %d, %q: want %d and %q\n%s", tt.args, code, stderr, tt.code, tt.want, stdout)
		}
	}
}

// Workers send as fast as the answers come, and -n bounds the requests.
func TestLoadWorkers(t *testing.T) {
	var mu sync.Mutex
	inflight, most := 0, 0
	full := make(chan struct{}) // closed when ten are in flight
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		inflight++
		if most = max(most, inflight); inflight == 10 && most == 10 {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full // at five a second, the first would wait for two seconds
		mu.Lock()
		inflight--
		mu.Unlock()
	}))
	defer srv.Close()
	code, stdout, stderr := weirlab(t, "load", srv.URL, "--workers", "10", "-n", "300", "--json", "--quiet")
	var r struct {
		Requests int
		Load     string
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Requests != 300 || most != 10 || r.Load != "closed loop, 10 workers, as fast as the answers come" {
		t.Errorf("%d, %v, %s, %+v, %d at once: want 300 requests, and 10 at once", code, err, stderr, r, most)
	}
}

// A request as the flags and files say: method, header, body of a file, targets.
func TestLoadRequests(t *testing.T) {
	var mu sync.Mutex
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header.Get("A"), body))
	}))
	defer srv.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		testrig.Must(t, os.WriteFile(path, []byte(text), 0o666))
		return path
	}
	body := file("body", "content {n}")
	targets := file("targets", "PUT /a\n@"+body+"\n\n{\"url\": \""+srv.URL+"/b?{n}\", \"header\": {\"A\": \"json\"}}\n")
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{srv.URL, "-n", "1"}, []string{"GET /  "}},
		{[]string{srv.URL, "-n", "1", "-d", "text"}, []string{"POST /  text"}},
		{[]string{srv.URL, "-n", "1", "-d", "@@text", "-X", "PATCH", "-H", "A: b"}, []string{"PATCH / b @text"}},
		{[]string{srv.URL, "-n", "2", "-d", "@" + body, "-c", "1"}, []string{"POST /  content 1", "POST /  content 2"}},
		{[]string{srv.URL, "-n", "3", "--targets", targets, "-H", "A: all", "-c", "1"}, []string{"PUT /a all content 1", "GET /b?2 json ", "PUT /a all content 3"}},
	} {
		got = nil
		code, _, stderr := weirlab(t, append([]string{"load", "--quiet"}, tt.args...)...)
		if code != 0 || !slices.Equal(got, tt.want) {
			t.Errorf("%v: %d, %s, %q: want %q", tt.args, code, stderr, got, tt.want)
		}
	}
	// All targets are checked, and the base of relative ones.
	far := file("far", "GET http://127.0.0.1:1/\nGET http://192.0.2.1/\n")
	if code, _, stderr := weirlab(t, "load", "--targets", far); code != 2 || !strings.Contains(stderr, "192.0.2.1 is not this machine") {
		t.Errorf("%d, %q", code, stderr)
	}
	if code, _, stderr := weirlab(t, "load", "--targets", targets); code != 2 || !strings.Contains(stderr, `targets[0]: url = "/a": must be an http or https URL`) {
		t.Errorf("%d, %q", code, stderr)
	}
}

// HTTPS with an own authority, and HTTP/2.
func TestLoadTLS(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	srv.EnableHTTP2, srv.Config.ErrorLog = true, log.New(io.Discard, "", 0) // handshakes that fail
	srv.StartTLS()
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testrig.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o666))
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--http2 --ca " + ca, 0, ""},
		{"--http2 -k", 0, ""},
		{"-k", 1, "505"},
		{"--http2", 1, "x509: certificate signed by unknown authority"},
	} {
		code, _, stderr := weirlab(t, append([]string{"load", srv.URL, "-n", "3", "-c", "1", "--quiet"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: %d, %s: want %d, %q", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}

// Reports in all formats, and a comparison of two.
func TestLoadReports(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	code, _, stderr := weirlab(t, "load", srv.URL, "-n", "200", "--rate", "2000", "--quiet", "--max-p99", "1h", "--report", in("a.json"), "--report", in("a.html"), "--report", in("a.hgrm"))
	if code != 0 || strings.Count(stderr, "wrote ") != 3 {
		t.Errorf("%d, %q: want three files", code, stderr)
	}
	for name, want := range map[string]string{"a.json": `"hdr"`, "a.html": "✓ All thresholds are kept.", "a.hgrm": "1/(1-Percentile)"} {
		if text, err := os.ReadFile(in(name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %.200s: want %q", name, err, text, want)
		}
	}
	code, stdout, _ := weirlab(t, "load", srv.URL, "-n", "200", "--rate", "1000", "--quiet", "--json")
	if err := os.WriteFile(in("b.json"), []byte(stdout), 0o666); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	code, stdout, stderr = weirlab(t, "load", "compare", in("a.json"), in("b.json"), "--report", in("c.html"))
	if code != 0 || !strings.Contains(stdout, "-50.0 %") || !strings.Contains(stdout, "p99") || !strings.Contains(stderr, "c.html") {
		t.Errorf("%d, %s, %s: want half the rate", code, stdout, stderr)
	}
	code, stdout, stderr = weirlab(t, "load", "compare", in("a.json"), in("a.json"), "--max-worse", "0%", "--json")
	var c struct {
		Figures []struct{ Name, Verdict string }
	}
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || code != 0 || len(c.Figures) < 8 {
		t.Errorf("%d, %v, %s, %s: want that nothing has changed", code, err, stdout, stderr)
	}
	broken := strings.Replace(string(must(t, in("a.json"))), `"failed_share": 0`, `"failed_share": 0.5`, 1)
	testrig.Must(t, os.WriteFile(in("d.json"), []byte(broken), 0o666))
	if code, _, stderr = weirlab(t, "load", "compare", in("a.json"), in("d.json"), "--max-worse", "10%"); code != 1 || !strings.Contains(stderr, "worse: failed: 50.0 % instead of 0.0 %: +50.00 points") {
		t.Errorf("%d, %s: want half a failure", code, stderr)
	}
	if code, _, stderr = weirlab(t, "load", "compare", in("a.json"), in("b.json"), "--report", in("c.txt")); code != 2 || !strings.Contains(stderr, "must end in .html") {
		t.Errorf("%d, %s", code, stderr)
	}
	// A run that cannot begin leaves files as they were.
	was := must(t, in("a.json"))
	code, _, stderr = weirlab(t, "load", srv.URL, "-n", "1", "--quiet", "--report", in("a.json"), "--trace", filepath.Join(dir, "no", "trace.csv"))
	if now, _ := os.ReadFile(in("a.json")); code != 1 || !strings.Contains(stderr, "--trace: ") || string(now) != string(was) {
		t.Errorf("exit %d, %s: %d bytes, before %d", code, stderr, len(now), len(was))
	}
	clitest.Fatal(t, os.WriteFile(in("trace.csv"), was, 0o600))
	used := strings.TrimPrefix(srv.URL, "http://")
	code, _, stderr = weirlab(t, "load", srv.URL, "-n", "1", "--quiet", "--trace", in("trace.csv"), "--metrics", used)
	if code != 1 || !strings.Contains(stderr, "--metrics") || string(must(t, in("trace.csv"))) != string(was) {
		t.Errorf("exit %d, %s", code, stderr)
	}
	clitest.Fatal(t, os.WriteFile(in("a.json"), append(was, was...), 0o600))
	if code, _, stderr = weirlab(t, "load", srv.URL, "-n", "1", "--quiet", "--report", in("a.json")); code != 0 {
		t.Errorf("exit %d, %s", code, stderr)
	}
	if code, _, stderr = weirlab(t, "load", "compare", in("a.json"), in("b.json")); code != 0 {
		t.Errorf("a report in the place of a longer one: exit %d, %s", code, stderr)
	}
	if code, _, stderr = weirlab(t, "load", srv.URL, "--report", filepath.Join(dir, "no", "a.json")); code != 1 || !strings.Contains(stderr, "--report: ") {
		t.Errorf("%d, %s", code, stderr)
	}
}

func must(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	testrig.Must(t, err)
	return text
}

// Metrics can be scraped during the run.
func TestLoadMetrics(t *testing.T) {
	var once sync.Once
	var scraped []byte
	var out bytes.Buffer
	stderr := &testrig.Buffer{}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() {
			_, url, _ := strings.Cut(stderr.String(), "metrics: ")
			resp, err := http.Get(strings.TrimSpace(url))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			scraped, _ = io.ReadAll(resp.Body)
		})
	}))
	defer srv.Close()
	if code := program.Run(t.Context(), []string{"load", srv.URL, "-n", "3", "--rate", "100", "--metrics", "127.0.0.1:0", "--quiet"}, &out, stderr); code != 0 {
		t.Errorf("%d, %s", code, stderr)
	}
	if !regexp.MustCompile(`(?m)^weir_load_inflight_requests [123]$`).Match(scraped) {
		t.Errorf("%s: want a request in flight", scraped)
	}
	clitest.LintMetrics(t, string(scraped))
	_, url, _ := strings.Cut(stderr.String(), "metrics: ")
	if resp, err := http.Get(strings.TrimSpace(url)); err == nil {
		resp.Body.Close()
		t.Error("the metrics are still served after the run")
	}
}

// A run ends by itself.
func TestLoadDuration(t *testing.T) {
	for _, tt := range []struct {
		cmd  loadCmd
		want time.Duration
	}{
		{loadCmd{}, 10 * time.Second},
		{loadCmd{Rate: "200"}, 10 * time.Second},
		{loadCmd{Rate: "5..50@30s"}, 30 * time.Second},
		{loadCmd{Rate: "5@10s,20@30s,5"}, 50 * time.Second},
		{loadCmd{Rate: "5..50@30s,50@1m,0"}, 90 * time.Second},
		{loadCmd{Rate: "5@1m", Requests: 7}, 0},
		{loadCmd{Rate: "5@1m", Duration: new(time.Second)}, time.Second},
		{loadCmd{Duration: new(time.Duration(0))}, 0},
	} {
		if got := tt.cmd.duration(); got != tt.want {
			t.Errorf("--rate %q, --requests %d: %v: want %v", tt.cmd.Rate, tt.cmd.Requests, got, tt.want)
		}
	}
}
