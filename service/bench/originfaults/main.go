// Program originfaults measures how many requests proxies serve while origins fail: weir proxy, nginx, HAProxy and Envoy, each
// before three origins of its own, at the same time. It prints the table of docs/origins.md.
//
//	make build && cd service/bench && go run ./originfaults
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// patience is how long a client waits.
const patience = 5 * time.Second

func main() {
	weir := flag.String("weir", "../../bin/weir", "the binary of weir")
	envoy := flag.String("envoy", process.Envoy(), "the binary of Envoy")
	only := flag.String("only", "", "only the faults whose names contain this text")
	flag.Parse()
	if err := run(*weir, *envoy, *only); err != nil {
		log.Fatal(err)
	}
}

func run(weir, envoy, only string) error {
	dir, err := os.MkdirTemp("", "originfaults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var proxies []contender
	for _, c := range contenders(weir, envoy, dir) {
		if _, err := exec.LookPath(c.binary); err != nil {
			log.Printf("%s is left out: %v", c.name, err)
			continue
		}
		proxies = append(proxies, c)
	}
	fmt.Print("| fault |")
	for _, c := range proxies {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Println("\n|---|" + strings.Repeat("---|", len(proxies)))
	for _, f := range faults {
		if !strings.Contains(f.name, only) {
			continue
		}
		cells, err := f.measure(proxies)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %s |\n", f.name, strings.Join(cells, " | "))
	}
	return nil
}

// An origin has workers that take 50 ms for a request, unless it is slow.
type origin struct {
	addr    string
	workers chan struct{}
	takes   time.Duration

	mu    sync.Mutex // guards the fields below
	srv   *http.Server
	thaw  chan struct{} // closed when it goes on; nil: it does not hang
	ended chan struct{} // closed when it dies
}

func newOrigin(workers int, takes time.Duration) (*origin, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &origin{addr: ln.Addr().String(), workers: make(chan struct{}, workers), takes: takes}
	o.serve(ln)
	return o, nil
}

// ServeHTTP implements http.Handler. The work goes on if the client leaves.
func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	thaw, ended := o.thaw, o.ended
	o.mu.Unlock()
	if thaw != nil {
		select {
		case <-thaw:
		case <-ended:
			return
		}
	}
	if r.URL.Path == "/healthz" {
		return
	}
	select {
	case o.workers <- struct{}{}:
	case <-ended:
		return
	}
	time.Sleep(o.takes)
	<-o.workers
	_, _ = io.WriteString(w, "ok\n")
}

func (o *origin) serve(ln net.Listener) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.srv, o.ended = &http.Server{Handler: o}, make(chan struct{})
	go func(srv *http.Server) { _ = srv.Serve(ln) }(o.srv)
}

// kill closes all connections, and refuses others.
func (o *origin) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.srv.Close()
	close(o.ended)
}

func (o *origin) hang() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.thaw = make(chan struct{})
}

func (o *origin) goOn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.thaw)
	o.thaw = nil
}

// A fault happens to three origins.
type fault struct {
	name string
	rate int // requests a second
	odd  struct {
		workers int // of the first origin; 0: 4
		takes   time.Duration
	}
	lasts   time.Duration
	begin   func(o []*origin)
	end     func(o []*origin) // nil: it does not end
	after   bool              // what counts is the time after the end
	restart bool              // begin takes all of lasts
}

