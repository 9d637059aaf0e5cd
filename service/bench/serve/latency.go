package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/bench/internal/stat"
)

// latencies prints quantiles of the latency of each server, while each has half of the load that the floor
// can answer. rates has what that is.
func (s *setting) latencies(all servers, f files, rates map[string]float64) error {
	for _, l := range s.loads(f) {
		if !l.latency || rates[l.name] == 0 {
			continue
		}
		conns := l.connections()
		each := max(int(rates[l.name]/2)/conns, 1)
		quantiles := map[string][2][]float64{}
		for range s.rounds {
			for _, name := range s.servers(l) {
				q, err := s.latency(l, all[name], each)
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				all := quantiles[name]
				quantiles[name] = [2][]float64{append(all[0], q[0]), append(all[1], q[1])}
			}
		}
		row(fmt.Sprintf("%s, %d a second", l.name, each*conns), s.servers(l))
		for i, q := range []string{"p50", "p99"} {
			var columns []string
			for _, name := range s.servers(l) {
				columns = append(columns, fmt.Sprintf("%.2f ms", stat.Median(quantiles[name][i])))
			}
			row("  "+q, columns)
		}
	}
	fmt.Println()
	return nil
}

// connections returns the number of connections of h2load.
func (l load) connections() (n int) {
	for _, a := range l.args {
		if c, ok := strings.CutPrefix(a, "-c"); ok && n == 0 {
			n, _ = strconv.Atoi(c)
		}
	}
	return n
}

// latency returns the median and the 99th percentile of the time for an answer, in ms, when each connection
// sends a number of requests a second.
func (s *setting) latency(l load, p server, each int) (q [2]float64, err error) {
	path := filepath.Join(s.dir, "log")
	defer os.Remove(path)
	if _, err := l.on(p, each*l.connections()*s.seconds, "--rps="+fmt.Sprint(each), "--log-file="+path); err != nil {
		return q, err
	}
	file, err := os.Open(path)
	if err != nil {
		return q, err
	}
	defer file.Close()
	var took []int
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var start, status, micros int
		if _, err := fmt.Sscan(lines.Text(), &start, &status, &micros); err != nil {
			return q, fmt.Errorf("%s: %q: %w", l.args[0], lines.Text(), err)
		}
		took = append(took, micros)
	}
	if len(took) == 0 {
		return q, fmt.Errorf("%v: no requests", l.args)
	}
	slices.Sort(took)
	at := func(share float64) float64 { return float64(took[int(share*float64(len(took)-1))]) / 1e3 }
	return [2]float64{at(0.5), at(0.99)}, nil
}
