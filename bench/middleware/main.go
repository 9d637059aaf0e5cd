// Middleware measures what httplimit costs a server: its CPU time for a request
// over real HTTP, beside that of the same server without it. Each variant is a
// process of its own; they take turns, so that a noisy machine is noisy for all.
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
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
)

// A variant is a server to measure, and the one that it is compared with.
type variant struct {
	name   string
	beside string
	serve  func() (http.Handler, error)
}

const bare, notFound = "a handler that does nothing", "net/http's 404"

func variants() []variant {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	behind := func(cfg httplimit.Config) func() (http.Handler, error) {
		return func() (http.Handler, error) {
			m, err := httplimit.New(cfg)
			if err != nil {
				return nil, err
			}
			return m.Handler(nothing), nil
		}
	}
	rule := func(q gcra.Quota) []httplimit.Rule {
		lim, err := keyed.New[netip.Addr](q, keyed.Config{})
		if err != nil {
			log.Fatal(err) // the zero Config is valid
		}
		return []httplimit.Rule{httplimit.PerKey("per-client", lim, httplimit.Address())}
	}
	none, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(0), Queue: -1})
	if err != nil {
		log.Fatal(err) // that Config is valid
	}
	plenty, spent := gcra.PerSecond(1e9, 1e9), gcra.Per(1, time.Hour, 1)
	return []variant{
		{bare, bare, func() (http.Handler, error) { return nothing, nil }},
		{"Auto", bare, behind(httplimit.Config{})},
		{"a rule for each address, without fields", bare, behind(httplimit.Config{Rules: rule(plenty), Fields: httplimit.FieldsNone})},
		{"a rule for each address", bare, behind(httplimit.Config{Rules: rule(plenty)})},
		{"a rule for each address, and Auto", bare, behind(httplimit.Config{Rules: rule(plenty), PerClass: httplimit.Auto})},
		{notFound, notFound, func() (http.Handler, error) { return http.NotFoundHandler(), nil }},
		{"refused by a limit", notFound, behind(httplimit.Config{Limiter: none})},
		{"refused by a rule, without fields", notFound, behind(httplimit.Config{Rules: rule(spent), Fields: httplimit.FieldsNone})},
		{"refused by a rule", notFound, behind(httplimit.Config{Rules: rule(spent)})},
	}
}

func main() {
	serve := flag.String("serve", "", "what a process of its own serves; not for people")
	rounds := flag.Int("rounds", 15, "turns of each variant")
	requests := flag.Int("requests", 20_000, "requests in a turn")
	connections := flag.Int("connections", 16, "connections that send them")
	flag.Parse()
	all := variants()
	if *serve != "" {
		i := slices.IndexFunc(all, func(v variant) bool { return v.name == *serve })
		if err := child(all[i]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *rounds < 1 || *requests < *connections || *connections < 1 {
		log.Fatal("middleware: want at least one round, one connection, and a request for each")
	}
	if err := measure(all, *rounds, *requests, *connections); err != nil {
		log.Fatal(err)
	}
}

// child serves a variant, says where, and for each line that comes in how much
// CPU time it has had.
func child(v variant) error {
	h, err := v.serve()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.Serve(l, h)) }()
	fmt.Println(l.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return err
		}
		fmt.Println(u.Utime.Nano() + u.Stime.Nano())
	}
	return nil
}

// A server is a child that runs.
type server struct {
	variant
	in    io.WriteCloser
	out   *bufio.Reader
	conns []*connection
	spent []float64 // µs for a request, of each round
}

func start(v variant, connections int) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "-serve", v.name)
	cmd.Stderr = os.Stderr
	s := &server{variant: v}
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var addr string
	if _, err := fmt.Fscanln(s.out, &addr); err != nil {
		return nil, err
	}
	for range connections {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		s.conns = append(s.conns, &connection{c, bufio.NewReader(c)})
	}
	return s, nil
}

// cpu is the time that the server has had so far, in ns.
func (s *server) cpu() (ns float64, err error) {
	if _, err = fmt.Fprintln(s.in); err == nil {
		_, err = fmt.Fscanln(s.out, &ns)
	}
	return ns, err
}

// round sends requests, and notes what they cost.
func (s *server) round(requests int) error {
	before, err := s.cpu()
	if err != nil {
		return err
	}
	each := requests / len(s.conns)
	errs := make([]error, len(s.conns))
	var done sync.WaitGroup
	for i, c := range s.conns {
		done.Go(func() {
			for range each {
				if errs[i] = c.ask(); errs[i] != nil {
					return
				}
			}
		})
	}
	done.Wait()
	after, err := s.cpu()
	for _, e := range append(errs, err) {
		if e != nil {
			return e
		}
	}
	s.spent = append(s.spent, (after-before)/1e3/float64(each*len(s.conns)))
	return nil
}

type connection struct {
	net.Conn
	in *bufio.Reader
}

func (c *connection) ask() error {
	if _, err := io.WriteString(c, "GET /x HTTP/1.1\r\nHost: localhost\r\nUser-Agent: middleware\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func measure(all []variant, rounds, requests, connections int) error {
	var servers []*server
	for _, v := range all {
		s, err := start(v, connections)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		servers = append(servers, s)
		if err := s.round(requests); err != nil { // to warm up
			return fmt.Errorf("%s: %w", v.name, err)
		}
		s.spent = nil
	}
	for i := range rounds {
		fmt.Fprintf(os.Stderr, "\rround %d of %d", i+1, rounds)
		for j := range servers { // another begins each time
			s := servers[(i+j)%len(servers)]
			if err := s.round(requests); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
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
		mid, least := median(s.spent), quiet(s.spent)
		fmt.Printf("| %s | %.2f | %.2f | %s | %.3f | %.3f |\n", s.name, mid, least, s.beside, mid/median(base.spent), least/quiet(base.spent))
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

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
