package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/table"
	"github.com/weir-go/weir/service/internal/throughput"
)

// serveBenchmark measures decisions instead of serving.
type serveBenchmark struct {
	Benchmark     bool          `help:"Measure how many decisions a second this process makes by the rules, without a network, over numbers of keys and goroutines. Print a table, and end."`
	BenchmarkTime time.Duration `least:"10ms" most:"1m" default:"500ms" placeholder:"TIME" help:"With --benchmark: how long each row is measured (${default})."`
}

// benchmark prints the table of --benchmark.
func (c *serveCmd) benchmark(ctx context.Context, out io.Writer) error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"--store", c.StoreURL != ""}, {"--upstream", c.UpstreamURL != ""}, {"--peers", len(c.PeerURLs) > 0}} {
		if f.given {
			return cli.Usagef("--benchmark and %s exclude each other: the benchmark measures decisions of this process", f.name)
		}
	}
	log, lines := logqueue.New(io.Discard, c.handler)
	defer lines.End()
	cfg := c.config(log).Server
	var err error
	if cfg.Rules, err = c.rules(); err != nil {
		return err
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	defer s.Close(true)
	rules := "no file, " + cfg.Rules.Rules[0].Rate.String() + " for each key"
	if path := c.Rules + c.ConfigFile; path != "" {
		rules = path
	}
	fmt.Fprintf(out, "%s %s/%s, GOMAXPROCS=%d, rules: %s\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), rules)
	rows := [][]string{{"goroutines", "keys", "decisions/s", "time of each", "allowed"}}
	for _, load := range throughput.Loads() {
		r, err := throughput.Measure(ctx, s, load, c.BenchmarkTime)
		if err != nil {
			return err
		}
		rows = append(rows, []string{
			fmt.Sprint(load.Goroutines), fmt.Sprint(load.Keys), table.Fixed(r.PerSecond(), 0), table.Duration(r.Each()), table.Percent(r.AllowedShare()),
		})
	}
	table.Write(out, rows)
	return nil
}
