// Proxycpu measures the processor time that a reverse proxy takes for a request: weir proxy,
// beside it the bare httputil.ReverseProxy of net/http with the same transport and the same
// bounds of its server, and Envoy, HAProxy, Caddy and nginx. All stand in front of the same origin. weir proxy collects
// garbage less often than Go's default (package heapfloor), so the ReverseProxy has a row with
// that, too: the limit costs the rest of the difference.
//
//	make build && cd service/bench && go run ./proxycpu [-weir ../../bin/weir] [-each 500ms] [-rounds 15] [-only REGEXP] [-proxies REGEXP]
//
// With --limit 1000, no request waits. By default, the limit finds itself, and requests wait in
// the proxy: the origin answers within microseconds, so more in flight add little.
//
// It needs h2load. A proxy that is not there is left out; go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.10.2
// is for Caddy, make need for the others. The proxies take turns, in a random order in each round, and each is
// a separate process. The table has medians of the rounds: of the processor time, and of its
// ratio to that of the bare ReverseProxy in the same round, with the quartiles of that ratio. Such
// a ratio holds on a machine with other work, if there are many rounds; a rate does not.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/service/bench/internal/process"
	"github.com/weir-go/weir/service/bench/internal/stat"
	"github.com/weir-go/weir/service/internal/heapfloor"
)

// A setting says how the proxies are measured.
type setting struct {
	weir    string
	beside  string // another binary of weir; "" for none
	envoy   string
	each    time.Duration // of a run
	rounds  int
	clients int
	only    *regexp.Regexp // of the names of cases
	proxies *regexp.Regexp // of the names of proxies
}

func main() {
	var s setting
	serve := flag.String("serve", "", "serve as origin, bare or heapfloor at the address that is the last argument; the tool starts itself so")
	flag.StringVar(&s.weir, "weir", "../../bin/weir", "the binary to measure")
	flag.DurationVar(&s.each, "each", 500*time.Millisecond, "how long a run takes")
	flag.IntVar(&s.rounds, "rounds", 15, "runs of each proxy in each case")
	flag.IntVar(&s.clients, "clients", 32, "connections, or streams over HTTP/2")
	only := flag.String("only", "", "run only the cases whose names match this regular expression")
	proxies := flag.String("proxies", "", "run only the proxies whose names match this regular expression, beside the ReverseProxy")
	more := flag.String("beside", "", "a second binary of weir to measure, such as one of another commit")
	envoy := flag.String("envoy", process.Envoy(), "the binary of Envoy")
	flag.Parse()
	s.beside, s.envoy = *more, *envoy
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		log.Fatalf("proxycpu: -only: %v", err)
	}
	if s.proxies, err = regexp.Compile(*proxies); err != nil {
		log.Fatalf("proxycpu: -proxies: %v", err)
	}
	switch *serve {
	case "origin":
		err = serveOrigin(flag.Arg(0))
	case "bare":
		err = serveBare(flag.Args())
	case "heapfloor":
		go heapfloor.Keep(context.Background())
		err = serveBare(flag.Args())
	case "":
		err = s.run()
	default:
		err = fmt.Errorf("-serve %q: must be origin, bare or heapfloor", *serve)
	}
	if err != nil {
		log.Fatal("proxycpu: ", err)
	}
}

// A load describes the requests of a case.
type load struct {
	name string
	tls  bool
	args []string // of h2load
	path string
}

var loads = []load{
	{"HTTP/1.1", false, []string{"--h1"}, "/small"},
	{"HTTP/1.1, 64 KiB answers", false, []string{"--h1"}, "/large"},
	{"HTTP/1.1 over TLS", true, []string{"--h1"}, "/small"},
	{"HTTP/2 over TLS", true, nil, "/small"},
}

// run measures all cases.
func (s setting) run() error {
	dir, err := os.MkdirTemp("", "weir-proxycpu")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	origin, err := process.Start(self, "-serve", "origin")
	if err != nil {
		return err
	}
	defer origin.Stop()
	if err := writeCertificate(dir); err != nil {
		return err
	}
	var proxies []proxy
	for i, p := range []proxy{
		{"net/http ReverseProxy", self, bare("bare", self, dir, origin.Addr)},
		{"the same, with heapfloor", self, bare("heapfloor", self, dir, origin.Addr)},
		{"weir proxy --limit 1000", s.weir, weirProxy(s.weir, dir, origin.Addr, "--limit", "1000")},
		{"weir proxy", s.weir, weirProxy(s.weir, dir, origin.Addr)},
		{"weir proxy of -beside, --limit 1000", s.beside, weirProxy(s.beside, dir, origin.Addr, "--limit", "1000")},
		{"weir proxy of -beside", s.beside, weirProxy(s.beside, dir, origin.Addr)},
		{"Envoy", s.envoy, envoy(s.envoy, dir, origin.Addr)},
		{"HAProxy", "haproxy", haproxy(dir, origin.Addr)},
		{"Caddy", "caddy", caddy(dir, origin.Addr)},
		{"nginx", "nginx", nginx(dir, origin.Addr)},
	} {
		if p.binary == "" || i > 0 && !s.proxies.MatchString(p.name) {
			continue
		}
		if _, err := exec.LookPath(p.binary); err != nil {
			log.Printf("%s is left out: %v", p.name, err)
			continue
		}
		proxies = append(proxies, p)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "case\tproxy\tCPU per request\tratio (quartiles)\trequests/s\tfailed")
	matching := slices.DeleteFunc(slices.Clone(loads), func(l load) bool { return !s.only.MatchString(l.name) })
	if len(matching) == 0 {
		return fmt.Errorf("-only %v: matches none of the cases, such as %q", s.only, loads[0].name)
	}
	for _, l := range matching {
		if err := s.compare(out, l, proxies); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return out.Flush()
}

// A proxy starts a process that serves at a free address, with TLS or without.
type proxy struct {
	name   string
	binary string // "" for none
	start  func(tls bool) (*process.Process, error)
}

// compare measures all proxies under one load, in turns.
func (s setting) compare(out *tabwriter.Writer, l load, proxies []proxy) error {
	running := make([]*process.Process, len(proxies))
	for i, p := range proxies {
		var err error
		if running[i], err = p.start(l.tls); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		defer running[i].Stop()
		if _, err := s.measure(running[i], l, s.each/3); err != nil { // warms up
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	results := make([][]result, len(proxies))
	for range s.rounds {
		for _, i := range rand.Perm(len(proxies)) {
			r, err := s.measure(running[i], l, s.each)
			if err != nil {
				return fmt.Errorf("%s: %w", proxies[i].name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	for i, rs := range results {
		var costs, ratios, rates []float64
		failed := 0
		for round, r := range rs {
			costs = append(costs, micros(r.cost))
			ratios = append(ratios, float64(r.cost)/float64(results[0][round].cost))
			rates = append(rates, r.rate)
			failed += r.failed
		}
		fmt.Fprintf(out, "%s\t%s\t%.1f µs\t%.2f (%.2f to %.2f)\t%.0f\t%d\n", l.name, proxies[i].name,
			stat.Median(costs), stat.Median(ratios), stat.Quantile(ratios, 0.25), stat.Quantile(ratios, 0.75), stat.Median(rates), failed)
	}
	return out.Flush()
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func certificatePaths(dir string) (cert, key string) {
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}
