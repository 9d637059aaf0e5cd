// Middleware measures what httplimit costs a server: its CPU time for a request
// over real HTTP, beside that of the same server without it. Each variant is a
// separate process; they take turns, so that a noisy machine is noisy for all.
//
//	go run ./middleware [-rounds n] [-requests n] [-connections n]
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir/bench/internal/process"
	"github.com/weir-go/weir/bench/internal/stat"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
)

// A variant is a server to measure, and the one that it is compared with.
type variant struct {
	name    string
	beside  string
	handler http.Handler
}

const bare, notFound = "a handler that does nothing", "net/http's 404"

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func variants() []variant {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	behind := func(cfg httplimit.Config) http.Handler { return must(httplimit.New(cfg)).Handler(nothing) }
	rule := func(q gcra.Quota) []httplimit.Rule {
		lim := must(keyed.New[netip.Addr](q, keyed.Config{}))
		return []httplimit.Rule{httplimit.PerKey("per-client", lim, httplimit.Address())}
	}
	none := must(inflight.New(inflight.Config{Algorithm: limit.Fixed(0), Queue: -1}))
	plenty, spent := gcra.PerSecond(1e9, 1e9), gcra.Per(1, time.Hour, 1)
	return []variant{
		{bare, bare, nothing},
		{"Auto", bare, behind(httplimit.Config{PerClass: httplimit.Auto})},
		{"a rule for each address, without fields", bare, behind(httplimit.Config{Rules: rule(plenty), Fields: httplimit.FieldsNone})},
		{"a rule for each address", bare, behind(httplimit.Config{Rules: rule(plenty)})},
		{"a rule for each address, and Auto", bare, behind(httplimit.Config{Rules: rule(plenty), PerClass: httplimit.Auto})},
		{notFound, notFound, http.NotFoundHandler()},
		{"refused by a limit", notFound, behind(httplimit.Config{Limiter: none})},
		{"refused by a rule, without fields", notFound, behind(httplimit.Config{Rules: rule(spent), Fields: httplimit.FieldsNone})},
		{"refused by a rule", notFound, behind(httplimit.Config{Rules: rule(spent)})},
	}
}

func main() {
	serve := flag.String("serve", "", "what a child process serves; not for people")
	rounds := flag.Int("rounds", 15, "turns of each variant")
	requests := flag.Int("requests", 20_000, "requests in a turn")
	connections := flag.Int("connections", 16, "connections that send them")
	flag.Parse()
	all := variants()
	if *serve != "" {
		i := slices.IndexFunc(all, func(v variant) bool { return v.name == *serve })
		log.Fatal(http.Serve(must(process.Listen()), all[i].handler))
	}
	if *rounds < 1 || *requests < *connections || *connections < 1 {
		log.Fatal("middleware: want at least one round, one connection, and a request for each")
	}
	if err := measure(all, *rounds, *requests, *connections); err != nil {
		log.Fatal(err)
	}
}

// A server is a child and its measurements.
type server struct {
	variant
	*process.Process
	conns []net.Conn
	spent []float64 // µs for a request, of each round
}

// round sends requests, and records their cost.
func (s *server) round(requests int) error {
	us, err := s.Cost(func() (int, error) {
		var senders errgroup.Group
		each := requests / len(s.conns)
		for _, c := range s.conns {
			senders.Go(func() error { return send(c, each) })
		}
		return each * len(s.conns), senders.Wait()
	})
	s.spent = append(s.spent, us)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// send sends requests, each after the answer of the last. It is cheaper than net/http,
// so that the server is not idle, which would cost it CPU time too.
func send(c net.Conn, requests int) error {
	in := bufio.NewReader(c)
	for range requests {
		if _, err := io.WriteString(c, "GET /x HTTP/1.1\r\nHost: localhost\r\nUser-Agent: middleware\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
	}
	return nil
}

func measure(all []variant, rounds, requests, connections int) error {
	var servers []*server
	for _, v := range all {
		p, err := process.StartSelf("-serve", v.name)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		defer p.Stop()
		s := &server{variant: v, Process: p}
		servers = append(servers, s)
		for range connections {
			c, err := net.Dial("tcp", p.Addr)
			if err != nil {
				return err
			}
			defer c.Close()
			s.conns = append(s.conns, c)
		}
		if err := s.round(requests); err != nil { // to warm up
			return err
		}
		s.spent = nil
	}
	for i := range rounds {
		fmt.Fprintf(os.Stderr, "\rround %d of %d", i+1, rounds)
		for j := range servers { // another begins each time
			s := servers[(i+j)%len(servers)]
			if err := s.round(requests); err != nil {
				return err
			}
		}
	}
	fmt.Fprint(os.Stderr, "\r\033[K")
	print(servers)
	return nil
}

// print prints the medians, the quietest tenth of the rounds, and the ratios of
// both.
func print(servers []*server) {
	fmt.Println("| server | CPU µs a request: median | quiet | beside | median | quiet |\n|---|---|---|---|---|---|")
	for _, s := range servers {
		base := servers[slices.IndexFunc(servers, func(b *server) bool { return b.name == s.beside })]
		mid, least := stat.Median(s.spent), quiet(s.spent)
		fmt.Printf("| %s | %.2f | %.2f | %s | %.3f | %.3f |\n",
			s.name, mid, least, s.beside, mid/stat.Median(base.spent), least/quiet(base.spent))
	}
}

// quiet is the mean of the least tenth.
func quiet(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	n := (len(x) + 9) / 10
	sum := 0.0
	for _, v := range x[:n] {
		sum += v
	}
	return sum / float64(n)
}
