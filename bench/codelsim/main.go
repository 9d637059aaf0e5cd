// Codelsim runs the simulation of github.com/bohde/codel (its cmd/sim) in real
// time: requests come independently of each other, 1000 a second say, to a
// server that does one at a time, 500 a second say, in exponential times. In
// front of it, each contender admits some requests (ten, unless it finds the limit
// itself), lets up to 1000 wait, and rejects the rest. A caller waits to be
// admitted for a second.
//
//	go run ./codelsim
//	go run ./codelsim -only 1000/500 -runs 3
//
// All contenders have the same arrivals and service times, at the same time. The
// rates are exact, because one goroutine spins on the clock, which takes a CPU.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/weir-go/weir/bench/internal/stat"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("codelsim: ")
	seconds := flag.Int("seconds", 10, "length of a row, 1 to 600")
	only := flag.String("only", "", "run these rows, in/out, comma-separated, rather than the source's nine")
	runs := flag.Int("runs", 1, "times to run each row, of which to show the medians, 1 to 100")
	seed := flag.Uint64("seed", 1, "of arrivals and service times")
	flag.Parse()
	pairs, err := parsePairs(*only)
	if err != nil {
		log.Fatal(err)
	}
	if *seconds < 1 || *seconds > 600 || *runs < 1 || *runs > 100 {
		log.Fatal("want -seconds from 1 to 600 and -runs from 1 to 100")
	}
	if err := table(os.Stdout, pairs, time.Duration(*seconds)*time.Second, *runs, *seed, runtime.Gosched); err != nil {
		log.Fatal(err)
	}
}

// A pair is a row of the table: requests that come and that the server can
// do, each per second.
type pair struct{ in, out int }

// sources are the pairs of the source's program.
var sources = []pair{
	{1000, 1000}, {990, 1000}, {950, 1000}, {900, 1000},
	{1000, 900}, {1000, 750}, {1000, 500}, {1000, 250}, {1000, 100},
}

// fastest bounds a rate that is asked for: beyond it the clock's goroutine
// would be late.
const fastest = 5000

func parsePairs(list string) ([]pair, error) {
	if list == "" {
		return sources, nil
	}
	var pairs []pair
	for _, s := range strings.Split(list, ",") {
		var p pair
		var rest string
		n, _ := fmt.Sscanf(s+" .", "%d/%d %s", &p.in, &p.out, &rest)
		if n != 3 || rest != "." || p.in < 1 || p.in > fastest || p.out < 1 || p.out > fastest {
			return nil, fmt.Errorf("-only %q: want in/out, each from 1 to %d", s, fastest)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// table runs the rows, one after the other, and prints each when it is done.
func table(w io.Writer, pairs []pair, length time.Duration, runs int, seed uint64, rest func()) error {
	for _, p := range pairs {
		all := make([][]figures, len(contenders)) // of each contender, by run
		var late []float64
		for run := range runs {
			s := newScript(p, length, rand.New(rand.NewPCG(seed, uint64(run))))
			result, lag, err := play(s, rest)
			if err != nil {
				return err
			}
			for i, t := range result {
				all[i] = append(all[i], t.figures(s))
			}
			late = append(late, ms(quantile(lag, 0.99)))
		}
		fmt.Fprintf(w, "%d/%d, %v, runs: %d; 99 %% of requests came at most %.2f ms late\n",
			p.in, p.out, length, runs, stat.Median(late))
		fmt.Fprintf(w, "  %-15s", "")
		for _, h := range headings {
			fmt.Fprintf(w, "%10s", h)
		}
		fmt.Fprintln(w)
		for i, c := range contenders {
			fmt.Fprintf(w, "  %-15s", c.name)
			for _, v := range medians(all[i]) {
				digits := 1
				if v < 10 {
					digits = 2
				}
				fmt.Fprintf(w, "%10.*f", digits, v)
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}
