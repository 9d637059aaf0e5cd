// Expensive protects a function that takes a second, in four levels: nothing, a
// cache, one call for all requests that wait, and a limit of calls.
//
//	go run -C examples ./expensive --level 3
//
// and, while it runs:
//
//	hey -n 4 -c 2 http://127.0.0.1:8088/calculate
//	for x in 1 2 3; do curl -i "http://127.0.0.1:8088/calculate?x=$x" & done; wait
//
// docs/expensive.md shows the effect of each level. Start from level 3.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/rate"
)

func main() {
	s := &service{log: log.New(os.Stderr, "", log.Ltime|log.Lmicroseconds)}
	listen := flag.String("listen", "127.0.0.1:8088", "`address` to serve GET /calculate?x=key on")
	flag.IntVar(&s.level, "level", 3, "0: no protection; 1: a cache; 2: and one call for all requests that wait; 3: and one call a second")
	flag.BoolVar(&s.limiterFirst, "limiter-first", false, "at level 3, limit requests before the cache, for comparison")
	flag.DurationVar(&s.ttl, "ttl", 10*time.Second, "how long a result is kept; 0 means for ever")
	flag.DurationVar(&s.work, "work", time.Second, "how long a call takes")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("expensive: %q is no flag: --help lists them", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt does not wait
	if err := s.run(ctx, *listen); err != nil {
		log.Fatal("expensive: ", err)
	}
}

// A service answers GET /calculate. handler sets lim and results.
type service struct {
	log          *log.Logger
	level        int
	limiterFirst bool
	ttl, work    time.Duration
	lim          *rate.Limiter
	results      *cache.Cache[string, string]
}

// run serves until ctx ends, and then answers the waiting requests.
func (s *service) run(ctx context.Context, listen string) error {
	h, err := s.handler()
	if err != nil {
		return fmt.Errorf("%w; --help lists the flags", err)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	s.log.Printf("level %d; try: hey -n 4 -c 2 http://%s/calculate", s.level, l.Addr())
	server := http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	context.AfterFunc(ctx, func() { done <- server.Shutdown(context.Background()) })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-done
}

func (s *service) handler() (http.Handler, error) {
	if s.level < 0 || s.level > 3 || s.limiterFirst && s.level != 3 {
		return nil, fmt.Errorf("--level %d: must be from 0 to 3, and 3 for --limiter-first", s.level)
	}
	s.lim = rate.New(rate.Per(1, time.Second, 1), rate.Config{Queue: -1}) // without a queue
	cfg := cache.Config[string, string]{TTL: s.ttl, Entries: 1000}        // a bound, whatever keys clients send
	if s.level == 3 && !s.limiterFirst {
		cfg.Limiter = s.lim
	}
	var err error
	s.results, err = cache.New(cfg)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /calculate", s.serve)
	return mux, err
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	x := r.FormValue("x")
	if len(x) > 100 {
		http.Error(w, "x is longer than 100 bytes: ask for a shorter one", http.StatusBadRequest)
		return
	}
	result, from, err := s.lookup(r.Context(), x)
	w.Header().Set("X-Cache", from.String())
	if err != nil {
		if !errors.Is(err, weir.ErrRejected) {
			s.log.Printf("calculate %q failed: %v", x, err)
		}
		httplimit.Reject(w, r, err) // 429 and Retry-After, if it is the limiter's
		return
	}
	fmt.Fprintln(w, result)
}

// lookup returns the result for x, and where it comes from.
func (s *service) lookup(ctx context.Context, x string) (string, cache.Status, error) {
	if s.limiterFirst {
		if err := s.lim.Wait(ctx); err != nil {
			return "", cache.Failed, err
		}
	}
	if s.level >= 2 {
		return s.results.Lookup(ctx, x, s.calculate)
	}
	if result, ok := s.results.Peek(x); ok { // at level 1
		return result, cache.Hit, nil
	}
	result, err := s.calculate(ctx, x)
	if err == nil && s.level == 1 {
		s.results.Set(x, result)
	}
	return result, cache.Filled, err
}

// calculate is the expensive function. It heeds ctx, which ends at level 2 and 3
// when no request waits for the result any more.
func (s *service) calculate(ctx context.Context, x string) (string, error) {
	s.log.Printf("calculate %q", x)
	select {
	case <-time.After(s.work):
		return "done at " + time.Now().Format(time.StampMilli), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
