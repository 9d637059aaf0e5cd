// Command hitratio plays traces through caches and prints their hit ratios, in
// percent, as a table in Markdown.
//
//	go run ./hitratio -trace zipf-1.0,loop -size 1000,10000
//
// Traces are synthetic and seeded. Every run prints the same, except for weir and
// otter, which choose random seeds (±0.5 for small caches), and ristretto, which drops
// what comes too fast. A request is a lookup, and an insertion if that finds nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// contenders are the columns.
var contenders = []struct {
	name string
	hits func(keys []uint64, size int) int
}{
	{"weir", playing(newWeir)},
	{"otter", playing(newOtter)},
	{"ristretto", playing(newRistretto)},
	{"LRU", playing(newLRU)},
	{"S3-FIFO", playing(newS3FIFO)},
	{"SIEVE", playing(newSieve)},
	{"OPT", optimum},
}

func main() {
	only := flag.String("trace", "", "play these `names` only, separated by commas")
	caches := flag.String("cache", "", "let these `names` only play")
	var sizes []int
	flag.Func("size", "sizes of caches, in `entries`, instead of each trace's own", func(list string) error {
		for s := range strings.SplitSeq(list, ",") {
			size, err := strconv.Atoi(s)
			if err != nil || size < 1 {
				return errors.New("must be numbers >= 1")
			}
			sizes = append(sizes, size)
		}
		return nil
	})
	n := flag.Int("n", 3_000_000, "length of a trace, in `requests`")
	seed := flag.Uint64("seed", 1, "seed of the traces")
	flag.Parse()
	run(os.Stdout, *only, *caches, sizes, *n, *seed)
}

func run(w io.Writer, only, caches string, sizes []int, n int, seed uint64) {
	chosen := contenders[:0:0]
	for _, c := range contenders {
		if in(caches, c.name) {
			chosen = append(chosen, c)
		}
	}
	fmt.Fprintf(w, "%d requests, seed %d\n\n| trace | size |", n, seed)
	for _, c := range chosen {
		fmt.Fprintf(w, " %s |", c.name)
	}
	fmt.Fprintf(w, "\n|---|---:|%s\n", strings.Repeat("---:|", len(chosen)))
	for _, t := range traces {
		if !in(only, t.name) {
			continue
		}
		if sizes != nil {
			t.sizes = sizes
		}
		keys := t.keys(n, rand.New(rand.NewPCG(seed, 0)))
		for _, size := range t.sizes {
			fmt.Fprintf(w, "| %s | %d |", t.name, size)
			for _, c := range chosen {
				fmt.Fprintf(w, " %.1f |", 100*float64(c.hits(keys, size))/float64(n))
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintln(w)
	for _, t := range traces {
		if in(only, t.name) {
			fmt.Fprintf(w, "- %s: %s\n", t.name, t.about)
		}
	}
}

// in reports whether name is in a list separated by commas; all are in none.
func in(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}

func playing(build func(size int) cache) func(keys []uint64, size int) int {
	return func(keys []uint64, size int) (hits int) {
		c := build(size)
		for _, k := range keys {
			if c.get(k) {
				hits++
			}
		}
		if c.close != nil {
			c.close()
		}
		return hits
	}
}
