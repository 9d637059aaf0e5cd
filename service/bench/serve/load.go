package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	batchSize = 100
	keys      = 10_000
)

// A load is a way to send requests, and what GoCC took for one under it.
type load struct {
	name    string
	args    []string // of the command; URL, HOST and PORT stand for those of the server
	floor   string   // the server without decisions; empty if there is none
	own     string   // a server instead of the transports
	batch   int      // decisions in a request
	gocc    float64  // times the floor, where it was measured
	latency bool     // measure that at half load, too

	check func(addr string) error // of a server before the first turn; may be nil
}

// files has the paths of files for load generators.
type files struct {
	batch string // a body with many keys
	keys  string // URLs with a key each; URL stands for that of the server
	call  string // the frame of a gRPC call
}

// writeFiles writes the files of the load generators.
func writeFiles(dir string) (files, error) {
	f := files{filepath.Join(dir, "batch.json"), filepath.Join(dir, "keys"), filepath.Join(dir, "call")}
	if err := os.WriteFile(f.batch, requests(0, batchSize), 0o600); err != nil {
		return f, err
	}
	call, err := frameOfCall()
	if err != nil {
		return f, err
	}
	if err := os.WriteFile(f.call, call, 0o600); err != nil {
		return f, err
	}
	var urls strings.Builder
	for i := range keys {
		fmt.Fprintf(&urls, "/rate/user-%07d\n", i)
	}
	return f, os.WriteFile(f.keys, []byte(urls.String()), 0o600)
}

func (s *setting) loads(f files) []load {
	d := fmt.Sprint(s.seconds)
	h2 := func(conns, streams string, more ...string) []string {
		return append([]string{"h2load", "-t1", "-D", d, "-c" + conns, "-m" + streams}, more...)
	}
	one, many := "URL/rate/x", []string{"-B", "URL", "-i", f.keys}
	call := []string{"-d", f.call, "-H", "content-type: application/grpc", "-H", "te: trailers", "URL/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"}
	resp := func(pipeline, n int) []string {
		return []string{"redis-benchmark", "-h", "HOST", "-p", "PORT", "-c", "100", "-P", fmt.Sprint(pipeline), "-n", fmt.Sprint(n * s.seconds), "-r", fmt.Sprint(keys), "-q",
			"CL.THROTTLE", "user-__rand_int__", "100000000", "100000000", "60"}
	}
	return []load{
		{name: "HTTP/2, c10 m100", args: h2("10", "100", one), floor: netHTTP, batch: 1, gocc: 83.0 / 61.5, latency: true},
		{name: "HTTP/2, c100 m100, 10,000 keys", args: h2("100", "100", many...), floor: netHTTP, batch: 1, gocc: 35.35 / 20.68},
		{name: "HTTP/2, c100 m1", args: h2("100", "1", one), floor: netHTTP, batch: 1, gocc: 116.2 / 86.3, latency: true},
		{name: "HTTP/2, batches of 100", args: h2("10", "1", "-d", f.batch, "-H", "content-type: application/json", "URL/rate"), floor: netHTTP, batch: batchSize},
		{name: "gRPC, c10 m100", check: allowed, args: h2("10", "100", call...), floor: grpcGo, batch: 1, latency: true},
		{name: "gRPC, c100 m1", check: allowed, args: h2("100", "1", call...), floor: grpcGo, batch: 1},
		{name: "gRPC at --grpc-listen, c10 m100", check: allowed, args: h2("10", "100", call...), floor: grpcGo, own: weirGRPC, batch: 1},
		{name: "HTTP/1.1, c100", args: []string{"wrk", "-t2", "-c100", "-d" + d + "s", one}, floor: netHTTP, batch: 1, gocc: 56.1 / 37.5},
		{name: "RESP, c100", args: resp(1, 50_000), own: weirRESP, batch: 1},
		{name: "RESP, c100, pipelines of 64", args: resp(64, 500_000), own: weirRESP, batch: 1},
	}
}

// done finds the number of requests that wrk and h2load print.
var done = regexp.MustCompile(`(\d+) requests in |, (\d+) succeeded`)

// wasRefused finds answers of wrk and h2load that are no success.
var wasRefused = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)|[1-9]\d* (?:failed|errored|timeout)|[1-9]\d* [345]xx`)

// A spent has the measurements of a turn.
type spent struct {
	micros float64 // CPU time of the server for a request
	rate   float64 // requests a second
}

// on returns what a turn of the load takes. If requests is not zero, h2load sends as many: when it ends after a time, it does not count
// requests that the server has got, and there can be as many as it answers in half a second.
func (l load) on(p server, requests int, more ...string) (spent, error) {
	args := append(l.args[:1:1], more...)
	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil {
		return spent{}, err
	}
	replace := strings.NewReplacer("URL", "http://"+p.Addr, "HOST", host, "PORT", port)
	for _, a := range l.args[1:] {
		args = append(args, replace.Replace(a))
	}
	if i := slices.Index(args, "-D"); i > 0 && requests > 0 {
		args[i], args[i+1] = "-n", strconv.Itoa(requests)
	}
	began := time.Now()
	before, err := p.CPU()
	if err != nil {
		return spent{}, err
	}
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return spent{}, fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	if bad := wasRefused.Find(out); bad != nil {
		return spent{}, fmt.Errorf("%v: %s\n%s", args, bad, out)
	}
	after, err := p.CPU()
	if err != nil {
		return spent{}, err
	}
	n, err := l.count(args, out)
	if err != nil {
		return spent{}, err
	}
	return spent{float64((after - before).Nanoseconds()) / 1e3 / float64(n), float64(n) / time.Since(began).Seconds()}, nil
}

// count returns the number of requests that a command has sent.
func (l load) count(args []string, out []byte) (n int, err error) {
	if args[0] == "redis-benchmark" {
		for i, a := range args {
			if a == "-n" {
				return strconv.Atoi(args[i+1])
			}
		}
	}
	if m := done.FindSubmatch(out); m != nil {
		n, _ = strconv.Atoi(string(m[1]) + string(m[2]))
	}
	if n == 0 {
		return 0, fmt.Errorf("%v: no number of requests, or none\n%s", args, out)
	}
	return n, nil
}
