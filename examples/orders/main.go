// Orders is an HTTP service of three routes before a PostgreSQL, in front of which a limit that
// finds itself keeps the work at what the database can bear.
//
//	go run -C examples ./orders              # PostgreSQL, and the service at http://127.0.0.1:8000
//	go run -C examples ./orders -compare     # offers 2.6 times its capacity: without a limit, with fixed ones, with Auto
//
// It starts its own PostgreSQL, which ends with it, from the programs of the system
// (on Debian: apt-get install postgresql). docs/orders.md walks through overload. Start from
// service.go.
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
	"syscall"
	"time"
)

func main() {
	log.SetPrefix("orders: ")
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:8000", "`address` to serve on")
	compare := flag.Bool("compare", false, "overload the service with each kind of limit in turn, and print a table")
	var c config
	flag.StringVar(&c.limit, "limit", "auto", "the limit of each route, without -compare: none, fixed or auto")
	flag.IntVar(&c.fixed, "fixed", 5, "requests of a route in flight with -limit fixed")
	flag.StringVar(&c.cancel, "cancel", "grace", "what becomes of a query whose client leaves: it ends by itself within a second (grace), PostgreSQL cancels it (request), or its connection is closed (close)")
	flag.DurationVar(&c.query, "query", 40*time.Millisecond, "how long a query holds its connection")
	var x experiment
	flag.DurationVar(&x.warmUp, "warm-up", 10*time.Second, "with -compare, how long load comes before it is measured")
	flag.DurationVar(&x.duration, "duration", time.Minute, "with -compare, how long it is measured")
	flag.DurationVar(&x.patience, "patience", time.Second, "with -compare, how long clients wait")
	flag.Float64Var(&x.load, "load", 2.6, "with -compare, the offered queries as a multiple of the capacity")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("%q is no flag: -help lists them", flag.Arg(0))
	}
	if err := errors.Join(c.validate(), x.validate()); err != nil {
		log.Fatalf("%v: -help lists the flags", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, c, x, *listen, *compare); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends, or compares, on its own PostgreSQL.
func run(ctx context.Context, c config, x experiment, listen string, compare bool) (err error) {
	log.Print("starting PostgreSQL")
	db, err := startPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() {
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // a second one leaves no server behind
		err = errors.Join(err, db.stop())
	}()
	log.Printf("psql -h %s -U orders postgres", db.socket)
	if compare {
		_, err := x.run(ctx, db, c, os.Stdout)
		return err
	}
	return serve(ctx, db, c, listen)
}

// serve serves until ctx ends, and then answers the requests in flight.
func serve(ctx context.Context, db *postgres, c config, listen string) error {
	s, err := newService(ctx, db, c)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	h, err := s.handler(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -listen", err)
	}
	log.Printf("limit %s; try: curl http://%s/customers/17", c.limit, l.Addr())
	server := http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		done <- server.Shutdown(ctx)
	})
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-done
}
