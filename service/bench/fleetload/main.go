// Fleetload measures what leaves cost their upstream: it starts weir serve, and leaves in this
// process, each of which decides about each of its keys once a second. It prints the processor time,
// the exchanges, the reports and the bytes of weir serve in the steady state.
//
//	make build && cd service/bench && go run ./fleetload [-weir ../../bin/weir] [-leaves 20] [-keys 100000]
//
// The server and the leaves are processes of one machine, so only the processor time of the server
// means something, not the latencies. It runs on Linux only, on loopback, and for -settle and -measure
// and one time to live.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"
)

// A setting says how the upstream is loaded.
type setting struct {
	weir    string
	leaves  int
	keys    int // of each leaf; all leaves have the same
	hot     int // of these: contended
	ttl     time.Duration
	settle  time.Duration
	measure time.Duration
	profile string // file for it
	random  bool
}

func main() {
	var s setting
	flag.StringVar(&s.weir, "weir", "../../bin/weir", "the binary that is the upstream")
	flag.IntVar(&s.leaves, "leaves", 20, "leaves")
	flag.IntVar(&s.keys, "keys", 100_000, "keys of each leaf")
	flag.IntVar(&s.hot, "hot", 10, "keys of which more is wanted than there is, so that leaves exchange each second")
	flag.DurationVar(&s.ttl, "ttl", 30*time.Second, "time to live of assignments")
	flag.DurationVar(&s.settle, "settle", 2*time.Minute, "time from the first exchange to the measurement; calm keys are reported again after 6 to 12 times to live")
	flag.DurationVar(&s.measure, "measure", 2*time.Minute, "time of the measurement")
	flag.StringVar(&s.profile, "profile", "", "file for a CPU profile of the upstream while it is measured")
	flag.BoolVar(&s.random, "random", false, "decide about keys at random, each once a second on average")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.run(ctx); err != nil {
		log.Fatal(err)
	}
}

func (s *setting) run(ctx context.Context) error {
	up, err := startUpstream(s)
	if err != nil {
		return err
	}
	defer up.stop()
	if !sleep(ctx, s.ttl+time.Second) { // it learns
		return ctx.Err()
	}
	all, err := startLeaves(ctx, s, "http://"+up.Addr)
	if err != nil {
		return err
	}
	defer all.stop()
	if !sleep(ctx, s.settle) {
		return ctx.Err()
	}
	before, err := up.usage(all)
	if err != nil {
		return err
	}
	profiled := up.profile(s)
	if !sleep(ctx, s.measure) {
		return ctx.Err()
	}
	after, err := up.usage(all)
	if err != nil {
		return err
	}
	if err := <-profiled; err != nil {
		return err
	}
	return s.print(before, after)
}

// print prints what was used in between.
func (s *setting) print(before, after usage) error {
	d := after.at.Sub(before.at).Seconds()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "leaves\tkeys\tdecisions/s\tCPU %\texchanges/s\treports/s\tkB/s in\tkB/s out\tus/report\tRSS MB\tassigned\tfailed\t")
	cpu, reports := (after.cpu - before.cpu).Seconds(), float64(after.reports-before.reports)
	fmt.Fprintf(w, "%d\t%d\t%.0f\t%.2f\t%.1f\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%d\t%d\t\n", s.leaves, s.keys,
		float64(after.decisions-before.decisions)/d, 100*cpu/d, float64(after.exchanges-before.exchanges)/d, reports/d,
		float64(after.read-before.read)/d/1e3, float64(after.written-before.written)/d/1e3, 1e6*cpu/max(reports, 1),
		float64(after.resident)/1e6, after.assigned, after.failed-before.failed)
	return w.Flush()
}

// sleep reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