var faults = []fault{
	{name: "rolling deploy", rate: 100, lasts: 18 * time.Second, restart: true, begin: func(o []*origin) {
		for _, one := range o {
			one.kill()
			time.Sleep(3 * time.Second)
			one.again()
			time.Sleep(3 * time.Second)
		}
	}},
	{name: "one dead", rate: 100, lasts: 20 * time.Second, begin: func(o []*origin) { o[0].kill() }, end: func(o []*origin) { o[0].again() }},
	{name: "one hanging", rate: 100, lasts: 20 * time.Second, begin: func(o []*origin) { o[0].hang() }, end: func(o []*origin) { o[0].goOn() }},
	{name: "two hanging", rate: 60, lasts: 20 * time.Second, begin: func(o []*origin) { o[0].hang(); o[1].hang() }, end: func(o []*origin) { o[0].goOn(); o[1].goOn() }},
	{name: "one dead, one hanging", rate: 60, lasts: 20 * time.Second, begin: func(o []*origin) { o[0].kill(); o[1].hang() }, end: func(o []*origin) { o[0].again(); o[1].goOn() }},
	{name: "all dead, and back", rate: 100, lasts: 10 * time.Second, after: true, begin: func(o []*origin) {
		for _, one := range o {
			one.kill()
		}
	}, end: func(o []*origin) {
		for _, one := range o {
			one.again()
		}
	}},
	{name: "one flapping", rate: 100, lasts: 24 * time.Second, restart: true, begin: func(o []*origin) {
		for range 6 {
			o[0].kill()
			time.Sleep(2 * time.Second)
			o[0].again()
			time.Sleep(2 * time.Second)
		}
	}},
	odd(fault{name: "one ten times slower", rate: 150, lasts: 20 * time.Second}, 4, 500*time.Millisecond),
	odd(fault{name: "one of half the size", rate: 180, lasts: 20 * time.Second}, 2, 50*time.Millisecond),
	odd(fault{name: "one of half the size, 1.5 times what all can serve", rate: 300, lasts: 20 * time.Second}, 2, 50*time.Millisecond),
}

func odd(f fault, workers int, takes time.Duration) fault {
	f.odd.workers, f.odd.takes = workers, takes
	return f
}

// again starts a dead origin.
func (o *origin) again() {
	var ln net.Listener
	var err error
	for range 50 { // a connection can have its port meanwhile
		if ln, err = net.Listen("tcp", o.addr); err == nil {
			o.serve(ln)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	log.Fatal(err)
}

// measure returns a cell for each proxy.
func (f *fault) measure(proxies []contender) ([]string, error) {
	cells := make([]string, len(proxies))
	failed := make([]error, len(proxies))
	var all sync.WaitGroup
	for i := range proxies {
		all.Go(func() { cells[i], failed[i] = f.one(&proxies[i]) })
	}
	all.Wait()
	for i, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", f.name, proxies[i].name, err)
		}
	}
	return cells, nil
}

const (
	warm    = 8 * time.Second // before the fault
	settles = 3 * time.Second // after it begins, or ends
	rest    = 8 * time.Second // after its end
)

// one measures a proxy: the share of the requests that are served from settles after the fault on, and how many fail in all.
func (f *fault) one(c *contender) (string, error) {
	var origins []*origin
	for i := range 3 {
		workers, takes := 4, 50*time.Millisecond
		if i == 0 && f.odd.workers > 0 {
			workers, takes = f.odd.workers, f.odd.takes
		}
		o, err := newOrigin(workers, takes)
		if err != nil {
			return "", err
		}
		defer o.kill()
		origins = append(origins, o)
	}
	p, err := c.start(origins)
	if err != nil {
		return "", err
	}
	defer p.Stop()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
	ctx, stop := context.WithCancel(context.Background())
	var good, sent, bad atomic.Int64
	var counts atomic.Bool
	var clients sync.WaitGroup
	clients.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(f.rate))
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			counted := counts.Load()
			clients.Go(func() {
				ok := get(client, p.Addr)
				if counted {
					sent.Add(1)
				}
				switch {
				case !ok:
					bad.Add(1)
				case counted:
					good.Add(1)
				}
			})
		}
	})
	time.Sleep(warm)
	bad.Store(0)
	began := time.Now()
	switch {
	case f.restart:
		counts.Store(true)
		f.begin(origins)
	case f.begin != nil:
		f.begin(origins)
		time.Sleep(settles)
		counts.Store(!f.after)
	default:
		counts.Store(true)
	}
	time.Sleep(f.lasts - time.Since(began))
	if !f.after {
		counts.Store(false)
	}
	if f.end != nil {
		f.end(origins)
		time.Sleep(settles)
		counts.Store(f.after)
		time.Sleep(rest - settles)
	}
	stop()
	clients.Wait()
	return fmt.Sprintf("%.1f %%, %d", 100*float64(good.Load())/float64(sent.Load()), bad.Load()), nil
}

// get reports whether a request is served.
func get(client *http.Client, addr string) bool {
	resp, err := client.Get("http://" + addr + "/")
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err == nil && resp.StatusCode == http.StatusOK
}

// split returns the host and the port of an address.
func split(addr string) (host, port string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		log.Fatal(err)
	}
	return host, port
}

func path(dir, name string, o []*origin) string {
	return filepath.Join(dir, name+"-"+strings.ReplaceAll(o[0].addr, ":", "-"))
}
