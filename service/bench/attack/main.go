// Attack runs attacks against weir serve, and beside it against a bare net/http server,
// with legitimate traffic at half load next to each. It prints which share of the
// legitimate requests succeeded, and the peak memory and the CPU of the server.
//
//	make build && cd service/bench && go run ./attack [-weir ../../bin/weir] [-seconds n] [-only name]
//
// Servers, attackers and legitimate clients share the machine, so that attackers delay
// requests by the CPU time that they themselves take: compare with net/http. The attackers come from
// 127.0.0.2, the others from 127.0.0.1, so it runs on Linux only. Each attack is bounded
// in time, connections and bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	bare := flag.String("bare", "", "serve net/http alone at this address; not for people")
	weir := flag.String("weir", "../../bin/weir", "the binary to attack")
	seconds := flag.Int("seconds", 5, "how long each attack takes")
	only := flag.String("only", "", "run only the attacks with this text in their name")
	flag.Parse()
	if *bare != "" {
		log.Fatal(serveBare(*bare))
	}
	if err := run(*weir, time.Duration(*seconds)*time.Second, *only); err != nil {
		log.Fatal("attack: ", err)
	}
}

// run runs all attacks against both servers.
func run(weir string, d time.Duration, only string) error {
	dir, err := os.MkdirTemp("", "weir-attack")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(path, []byte(rules()), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	targets := []target{
		{"weir serve", weir, []string{"serve", "--rules", path, "--admin", "127.0.0.1:0", "--listen"}},
		{"net/http", self, []string{"-bare"}},
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "attack\tserver\tlegitimate, a second\tsucceeded\twithin 1 s\tslowest\tpeak memory\tCPU\tattacker did")
	for _, a := range attacks {
		if !strings.Contains(a.name, only) {
			continue
		}
		for _, t := range targets {
			r, err := t.under(a, d)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, a.name, err)
			}
			fmt.Fprintf(out, "%s\t%s\t%s\n", a.name, t.name, r)
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// A target is a server to attack. Its last argument is an address to listen on.
type target struct {
	name string
	path string
	args []string
}

// A result has the measurements of a target under an attack.
type result struct {
	rate     int // of legitimate requests
	sent, ok int
	prompt   int // of ok: answered within a second of the instant at which they were due
	failures map[string]int
	slowest  time.Duration
	peak     int64
	cpu      float64
	did      int64
}

func (r result) String() string {
	s := fmt.Sprintf("%d\t%.2f %%\t%.0f %%\t%v\t%d MiB\t%.0f %%\t%d", r.rate,
		100*float64(r.ok)/float64(max(r.sent, 1)), 100*float64(r.prompt)/float64(max(r.sent, 1)),
		r.slowest.Round(time.Millisecond), r.peak>>20, 100*r.cpu, r.did)
	if len(r.failures) > 0 {
		s += fmt.Sprint(" ", r.failures)
	}
	return s
}

// under attacks a new process of the target.
func (t target) under(a attack, d time.Duration) (result, error) {
	p, err := start(t.path, t.args...)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	l := newLegitimate("http://" + p.addr)
	r := result{rate: l.capacity() / 2}

	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	done := make(chan int64)
	go func() { done <- a.run(ctx, p.addr) }()
	before, err := p.cpu()
	if err != nil {
		return result{}, err
	}
	began := time.Now()
	l.send(ctx, r.rate, &r)
	after, err := p.cpu()
	if err != nil {
		return result{}, err
	}
	r.cpu = (after - before).Seconds() / time.Since(began).Seconds()
	r.did = <-done
	r.peak, err = p.peak()
	return r, err
}

// rules has a hundred regular expressions that each unknown key is tested against.
func rules() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - {name: pattern%d, regex: \"(a|b|ab)*[c-x]%d$\", rate: 10/s}\n", i, i)
	}
	b.WriteString(`  - {name: users, glob: "user:*", rate: 1000000/s}
  - {name: late, glob: "late:*", rate: 1/h, queue: 400}
  - {name: jobs, glob: "job:*", concurrency: {limit: 1000, ttl: 30s}}
  - {name: rest, glob: "*", rate: 10/m}
`)
	return b.String()
}

// serveBare serves net/http with a handler that reads what it gets, and waits where
// weir serve would.
func serveBare(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Protocols: new(http.Protocols), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var buf [4 << 10]byte
			for {
				if _, err := r.Body.Read(buf[:]); err != nil {
					break
				}
			}
			if r.URL.Query().Get("canWait") != "" {
				<-r.Context().Done()
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"request_id":"00000000-0000-8000-8000-000000000000","lease_id":"x"}` + "\n"))
		}),
	}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	return srv.Serve(ln)
}
