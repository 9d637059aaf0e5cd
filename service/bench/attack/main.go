// Attack runs attacks against weir serve with each transport, and beside it against a bare net/http server,
// with legitimate traffic next to each: half of what the first server answers without an attack. It prints which share of the
// legitimate requests succeeded, how long they took, and the peak memory and the CPU
// of the server.
//
//	make build && cd service/bench && go run ./attack [-weir ../../bin/weir] [-each 30s] [-only REGEXP] [-nice 19] [-http2]
//
// Server, attacker and legitimate clients are processes of one machine. At -nice 19 the
// attacker gets the processor time that the others leave, so the table shows what the
// server does with what reaches it. At -nice 0 the attacker also takes processor time
// from the server: compare with net/http. The attackers come from 127.0.0.2 to
// 127.0.0.17, the others from 127.0.0.1, so it runs on Linux only. Each attack is bounded in time, connections
// and bytes.
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
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/service/bench/internal/process"
)

// A setting says how the attacks are run.
type setting struct {
	weir       string
	each       time.Duration  // of an attack, unless it has an amount
	load       float64        // share of the capacity of the first server that legitimate clients ask for
	http2      bool           // that legitimate clients speak
	transports []string       // of weir serve
	rate       int            // of legitimate requests a second; 0: by load
	nice       int            // of the attacker
	only       *regexp.Regexp // of the names of attacks
	memory     string         // of weir serve
}

func main() {
	var s setting
	bare := flag.String("bare", "", "serve net/http alone at this address; the tool starts itself so")
	attacker := flag.String("attacker", "", "run this attack against the address that is the argument; the tool starts itself so")
	flag.StringVar(&s.weir, "weir", "../../bin/weir", "the binary to attack")
	flag.DurationVar(&s.each, "each", 5*time.Second, "how long each attack takes; one with a fixed amount takes until it is done")
	flag.Float64Var(&s.load, "load", 0.5, "legitimate requests: this share of what the first server answers without an attack")
	flag.IntVar(&s.rate, "rate", 0, "legitimate requests a second, instead of -load")
	flag.IntVar(&s.nice, "nice", 19, "nice value of the attacker: 0 competes with the server for the processors")
	flag.StringVar(&s.memory, "memory", "64MiB", "the --memory of weir serve")
	flag.BoolVar(&s.http2, "http2", false, "legitimate clients speak HTTP/2")
	transports := flag.String("transports", "std,inline", "values of weir serve --transport, separated by commas")
	only := flag.String("only", "", "run only the attacks whose names match this regular expression")
	flag.Parse()
	s.transports = strings.Split(*transports, ",")
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		log.Fatalf("attack: -only: %v", err)
	}
	switch {
	case *bare != "":
		err = serveBare(*bare)
	case *attacker != "":
		err = attackFrom(*attacker, flag.Arg(0), os.Stdin, os.Stdout)
	default:
		err = s.run()
	}
	if err != nil {
		log.Fatal("attack: ", err)
	}
}

// run runs the attacks against both servers.
func (s setting) run() error {
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
	var targets []target
	for _, transport := range s.transports {
		targets = append(targets, target{"weir serve, " + transport, s.weir, true,
			[]string{"serve", "--rules", path, "--memory", s.memory, "--transport", transport, "--admin", "127.0.0.1:0", "--listen"}})
	}
	targets = append(targets, target{"net/http", self, false, []string{"-bare"}})
	fmt.Printf("%d processors; weir serve --memory %s; attackers at nice %d; a legitimate request succeeds if it is answered 200 within %v of the instant at which it is due\n\n",
		runtime.NumCPU(), s.memory, s.nice, patience)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "attack\tserver\tlegitimate\tsucceeded\twithin 1 s\tp50\tp99\tslowest\tpeak memory\tCPU\tfor each\tattacker")
	for _, a := range attacks {
		if !s.only.MatchString(a.name) {
			continue
		}
		for _, t := range targets {
			r, err := s.under(t, a, self)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", t.name, a.name, err)
			}
			s.rate = r.rate // of all that follow
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
	name  string
	path  string
	flags bool // an attack may add flags before the last
	args  []string
}

// maxAmount bounds the time of an attack with a fixed amount.
const maxAmount = 10 * time.Minute

// under attacks a new process of the target.
func (s setting) under(t target, a attack, self string) (result, error) {
	args := t.args
	if last := len(args) - 1; t.flags {
		args = slices.Insert(slices.Clone(args), last, a.flags...)
	}
	p, err := process.Start(t.path, args...)
	if err != nil {
		return result{}, err
	}
	defer p.Stop()
	l := newLegitimate("http://"+p.Addr, s.http2)
	l.capacity() // warms up
	r := result{rate: s.rate}
	if r.rate == 0 {
		r.rate = int(s.load * float64(l.capacity()))
	}
	if r.rate <= 0 {
		return result{}, fmt.Errorf("no capacity for legitimate requests")
	}

	each := s.each
	if a.amount {
		each = maxAmount
	}
	ctx, cancel := context.WithTimeout(context.Background(), each)
	defer cancel()
	attacker, err := startAttacker(self, s.nice, a.name, p.Addr)
	if err != nil {
		return result{}, err
	}
	defer attacker.stop()
	go func() {
		<-attacker.done // early if the attack has an amount
		cancel()
	}()
	before, err := p.CPU()
	if err != nil {
		return result{}, err
	}
	began := time.Now()
	l.send(ctx, &r)
	after, err := p.CPU()
	if err != nil {
		return result{}, err
	}
	r.took = time.Since(began)
	r.cpu = (after - before).Seconds() / r.took.Seconds()
	if r.did, err = attacker.end(); err != nil {
		return result{}, err
	}
	r.peak, err = p.Peak()
	return r, err
}

// attackFrom runs an attack until it is done or in ends, and writes what it did.
func attackFrom(name, addr string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	for _, a := range attacks {
		if a.name == name {
			_, err := fmt.Fprintln(out, a.run(ctx, addr))
			return err
		}
	}
	return fmt.Errorf("there is no attack %q", name)
}

// rules has a hundred regular expressions that each unknown key is tested against.
func rules() string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - {name: pattern%d, regex: \"(a|b|ab)*[c-x]%d$\", rate: 10/s}\n", i, i)
	}
	b.WriteString(`  - {name: users, glob: "user:*", rate: 1000000/s}
  - {name: late, glob: "late:*", rate: 200/h, burst: 1, queue: 400}
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
