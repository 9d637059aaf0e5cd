// Serve measures what a decision of weir serve costs over its protocols: CPU time of the
// server for each request, under h2load (HTTP/2 and gRPC), wrk (HTTP/1.1) and
// redis-benchmark (RESP), for each transport of weir serve, beside net/http and grpc-go
// with a handler that answers as much without a decision. It measures the latency at half
// load, and what a million keys weigh, too. The servers take turns, so that a noisy machine is noisy for all.
//
//	make build && go build -C service/bench -o ../../bin/grpcfloor ./grpcfloor
//	cd service/bench && go run ./serve [-only REGEXP] [-rounds n] [-seconds n]
//
// GoCC cannot be fetched as a module, so its figures come from another
// measurement, as multiples of the same floor: there it was built from its sources,
// allowed all (-m 1000000), and took turns with the floor.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
)

// A setting says what is measured, and how long.
type setting struct {
	weir       string
	grpcFloor  string
	transports []string       // of weir serve
	only       *regexp.Regexp // of the names of measurements
	rounds     int
	seconds    int
	profile    bool   // instead of costs and latencies
	pgo        string // the file for a merged profile, instead of costs and latencies; empty: none
	picture    string // the file of a picture of the costs; empty: none
	dir        string // of temporary files
}

func main() {
	var s setting
	floor := flag.String("floor", "", "serve the floor at this address; not for people")
	flag.StringVar(&s.weir, "weir", "../../bin/weir", "the binary to measure")
	flag.StringVar(&s.grpcFloor, "grpcfloor", "../../bin/grpcfloor", "the binary of service/bench/grpcfloor")
	transports := flag.String("transports", "std,inline", "values of weir serve --transport, separated by commas")
	only := flag.String("only", "", "measure only what has a name that matches this regular expression")
	flag.IntVar(&s.rounds, "rounds", 3, "turns of each server under each load")
	flag.IntVar(&s.seconds, "seconds", 3, "how long a turn takes")
	flag.BoolVar(&s.profile, "profile", false, "print what weir serve spends the time of a request on, instead of the rest")
	flag.StringVar(&s.pgo, "pgo", "", "write the profiles of weir serve under all loads, merged, to this file, for the compiler, instead of the rest")
	flag.StringVar(&s.picture, "picture", "", "write a picture of the costs to this file, as svg or png")
	flag.Parse()
	if *floor != "" {
		log.Fatal(serveFloor(*floor))
	}
	s.transports = strings.Split(*transports, ",")
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		log.Fatalf("serve: -only: %v", err)
	}
	if err := s.run(); err != nil {
		log.Fatal("serve: ", err)
	}
}

func (s *setting) run() (err error) {
	if s.rounds < 1 || s.seconds < 1 {
		return errors.New("want at least one round of a second")
	}
	if s.dir, err = os.MkdirTemp("", "weir-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	files, err := writeFiles(s.dir)
	if err != nil {
		return err
	}
	servers, err := s.start()
	if err != nil {
		return err
	}
	defer servers.stop()
	switch {
	case s.pgo != "":
		return s.mergeProfiles(servers, files)
	case s.profile:
		return s.profiles(servers, files)
	}
	rates, err := s.costs(servers, files)
	if err != nil {
		return err
	}
	if err := s.latencies(servers, files, rates); err != nil {
		return err
	}
	if !s.only.MatchString("a million keys") {
		return nil
	}
	return weigh(s.weir)
}

// row prints a name and the columns of a table.
func row(name string, columns []string) {
	fmt.Printf("%-36s", name)
	for _, c := range columns {
		fmt.Printf(" %12s", c)
	}
	fmt.Println()
}
